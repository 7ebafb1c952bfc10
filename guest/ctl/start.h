/* A program that faces the guest, as the operands of a call describe it: `start`, which becomes it,
 * and what `supervise` shares with that. */
#ifndef GUEST_CTL_START_H
#define GUEST_CTL_START_H

#include "env.h"

struct ctl_start {
    struct ctl_env env;
    char **command; /* ends with NULL */
};

/* Read `[NAME=value ...] COMMAND ...`. CTL_EXIT_OK, or the exit status of a complaint. */
int ctl_start_read(char **operands, struct ctl_start *out);

/*
 * Where the command is `node -` and the image has CTL_WARM, have node load that first. Nothing else
 * is changed: node takes the option away before code of a guest sees its options.
 */
void ctl_start_warm(struct ctl_start *start);

/* Become the command. Returns only to say why not: the exit status of a complaint. */
int ctl_start_exec(const struct ctl_start *start);

#endif
