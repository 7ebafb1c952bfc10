/*
 * The end of a process that is not our child, from the kernel: a descriptor for it, and once it was
 * reaped its exit status. Kernels before 6.15 cannot say; then the Engine's word is waited for.
 */
#ifndef DOCKER_EXIT_H
#define DOCKER_EXIT_H

#include "core/core.h"

/* The exit code that a container's Engine would state for a wait status: 128 + signal for a kill.
 */
int docker_exit_code(int wait_status);

/*
 * A descriptor for `pid`, if its control group belongs to the container `id`; -1 otherwise. It
 * hangs up (POLLHUP) when the process was reaped.
 */
int docker_exit_open(int64_t pid, const char *id);

/* Does a process's cgroup file name the container on some line? Pure. */
bool docker_cgroup_names(plim_bytes cgroup, const char *id);

/* After the hang-up: its wait status. False when this kernel does not say. */
bool docker_exit_status(int pidfd, int *wait_status);

#endif
