/* plimsoll-guest, the control program inside a container: its verbs, as ctl.h describes them. */
#include "ctl.h"

#include "env.h"
#include "io.h"
#include "isolation.h"
#include "probe.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <plimsoll/version.h>

/* `arguments` are those after the verb, `count` of them, with a NULL after the last. The exit
 * status. */
typedef int (*verb_fn)(int count, char **arguments);

static int usage(void)
{
    ctl_complain("usage: start MARKER [NAME=value ...] COMMAND ... | run MARKER | "
                 "probe [--kernel] [--banner] [--socket] | version",
                 0);
    return CTL_EXIT_USAGE;
}

static int verb_start(int count, char **arguments)
{
    static struct ctl_env env;
    if (count < 2)
        return usage();
    if (!ctl_write_all(STDERR_FILENO, plim_bytes_of(arguments[0])))
        return CTL_EXIT_NO_REPORT;
    if (!ctl_env_init(&env) || !ctl_env_add_identity(&env))
        return CTL_EXIT_NO_EXEC;
    char **command = arguments + 1;
    while (*command && strchr(*command, '=')) {
        if (!ctl_env_put(&env, *command++)) {
            ctl_complain(CTL_ERROR_ENV, 0);
            return CTL_EXIT_NO_EXEC;
        }
    }
    if (!*command) {
        ctl_complain("no command after the environment", 0);
        return CTL_EXIT_NO_EXEC;
    }
    ctl_exec(command, &env);
    int error = errno;
    ctl_complain(*command, error);
    return error == ENOENT || error == ENOTDIR ? CTL_EXIT_NOT_FOUND : CTL_EXIT_NO_EXEC;
}

static int verb_run(int count, char **arguments)
{
    return count == 1 ? ctl_run(arguments[0]) : usage();
}

static int verb_probe(int count, char **arguments)
{
    struct ctl_probe_options options = {false, false, false};
    for (int i = 0; i < count; i++) {
        if (!strcmp(arguments[i], "--kernel"))
            options.kernel = true;
        else if (!strcmp(arguments[i], "--banner"))
            options.banner = true;
        else if (!strcmp(arguments[i], "--socket"))
            options.socket = true;
        else
            return usage();
    }
    return ctl_probe(&options);
}

static int verb_version(int count, char **arguments)
{
    char line[128];
    if (count)
        return usage();
    (void)arguments;
    snprintf(line, sizeof line, "plimsoll-guest " PLIM_VERSION " report %d\n", CTL_REPORT_VERSION);
    return ctl_write_all(STDOUT_FILENO, plim_bytes_of(line)) ? CTL_EXIT_OK : CTL_EXIT_NO_REPORT;
}

static const struct {
    const char *name;
    verb_fn run;
} verbs[] = {
    {"start", verb_start},
    {"run", verb_run},
    {"probe", verb_probe},
    {"version", verb_version},
};

int main(int argc, char **argv)
{
    if (!ctl_undumpable()) {
        ctl_complain("the dumpable flag cannot be cleared", 0);
        return CTL_EXIT_DUMPABLE;
    }
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (!strcmp(argv[1], verbs[i].name))
            return verbs[i].run(argc - 2, argv + 2);
    }
    return usage();
}
