/*
 * The flags of the command line: one table, one parser. A flag has one dash or two, its value
 * follows it or an equals sign; a switch may say =true or =false; `--` ends the flags, and `-`
 * alone is an operand. Pure: the options borrow from the command line.
 */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H

#include "base/base.h"

/* X(bit, name, kind, member of cli_options, form of the value, help) */
#define CLI_FLAGS(X)                                                                               \
    X(E, "e", TEXT, code, "CODE", "the code itself, instead of a file")                            \
    X(STEP, "step", LIST, steps, "CMD",                                                            \
      "run the regular files below FOLDER as a project: this shell command, and those of the "     \
      "other flags of this name after it")                                                         \
    X(ARTIFACT, "artifact", LIST, artifacts, "PATH",                                               \
      "bring this file of the project back; several of these flags name several")                  \
    X(OUT, "out", TEXT, out, "DIR",                                                                \
      "write the artifacts below this folder; what is there already is not written over")          \
    X(PROVIDER, "provider", TEXT, provider, "NAME",                                                \
      "the provider that runs it; without this flag SANDBOX_PROVIDER decides, and if that is "     \
      "unset, nothing runs")                                                                       \
    X(DAEMON, "daemon", TEXT, daemon, "URL",                                                       \
      "ask the daemon at this address instead of a provider of this process; the caller's token "  \
      "is taken from PLIMSOLL_CALLER_TOKEN and from nowhere else")                                 \
    X(CA_FILE, "ca-file", TEXT, ca_file, "FILE",                                                   \
      "PEM file of the authorities to trust for an https daemon, in place of the system's")        \
    X(INSECURE_HTTP, "insecure-http", SWITCH, insecure_http, "",                                   \
      "allow http to a daemon on another machine: code, output and token are readable on the way") \
    X(FLOOR, "floor", TEXT, floor, "TIER",                                                         \
      "the weakest tier that may run it: process, container, kernel or vm")                        \
    X(SOFTWARE, "software", LIST, software, "ID",                                                  \
      "the software identity that must run it; several of these flags name several that may")      \
    X(TIMEOUT, "timeout", DURATION, timeout_ms, "DURATION",                                        \
      "wall-clock budget, such as 250ms, 5s or 1m30s; 0 is the provider's default, and more than " \
      "the provider allows is cut")                                                                \
    X(GRANT, "grant", TEXT, grant, "NAME",                                                         \
      "the grant profile, by the name that the sandbox's operator gave it")                        \
    X(TRACE_ID, "trace-id", TEXT, trace_id, "ID", "a name for the request in logs")                \
    X(JSON, "json", SWITCH, json, "", "print one JSON object on stdout, and nothing else there")   \
    X(PASS_EXIT, "pass-exit", SWITCH, pass_exit, "",                                               \
      "exit with the guest's exit code; 124, 125 and 126 then have the meanings below")            \
    X(MARKDOWN, "markdown", SWITCH, markdown, "",                                                  \
      "print all of it as docs/command-line.md has it")                                            \
    X(SETTINGS_MARKDOWN, "settings-markdown", SWITCH, settings_markdown, "",                       \
      "print the environment variables as docs/configuration.md has them")

enum {
#define X(bit, ...) CLI_INDEX_##bit,
    CLI_FLAGS(X) CLI_FLAG_COUNT
#undef X
};

enum {
#define X(bit, ...) CLI_##bit = 1 << CLI_INDEX_##bit,
    CLI_FLAGS(X)
#undef X
};

typedef enum { CLI_KIND_TEXT, CLI_KIND_SWITCH, CLI_KIND_LIST, CLI_KIND_DURATION } cli_flag_kind;

typedef struct cli_flag {
    const char *name;
    cli_flag_kind kind;
    size_t offset; /* of its member in cli_options */
    const char *form, *help;
} cli_flag;

extern const cli_flag cli_flag_table[CLI_FLAG_COUNT];

/* How texts write a flag: two dashes, or one before a single letter. */
const char *cli_flag_dashes(const cli_flag *flag);

/* More than the contract's 100 artifacts, so that the refusal comes from the contract. */
enum { CLI_LIST_MAX = 128 };

typedef struct cli_list {
    plim_bytes items[CLI_LIST_MAX];
    size_t count;
} cli_list;

typedef struct cli_options {
    unsigned given; /* CLI_... bits of the flags that were there */
    bool help;
    char *operand; /* NULL when there was none */

    const char *code, *out, *provider, *daemon, *ca_file, *floor, *grant, *trace_id;
    cli_list steps, artifacts, software;
    int64_t timeout_ms;
    bool insecure_http, json, pass_exit, markdown, settings_markdown;
} cli_options;

/*
 * Read argv[1] and what follows by the flags in `allowed`, with at most `operands` operands (0 or
 * 1). False: the message says what is wrong. Stops at -h or -help.
 */
bool cli_flags_parse(int argc, char **argv, unsigned allowed, int operands, cli_options *out,
                     plim_error *err);

#endif
