#include "probe.h"

#include "ctl.h"
#include "io.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/klog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <plimsoll/version.h>

#include "common.h"

enum {
    DOCUMENT_BYTES_MAX = 8 << 20,
    STATUS_BYTES = 8 << 10,
    INTERFACES_BYTES = 64 << 10,
    KERNEL_BYTES = 512,
    REPLY_BYTES = 64,
    SYSLOG_READ_ALL = 3,
    MOUNTS_SEEN_MAX = 1024,
};

static void add_name(base_buf *json, const char *name)
{
    if (json->data[json->len - 1] != '{')
        base_buf_add_byte(json, ',');
    ctl_json_add_string(json, plim_bytes_of(name));
    base_buf_add_byte(json, ':');
}

static void add_text(base_buf *json, const char *name, const char *text)
{
    add_name(json, name);
    if (text)
        ctl_json_add_string(json, plim_bytes_of(text));
    else
        base_buf_add_text(json, "null");
}

/* Can a file that holds a byte be made in a folder? What takes names and no bytes, as message
 * queues do, is no storage. */
static bool folder_takes_bytes(const char *folder)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/.plimsoll-probe-%d", folder, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof path)
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool took = write(fd, "x", 1) == 1;
    close(fd);
    unlink(path);
    return took;
}

static bool is_writable(const char *mount)
{
    struct stat info;
    if (lstat(mount, &info) < 0)
        return false;
    if (S_ISDIR(info.st_mode))
        return folder_takes_bytes(mount);
    if (!S_ISREG(info.st_mode))
        return false;
    int fd = open(mount, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Was this mount point in the table before? Then it was tried already, and what is on top answered.
 */
static bool seen_before(plim_bytes before, const char *mount)
{
    char other[PATH_MAX];
    while (ctl_probe_next_mount(&before, other, sizeof other)) {
        if (!strcmp(other, mount))
            return true;
    }
    return false;
}

static void add_mounts(base_buf *json)
{
    base_buf table = BASE_BUF_INIT(CTL_PROBE_MOUNTS_MAX);
    _cleanup_fd_ int fd = open("/proc/mounts", O_RDONLY | O_CLOEXEC);
    bool read = fd >= 0 && ctl_read_all(fd, &table);
    add_text(json, "mounts", read ? base_buf_text(&table) : NULL);
    add_name(json, "writable");
    base_buf_add_byte(json, '[');
    bool first = true;
    char mount[PATH_MAX];
    plim_bytes all = base_buf_bytes(&table), rest = read ? all : (plim_bytes){NULL, 0};
    for (plim_bytes here = rest; ctl_probe_next_mount(&rest, mount, sizeof mount); here = rest) {
        plim_bytes before = {all.data, (size_t)(here.data - all.data)};
        if (seen_before(before, mount) || !is_writable(mount))
            continue;
        if (!first)
            base_buf_add_byte(json, ',');
        first = false;
        ctl_json_add_string(json, plim_bytes_of(mount));
    }
    base_buf_add_byte(json, ']');
    base_buf_free(&table);
}

static void add_process_limit(base_buf *json)
{
    char limit[CTL_PROBE_PIDS_MAX + 1];
    bool read = ctl_read_text("/sys/fs/cgroup/pids.max", limit, sizeof limit) ||
                ctl_read_text("/sys/fs/cgroup/pids/pids.max", limit, sizeof limit);
    limit[strcspn(limit, "\n")] = '\0';
    add_text(json, "pidsMax", read ? limit : NULL);
}

static void add_ids(base_buf *json)
{
    static const char *const lines[][2] = {{"uid", "Uid:"}, {"gid", "Gid:"}, {"groups", "Groups:"}};
    char status[STATUS_BYTES];
    ctl_read_text("/proc/self/status", status, sizeof status);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        add_name(json, lines[i][0]);
        ctl_probe_add_ids(json, status, lines[i][1]);
    }
}

static void add_interfaces(base_buf *json)
{
    static char table[INTERFACES_BYTES];
    add_name(json, "interfaces");
    if (ctl_read_text("/proc/net/dev", table, sizeof table))
        ctl_probe_add_interfaces(json, table);
    else
        base_buf_add_text(json, "null");
}

static void add_kernel(base_buf *json)
{
    struct utsname name;
    char version[KERNEL_BYTES];
    bool named = uname(&name) == 0, read = ctl_read_text("/proc/version", version, sizeof version);
    version[strcspn(version, "\n")] = '\0';
    add_name(json, "kernel");
    base_buf_add_byte(json, '{');
    add_text(json, "release", named ? name.release : NULL);
    add_text(json, "version", named ? name.version : NULL);
    add_text(json, "proc", read ? version : NULL);
    base_buf_add_byte(json, '}');
}

static void add_banner(base_buf *json)
{
    char text[CTL_PROBE_BANNER_MAX + 1];
    int len = klogctl(SYSLOG_READ_ALL, text, CTL_PROBE_BANNER_MAX);
    text[len > 0 ? len : 0] = '\0';
    add_text(json, "banner", len >= 0 ? text : NULL);
}

/* Wait for the socket; false when the time is over. */
static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd polled = {.fd = fd, .events = events};
    int64_t left = deadline - ctl_now_ms();
    return left > 0 && poll(&polled, 1, (int)left) > 0;
}

/* Connect, send a line, read one. */
static bool talk(int fd, char *reply, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = CTL_SOCKET};
    int64_t deadline = ctl_now_ms() + CTL_PROBE_WAIT_MS;
    size_t len = 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return false;
    if (send(fd, "ping\n", 5, MSG_NOSIGNAL) != 5)
        return true;
    while (len < size - 1 && !memchr(reply, '\n', len) && wait_for(fd, POLLIN, deadline)) {
        ssize_t got = recv(fd, reply + len, size - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    reply[len] = '\0';
    reply[strcspn(reply, "\n")] = '\0';
    return true;
}

static void add_socket(base_buf *json)
{
    char reply[REPLY_BYTES] = "";
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool connected = fd >= 0 && talk(fd, reply, sizeof reply);
    add_name(json, "socket");
    base_buf_add_text(json, connected ? "{\"connected\":true" : "{\"connected\":false");
    add_text(json, "reply", reply);
    base_buf_add_byte(json, '}');
}

int ctl_probe(const struct ctl_probe_options *options)
{
    char report[16];
    base_buf json = BASE_BUF_INIT(DOCUMENT_BYTES_MAX);
    snprintf(report, sizeof report, "%d", CTL_REPORT_VERSION);
    base_buf_add_byte(&json, '{');
    add_text(&json, "release", PLIM_VERSION);
    add_name(&json, "report");
    base_buf_add_text(&json, report);
    add_name(&json, "rootWritable");
    base_buf_add_text(&json, folder_takes_bytes("/") ? "true" : "false");
    add_mounts(&json);
    add_process_limit(&json);
    add_ids(&json);
    add_interfaces(&json);
    if (options->kernel)
        add_kernel(&json);
    if (options->banner)
        add_banner(&json);
    if (options->socket)
        add_socket(&json);
    base_buf_add_text(&json, "}\n");
    bool wrote = !json.failed && ctl_write_all(STDOUT_FILENO, base_buf_bytes(&json));
    base_buf_free(&json);
    return wrote ? CTL_EXIT_OK : CTL_EXIT_NO_REPORT;
}
