#include "providers/docker/cgroup.h"

#include <sys/pidfd.h>

enum { CGROUP_BYTES_MAX = 64 * 1024, ID_LEAST = 12 };

const docker_cgroup_file docker_cgroup_limit = {"pids", "pids.max", "pids.max"};
const docker_cgroup_file docker_cgroup_forks = {"pids", "pids.events", "pids.events"};
const docker_cgroup_file docker_cgroup_kills = {"memory", "memory.events", "memory.oom_control"};

static bool names(plim_bytes text, const char *id)
{
    return strlen(id) >= ID_LEAST && text.len && memmem(text.data, text.len, id, strlen(id));
}

static bool read_lines(int64_t pid, base_buf *out)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/cgroup", pid);
    return pid > 0 && base_read_file(path, out, NULL);
}

int docker_process_open(int64_t pid, const char *id)
{
    _cleanup_buf_ base_buf lines = BASE_BUF_INIT(CGROUP_BYTES_MAX);
    if (pid <= 0 || pid > INT32_MAX)
        return -1;
    _cleanup_fd_ int fd = pidfd_open((pid_t)pid, 0);
    /* Read after the descriptor was opened: it is this process, or the descriptor has hung up. */
    if (fd < 0 || !read_lines(pid, &lines) || !names(base_buf_bytes(&lines), id))
        return -1;
    return TAKE_FD(fd);
}

/* The path of a line `number:controllers:path` for that controller, or with `*v2` that of the one
 * hierarchy; no bytes for another line. */
static plim_bytes path_of(plim_bytes line, const char *controller, bool *v2)
{
    char wanted[32];
    const char *first = memchr(line.data, ':', line.len);
    const char *second =
        first ? memchr(first + 1, ':', line.len - (size_t)(first + 1 - line.data)) : NULL;
    if (!second)
        return (plim_bytes){NULL, 0};
    _cleanup_buf_ base_buf listed = BASE_BUF_INIT(1024);
    base_buf_printf(&listed, ",%.*s,", (int)(second - first - 1), first + 1);
    snprintf(wanted, sizeof(wanted), ",%s,", controller);
    *v2 = second == first + 1 && line.data[0] == '0' && first == line.data + 1;
    if (!*v2 && !strstr(base_buf_text(&listed), wanted))
        return (plim_bytes){NULL, 0};
    return (plim_bytes){second + 1, line.len - (size_t)(second + 1 - line.data)};
}

bool docker_cgroup_path(plim_bytes cgroup, const char *id, const docker_cgroup_file *file,
                        char *out, size_t size)
{
    plim_bytes v1 = {NULL, 0}, v2 = {NULL, 0};
    while (cgroup.len) {
        const char *end = memchr(cgroup.data, '\n', cgroup.len);
        plim_bytes line = {cgroup.data, end ? (size_t)(end - cgroup.data) : cgroup.len};
        size_t used = line.len + (end ? 1 : 0);
        bool is_v2 = false;
        plim_bytes path = path_of(line, file->controller, &is_v2);
        if (path.len)
            *(is_v2 ? &v2 : &v1) = path;
        cgroup = (plim_bytes){cgroup.data + used, cgroup.len - used};
    }
    plim_bytes path = v1.len ? v1 : v2;
    if (!names(path, id))
        return false;
    int length = snprintf(out, size, "/sys/fs/cgroup%s%s%.*s/%s", v1.len ? "/" : "",
                          v1.len ? file->controller : "", (int)path.len, path.data,
                          v1.len ? file->v1 : file->v2);
    return (size_t)length < size;
}

bool docker_cgroup_read(int64_t pid, const char *id, const docker_cgroup_file *file, base_buf *out)
{
    char path[PATH_MAX];
    _cleanup_buf_ base_buf lines = BASE_BUF_INIT(CGROUP_BYTES_MAX);
    return read_lines(pid, &lines) &&
           docker_cgroup_path(base_buf_bytes(&lines), id, file, path, sizeof(path)) &&
           base_read_file(path, out, NULL);
}
