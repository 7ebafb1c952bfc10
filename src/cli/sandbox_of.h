/* The sandbox of a verb: a daemon, the provider that a flag names, or the environment's. */
#ifndef CLI_SANDBOX_OF_H
#define CLI_SANDBOX_OF_H

#include "cli/cli.h"

BASE_CLEANUP_FN(plim_sandbox, plim_sandbox_free, cli_sandbox_freep)
BASE_CLEANUP_FN(plim_result, plim_result_free, cli_result_freep)
BASE_CLEANUP_FN(plim_info, plim_info_free, cli_info_freep)
BASE_CLEANUP_FN(plim_cancel, plim_cancel_free, cli_cancel_freep)

/* Open what the CLI_WHERE flags say; without any, the provider that the environment names. */
bool cli_sandbox_open(const cli_options *options, plim_sandbox **out, plim_error *err);

/*
 * Say an error as the last line on stderr and, with --json, also on stdout. `unmarked` is what can
 * be said of one that carries no promise that nothing ran. The exit status.
 */
int cli_report_error(const plim_error *err, const cli_options *options, const char *unmarked);

#endif
