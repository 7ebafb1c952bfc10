/*
 * The first process of a container, held from outside: a descriptor that becomes readable as soon
 * as that process has ended, which is long before the Engine says so.
 */
#ifndef DOCKER_EXIT_H
#define DOCKER_EXIT_H

#include "core/core.h"

/* A descriptor for `pid`, if its control group belongs to the container `id`; -1 otherwise. */
int docker_exit_open(int64_t pid, const char *id);

/* Does a process's cgroup file name the container on some line? Pure. */
bool docker_cgroup_names(plim_bytes cgroup, const char *id);

#endif
