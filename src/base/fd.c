#include "base/base.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

void base_fd_close(int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved;
}

void base_fd_occupy_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) {
            int made = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            if (made != fd)
                base_fd_close(&made);
        }
}

static uint64_t limit_before;

uint64_t base_fd_limit_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur == before || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return before;
    limit_before = before;
    return limit.rlim_cur;
}

uint64_t base_fd_limit_before(void)
{
    return limit_before;
}

bool base_write_all(int fd, plim_bytes bytes)
{
    bool is_socket = true;
    while (bytes.len) {
        ssize_t count = is_socket ? send(fd, bytes.data, bytes.len, MSG_NOSIGNAL)
                                  : write(fd, bytes.data, bytes.len);
        if (count < 0 && errno == ENOTSOCK && is_socket) {
            is_socket = false;
            continue;
        }
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        bytes = (plim_bytes){bytes.data + count, bytes.len - (size_t)count};
    }
    return true;
}

bool base_read_all(int fd, base_buf *buf)
{
    char chunk[16384];
    for (;;) {
        ssize_t count = read(fd, chunk, sizeof(chunk));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        if (count == 0)
            return true;
        if (!base_buf_add(buf, (plim_bytes){chunk, (size_t)count})) {
            errno = buf->len + (size_t)count > buf->max ? EFBIG : ENOMEM;
            return false;
        }
    }
}

bool base_read_file(const char *path, base_buf *buf, plim_error *err)
{
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && base_read_all(fd, buf))
        return true;
    if (errno == EFBIG)
        return plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                           "%s is larger than %zu bytes", path, buf->max);
    return plim_refuse(err, PLIM_E_IO, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                       "cannot read %s: %s", path, base_errno_text(errno));
}
