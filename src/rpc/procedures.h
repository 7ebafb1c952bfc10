/* What the files of plimsoll's own procedures share. */
#ifndef RPC_PROCEDURES_H
#define RPC_PROCEDURES_H

#include "rpc/rpc.h"

/* The first check of every procedure but Describe. */
bool rpc_check_protocol(uint32_t protocol, plim_error *err);

/* What the caller may see of an error: one of the daemon's own affairs becomes a number that one
 * line of the log has too. The mark stays. */
void rpc_conceal(const plim_error *err, plim_error *shown);

rpc_handle rpc_run;
void rpc_run_release(rpc_call *call);

#endif
