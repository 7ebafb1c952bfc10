/*
 * The command line `plimsoll`: what its verbs share. Everything here runs in one thread, before and
 * after the library is called; the tables (verbs, flags, exit statuses) are the only place where
 * usage, --help and docs/command-line.md take their facts from.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "core/core.h"

#include <plimsoll/plimsoll.h>

#include "cli/flags.h"

/* X(name, number, meaning): the exit statuses of `run` and `describe`. */
#define CLI_EXITS(X)                                                                               \
    X(OK, 0, "answered, and the guest exited 0")                                                   \
    X(OTHERWISE, 1, "answered otherwise: another exit code, a timeout, output that was lost")      \
    X(USAGE, 2, "the command line is wrong")                                                       \
    X(NOTHING_RAN, 3, "nothing ran; the reason is on stderr")                                      \
    X(MAY_HAVE_RUN, 4, "an error after which the code may have run")

/* The same for `run --pass-exit`, whose other statuses are the guest's own. */
#define CLI_PASSED_EXITS(X)                                                                        \
    X(TIMED_OUT, 124, "timed out")                                                                 \
    X(NOTHING_RAN, 125, "nothing ran")                                                             \
    X(MAY_HAVE_RUN, 126, "may have run")

enum {
#define X(name, number, meaning) CLI_EXIT_##name = number,
    CLI_EXITS(X)
#undef X
#define X(name, number, meaning) CLI_PASSED_##name = number,
        CLI_PASSED_EXITS(X)
#undef X
};

/* The flags that say where to run. */
#define CLI_WHERE (CLI_PROVIDER | CLI_DAEMON | CLI_CA_FILE | CLI_INSECURE_HTTP)

/* X(verb, arguments, how many operands, flags, what it does, more about it) */
#define CLI_VERBS(X)                                                                               \
    X(run, "FILE | - | -e CODE | --step CMD FOLDER", 1,                                            \
      CLI_E | CLI_STEP | CLI_ARTIFACT | CLI_OUT | CLI_WHERE | CLI_GRANT | CLI_FLOOR |              \
          CLI_SOFTWARE | CLI_TIMEOUT | CLI_TRACE_ID | CLI_JSON | CLI_PASS_EXIT,                    \
      "run one snippet of JavaScript, or one project, and print what it prints",                   \
      "FILE is read from disk, - from standard input; a link or a special file below FOLDER is "   \
      "refused. What the guest writes goes to stdout and "                                         \
      "stderr byte for byte; on a terminal, control characters other than tab and newline are "    \
      "replaced. The last line on stderr is ours: provider, tier, how the guest ended, duration, " \
      "what was cut and, from a daemon, the digest of the record that was checked.")               \
    X(describe, "", 0, CLI_WHERE | CLI_JSON,                                                       \
      "say which provider is chosen, its tier, what it runs and within which limits",              \
      "A provider of this process is started and its startup test is run first; a daemon states "  \
      "what it proved at its start. Exit status 3 means that it would run nothing, 4 that no "     \
      "description came; the reason is on stderr.")                                                \
    X(doctor, "", 0, CLI_JSON, "say which tiers this machine can offer, and on what evidence",     \
      "Starts the wasm provider and runs its startup test; looks at everything else without "      \
      "using it. Needs no network. Exit status 1 means that no tier can be offered.")              \
    X(callers, "COMMAND --file PATH [FLAGS]", 0, 0,                                                \
      "make, list and retire the callers of a daemon in its registry file",                        \
      "Works offline. The commands are create, import, limit, list, rotate and revoke; "           \
      "`plimsoll callers help` has their flags. Exit status 1 means that the file is as it was, "  \
      "unless the message says otherwise.")                                                        \
    X(help, "[VERB]", 1, CLI_MARKDOWN | CLI_SETTINGS_MARKDOWN,                                     \
      "print this, or the help of a verb", "")

typedef struct cli_verb {
    const char *name, *arguments;
    int operands;   /* at most this many */
    unsigned flags; /* CLI_... bits */
    const char *summary, *detail;
    int (*main)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
} cli_verb;

extern const cli_verb cli_verb_table[];
extern const size_t cli_verb_count;

/* The verb of a name, or NULL. */
const cli_verb *cli_verb_find(const char *name);

#define X(name, ...) int cli_##name(int argc, char **argv);
CLI_VERBS(X)
#undef X

/*
 * Read the flags of the verb that argv[0] names. False: `*status` is the exit status, because help
 * was asked for and printed, or because the command line is wrong and that was said.
 */
bool cli_begin(int argc, char **argv, cli_options *out, int *status);

/* Say on stderr what is wrong with a command line; the exit status for it. */
int cli_usage_error(const char *verb, const char *format, ...) PLIM_PRINTF(2, 3);

/* The general usage, and that of one verb. */
void cli_usage(base_buf *out);
void cli_verb_usage(const cli_verb *verb, base_buf *out);

#endif
