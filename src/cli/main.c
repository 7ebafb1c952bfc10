/* The entry of `plimsoll`: the verb table, and what must hold before any verb runs. */
#include "cli/cli.h"

#include "cli/output.h"

#include <signal.h>

const cli_verb cli_verb_table[] = {
#define X(name, arguments, operands, flags, summary, detail)                                       \
    {#name, arguments, operands, flags, summary, detail, cli_##name},
    CLI_VERBS(X)
#undef X
};

const size_t cli_verb_count = PLIM_COUNT(cli_verb_table);

const cli_verb *cli_verb_find(const char *name)
{
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verb_table[i].name, name) == 0)
            return &cli_verb_table[i];
    return NULL;
}

int cli_usage_error(const char *verb, const char *format, ...)
{
    char text[PLIM_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_say("%s; plimsoll %s%s--help shows what is possible", text, verb, verb[0] ? " " : "");
    return CLI_EXIT_USAGE;
}

/* What is wrong with flags that are right one by one, or NULL. None of them is ever ignored. */
static const char *contradiction(const cli_options *options)
{
    bool daemon = options->given & CLI_DAEMON;
    if (daemon && (options->given & CLI_PROVIDER))
        return "a daemon has its own provider: --daemon or --provider";
    if (!daemon && (options->given & CLI_CA_FILE))
        return "--ca-file is about a daemon, and there is no --daemon";
    if (!daemon && (options->given & CLI_INSECURE_HTTP))
        return "--insecure-http is about a daemon, and there is no --daemon";
    if ((options->given & CLI_CA_FILE) && !options->ca_file[0])
        return "--ca-file is empty";
    if ((options->given & CLI_GRANT) && !options->grant[0])
        return "--grant is empty";
    return options->operand && !options->operand[0] ? "an argument is empty" : NULL;
}

bool cli_begin(int argc, char **argv, cli_options *out, int *status)
{
    const cli_verb *verb = cli_verb_find(argv[0]);
    plim_error err = PLIM_ERROR_INIT;
    if (!cli_flags_parse(argc, argv, verb->flags, verb->operands, out, &err)) {
        *status = cli_usage_error(verb->name, "%s", plim_error_message(&err));
        return false;
    }
    if (!out->help) {
        const char *wrong = contradiction(out);
        if (wrong)
            *status = cli_usage_error(verb->name, "%s", wrong);
        return !wrong;
    }
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(65536);
    cli_verb_usage(verb, &text);
    *status = cli_print(&text);
    return false;
}

static int print_version(void)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(256);
    base_buf_printf(&text, "plimsoll %s\n", plim_version());
    return cli_print(&text);
}

static bool is_flag(const char *argument, const char *name)
{
    return argument[0] == '-' && strcmp(argument + (argument[1] == '-' ? 2 : 1), name) == 0;
}

/* An installed link of this name is the subcommand by itself. */
static bool is_clients_link(const char *program)
{
    const char *slash = program ? strrchr(program, '/') : NULL;
    return program && strcmp(slash ? slash + 1 : program, "plimsoll-clients") == 0;
}

int main(int argc, char **argv)
{
    base_fd_occupy_standard();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write */
    if (is_clients_link(argv[0]))
        return cli_callers(argc, argv);
    _cleanup_buf_ base_buf usage = BASE_BUF_INIT(65536);
    cli_usage(&usage);
    if (argc < 2) {
        bool written = cli_write(STDERR_FILENO, base_buf_bytes(&usage));
        (void)written; /* there is no other place to say so */
        return CLI_EXIT_USAGE;
    }
    if (is_flag(argv[1], "h") || is_flag(argv[1], "help"))
        return cli_print(&usage);
    if (is_flag(argv[1], "version"))
        return print_version();
    const cli_verb *verb = cli_verb_find(argv[1]);
    if (!verb)
        return cli_usage_error("", "there is no %s \"%s\"", argv[1][0] == '-' ? "flag" : "verb",
                               argv[1]);
    return verb->main(argc - 1, argv + 1);
}
