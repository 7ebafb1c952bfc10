#include "start.h"

#include "ctl.h"
#include "io.h"

#include <errno.h>
#include <unistd.h>

int ctl_start_read(char **operands, struct ctl_start *out)
{
    if (!ctl_env_init(&out->env) || !ctl_env_add_identity(&out->env))
        return CTL_EXIT_NO_EXEC;
    while (*operands && strchr(*operands, '=')) {
        if (!ctl_env_put(&out->env, *operands++)) {
            ctl_complain(CTL_ERROR_ENV, 0);
            return CTL_EXIT_NO_EXEC;
        }
    }
    out->command = operands;
    if (*operands)
        return CTL_EXIT_OK;
    ctl_complain("no command after the environment", 0);
    return CTL_EXIT_NO_EXEC;
}

void ctl_start_warm(struct ctl_start *start)
{
    static char option[] = "--require", file[] = CTL_WARM, input[] = "-";
    static char *warm[] = {NULL, option, file, input, NULL};
    char **command = start->command;
    if (!command[0] || strcmp(command[0], "node") != 0 || !command[1] ||
        strcmp(command[1], "-") != 0 || command[2] || access(file, R_OK) != 0)
        return;
    warm[0] = command[0];
    start->command = warm;
}

int ctl_start_exec(const struct ctl_start *start)
{
    ctl_exec(start->command, &start->env);
    int error = errno;
    ctl_complain(start->command[0], error);
    return error == ENOENT || error == ENOTDIR ? CTL_EXIT_NOT_FOUND : CTL_EXIT_NO_EXEC;
}
