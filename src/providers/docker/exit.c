#include "providers/docker/exit.h"

#include <sys/pidfd.h>

enum { CGROUP_BYTES_MAX = 64 * 1024 };

bool docker_cgroup_names(plim_bytes cgroup, const char *id)
{
    return id[0] && cgroup.len && memmem(cgroup.data, cgroup.len, id, strlen(id));
}

int docker_exit_open(int64_t pid, const char *id)
{
    char path[64];
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(CGROUP_BYTES_MAX);
    if (pid <= 0 || pid > INT32_MAX)
        return -1;
    _cleanup_fd_ int fd = pidfd_open((pid_t)pid, 0);
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/cgroup", pid);
    /* Read after the descriptor was opened: it is this process, or the descriptor has hung up. */
    if (fd < 0 || !base_read_file(path, &text, NULL) ||
        !docker_cgroup_names(base_buf_bytes(&text), id))
        return -1;
    return TAKE_FD(fd);
}
