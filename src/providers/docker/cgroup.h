/*
 * A container from this host's side, by the process ID that the Engine states: a descriptor of its
 * first process, and the files of its control group. Nothing is believed of a process whose control
 * group does not name the container: the number may be another's by now.
 */
#ifndef DOCKER_CGROUP_H
#define DOCKER_CGROUP_H

#include "core/core.h"

/* A descriptor that becomes readable as soon as the process has ended, which is long before the
 * Engine says so. -1 when it is not the container's. */
int docker_process_open(int64_t pid, const char *id);

/* A file of a controller: its names in cgroup v2 and v1. */
typedef struct docker_cgroup_file {
    const char *controller, *v2, *v1;
} docker_cgroup_file;

extern const docker_cgroup_file docker_cgroup_limit, docker_cgroup_forks, docker_cgroup_kills;

/* Where it is, from the text of a process's cgroup file: the v1 line goes before v2's. Pure. False:
 * no line, or it does not name the container. */
bool docker_cgroup_path(plim_bytes cgroup, const char *id, const docker_cgroup_file *file,
                        char *out, size_t size);

/* What it says now. False: unreadable, or not the container's. */
bool docker_cgroup_read(int64_t pid, const char *id, const docker_cgroup_file *file, base_buf *out);

#endif
