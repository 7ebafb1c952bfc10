/* A binary request as what its digest is over; the rest of exchange.c is public. */
#ifndef CLIENT_EXCHANGE_H
#define CLIENT_EXCHANGE_H

#include "client/client.h"

/*
 * Describe a binary RunRequest as it stands: it may be one that no daemon would serve. What is made
 * lives in the arena and borrows `bytes`. False: no such message, or a table whose rows differ in
 * width.
 */
bool client_describe_request(base_arena *arena, plim_bytes bytes, record_request *out,
                             plim_error *err) PLIM_MUST_USE;

#endif
