#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { READ_BYTES = 64 << 10 };

int64_t ctl_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool ctl_write_all(int fd, plim_bytes bytes)
{
    while (bytes.len) {
        ssize_t wrote = write(fd, bytes.data, bytes.len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        bytes = (plim_bytes){bytes.data + wrote, bytes.len - (size_t)wrote};
    }
    return true;
}

bool ctl_read_all(int fd, base_buf *buf)
{
    for (;;) {
        size_t room = buf->max - buf->len;
        size_t want = room < READ_BYTES ? room + 1 : READ_BYTES;
        char spare[1], *to = room ? base_buf_reserve(buf, want > room ? room : want) : spare;
        if (!to) {
            errno = ENOMEM;
            return false;
        }
        ssize_t got = read(fd, to, room ? (want > room ? room : want) : 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        if (!room) {
            errno = EFBIG;
            return false;
        }
        buf->len += (size_t)got;
    }
}

bool ctl_read_text(const char *path, char *out, size_t size)
{
    size_t len = 0;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    while (fd >= 0 && len < size - 1) {
        got = read(fd, out + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (got < 0)
        len = 0;
    out[len] = '\0';
    return fd >= 0 && got >= 0;
}

void ctl_complain(const char *what, int error)
{
    char line[512];
    base_buf text = BASE_BUF_INIT(sizeof line);
    base_buf_add_text(&text, "plimsoll-guest: ");
    base_buf_add_text(&text, what);
    if (error) {
        base_buf_add_text(&text, ": ");
        base_buf_add_text(&text, strerrordesc_np(error));
    }
    base_buf_add_byte(&text, '\n');
    if (!ctl_write_all(STDERR_FILENO, base_buf_bytes(&text)))
        errno = 0; /* nobody is left to tell */
    base_buf_free(&text);
}
