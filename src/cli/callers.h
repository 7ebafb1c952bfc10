/*
 * `plimsoll callers`: makes, lists and retires the callers of a daemon in a registry file. Works
 * offline and stores only fingerprints; a token leaves on stdout and nowhere else.
 */
#ifndef CLI_CALLERS_H
#define CLI_CALLERS_H

/* Run the subcommand: argv[1] is its command. Returns the exit status, 0 or 1. Ignores SIGPIPE for
 * the process. */
int cli_callers(int argc, char **argv);

#endif
