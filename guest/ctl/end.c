#include "end.h"

#include "io.h"
#include "sha256.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>

enum { CGROUP_TEXT_BYTES = 1024 };

static uint32_t read_counter(const char *path, const char *name)
{
    char text[CGROUP_TEXT_BYTES];
    return ctl_read_text(path, text, sizeof text) ? ctl_end_counter(text, name) : CTL_END_UNKNOWN;
}

/* From the file of cgroup v2, or else from that of v1. */
static uint32_t read_either(const char *v2, const char *v1, const char *name)
{
    uint32_t value = read_counter(v2, name);
    return value != CTL_END_UNKNOWN ? value : read_counter(v1, name);
}

uint32_t ctl_end_full_places(void)
{
    static const char *const places[] = {"/tmp", "/dev/shm", CTL_WORK};
    uint32_t full = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct statvfs info;
        if (statvfs(places[i], &info) == 0 && !(info.f_flag & ST_RDONLY) && info.f_blocks > 0 &&
            (info.f_bavail == 0 || (info.f_files > 0 && info.f_favail == 0)))
            full++;
    }
    return full;
}

void ctl_end_frame(const struct ctl_end *end, const char *stream,
                   const unsigned char key[CTL_KEY_BYTES], char out[CTL_END_BYTES])
{
    unsigned char mac[CTL_SHA256_BYTES];
    struct ctl_hmac hmac;
    out[0] = '\n';
    ctl_end_text(end, out + 1);
    ctl_hmac_begin(&hmac, key, CTL_KEY_BYTES);
    ctl_hmac_add(&hmac, stream, strlen(stream));
    ctl_hmac_add(&hmac, out + 1, CTL_END_SIGNED_BYTES);
    ctl_hmac_end(&hmac, mac);
    explicit_bzero(&hmac, sizeof hmac);
    char *at = out + 1 + CTL_END_SIGNED_BYTES;
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(at + 2 * i, 3, "%02x", mac[i]); /* the last terminator is where the newline goes */
    at[CTL_MAC_HEX] = '\n';
}

static bool write_frame(int fd, const unsigned char key[CTL_KEY_BYTES], const char *stream,
                        const struct ctl_end *end)
{
    char frame[CTL_END_BYTES];
    ctl_end_frame(end, stream, key, frame);
    /* A guest shares the open file, and may have left it non-blocking. */
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 &&
           ctl_write_all(fd, (plim_bytes){frame, CTL_END_BYTES});
}

bool ctl_end_write(const int streams[2], const unsigned char key[CTL_KEY_BYTES], int status,
                   uint32_t disk)
{
    struct ctl_end end = {
        .status = (uint32_t)status,
        .memory = read_either("/sys/fs/cgroup/memory.events",
                              "/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
        .pids = read_either("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events", "max"),
        .disk = disk,
    };
    return write_frame(streams[0], key, CTL_END_STDOUT, &end) &&
           write_frame(streams[1], key, CTL_END_STDERR, &end);
}
