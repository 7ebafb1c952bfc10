/* plimsoll-guest, the control program inside a container: its verbs, as ctl.h describes them. */
#include "ctl.h"

#include "io.h"
#include "isolation.h"
#include "probe.h"
#include "run.h"
#include "start.h"
#include "supervise.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <plimsoll/version.h>

/* `arguments` are those after the verb, `count` of them, with a NULL after the last. The exit
 * status. */
typedef int (*verb_fn)(int count, char **arguments);

static int usage(void)
{
    ctl_complain("usage: start MARKER [NAME=value ...] COMMAND ... | "
                 "supervise MARKER [NAME=value ...] COMMAND ... | run MARKER | probe [--kernel] "
                 "[--banner] [--socket] | version",
                 0);
    return CTL_EXIT_USAGE;
}

static int verb_start(int count, char **arguments)
{
    static struct ctl_start start;
    if (count < 2)
        return usage();
    if (!ctl_write_all(STDERR_FILENO, plim_bytes_of(arguments[0])))
        return CTL_EXIT_NO_REPORT;
    int status = ctl_start_read(arguments + 1, &start);
    return status == CTL_EXIT_OK ? ctl_start_exec(&start) : status;
}

static int verb_supervise(int count, char **arguments)
{
    return count < 2 ? usage() : ctl_supervise(arguments[0], arguments + 1);
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
    {"start", verb_start}, {"supervise", verb_supervise}, {"run", verb_run},
    {"probe", verb_probe}, {"version", verb_version},
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
