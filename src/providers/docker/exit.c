#include "providers/docker/exit.h"

#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

/* struct pidfd_info of Linux 6.13 and its exit member of 6.15; older headers lack both. */
struct exit_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define EXIT_INFO_CALL _IOWR(0xFF, 11, struct exit_info)
#define EXIT_INFO_BIT  (UINT64_C(1) << 3)

enum { CGROUP_BYTES_MAX = 64 * 1024 };

int docker_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

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

bool docker_exit_status(int pidfd, int *wait_status)
{
    struct exit_info info = {.mask = EXIT_INFO_BIT};
    if (ioctl(pidfd, EXIT_INFO_CALL, &info) != 0 || !(info.mask & EXIT_INFO_BIT))
        return false;
    *wait_status = info.exit_code;
    return true;
}
