/* What `run` says of a result: the guest's output, JSON, the line on stderr, the exit status. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/cli.h"

/* Print a result and write its artifacts below `out_folder` (-1 without --out). The exit status. */
int cli_report_result(const plim_result *result, const cli_options *options, int out_folder);

#endif
