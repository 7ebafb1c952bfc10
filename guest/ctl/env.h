/*
 * The environment and the start of a program that faces the guest. An environment is a list in
 * which the last value of a name wins and keeps the first one's place, as `env` would have it.
 * Entries are borrowed C strings, or copies in the list's own arena.
 */
#ifndef GUEST_CTL_ENV_H
#define GUEST_CTL_ENV_H

#include "common.h"

enum {
    CTL_ENV_ENTRIES_MAX = 2048,
    CTL_ENV_COPIED_MAX = 4 << 20, /* bytes of entries that are made here */
};

struct ctl_env {
    char *entries[CTL_ENV_ENTRIES_MAX + 1]; /* ends with NULL */
    size_t count;
    base_arena *arena;
};

/* Set up, empty. False when memory is out. */
bool ctl_env_init(struct ctl_env *env);

/* Set "NAME=value", borrowed. False when it has no name, or the list is full. */
bool ctl_env_put(struct ctl_env *env, char *entry);

/* Set `name` to a copy of `value`, after `before` (which may be ""). False as above, or out of
 * memory. */
bool ctl_env_set(struct ctl_env *env, const char *name, const char *before, const char *value);

/* The value of a name, or NULL. */
const char *ctl_env_get(const struct ctl_env *env, const char *name);

/* What stands first in a guest's environment: PATH, HOME and HOSTNAME, each unless the list has it.
 */
bool ctl_env_add_identity(struct ctl_env *env);

/*
 * The home of a user ID, as decimal text, in the text of a passwd file: a slice of it, or no bytes
 * when the ID is not in there. Pure.
 */
plim_bytes ctl_home_of(plim_bytes passwd, plim_bytes uid);

/* Become `argv`, looked up in the PATH of `env`, with no descriptor but the standard three. Returns
 * only when that failed, with errno set. */
void ctl_exec(char *const argv[], const struct ctl_env *env);

#endif
