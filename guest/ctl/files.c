#include "files.h"

#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum {
    FILE_MODE = 0644,
    FOLDER_MODE = 0755,
};

bool ctl_root_open(struct ctl_root *root, const char *path)
{
    int len = snprintf(root->path, sizeof root->path, "%s", path);
    if (len < 0 || (size_t)len >= sizeof root->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (mkdir(path, FOLDER_MODE) < 0 && errno != EEXIST)
        return false;
    root->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root->fd >= 0 && realpath(path, root->real);
}

/* Append one part of a path to `out`, working out `.` and `..`. `*len` is what is in `out`. */
static bool add_part(char *out, size_t *len, plim_bytes part)
{
    if (part.len == 0 || base_bytes_is(part, "."))
        return true;
    if (base_bytes_is(part, "..")) {
        while (*len && out[--*len] != '/')
            ;
        return true;
    }
    if (part.len + 1 > PATH_MAX - 1 - *len)
        return false;
    out[(*len)++] = '/';
    memcpy(out + *len, part.data, part.len);
    *len += part.len;
    return true;
}

static bool add_parts(char *out, size_t *len, plim_bytes path)
{
    while (path.len) {
        const char *slash = memchr(path.data, '/', path.len);
        size_t part = slash ? (size_t)(slash - path.data) : path.len;
        if (!add_part(out, len, (plim_bytes){path.data, part}))
            return false;
        part += slash ? 1 : 0;
        path = (plim_bytes){path.data + part, path.len - part};
    }
    return true;
}

/* What of an absolute, worked-out path is below `root`; NULL when it is not. */
static const char *below(const char *root, const char *path)
{
    size_t len = strlen(root);
    if (len == 1) /* "/" */
        return path + 1;
    if (strncmp(root, path, len) != 0)
        return NULL;
    if (path[len] == '\0')
        return path + len;
    return path[len] == '/' ? path + len + 1 : NULL;
}

bool ctl_path_inside(const char *root, plim_bytes path, char out[PATH_MAX])
{
    char whole[PATH_MAX], clean_root[PATH_MAX];
    size_t len = 0, root_len = 0;
    if (!add_parts(clean_root, &root_len, plim_bytes_of(root)) || memchr(path.data, '\0', path.len))
        return false;
    clean_root[root_len] = '\0';
    bool absolute = path.len && path.data[0] == '/';
    if ((!absolute && !add_parts(whole, &len, plim_bytes_of(root))) ||
        !add_parts(whole, &len, path))
        return false;
    whole[len] = '\0';
    const char *inside = below(clean_root, whole);
    if (inside)
        memmove(out, inside, strlen(inside) + 1);
    return inside != NULL;
}

/*
 * Open a path below a directory without following a link anywhere in it. Where the kernel has no
 * call for that (gVisor), or a filter hides it, each part is opened by itself, which comes to the
 * same.
 */
static int open_below(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    _cleanup_fd_ int folder = -1;
    int from = root;
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        char part[NAME_MAX + 1];
        size_t len = (size_t)(slash - path);
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, path, len);
        part[len] = '\0';
        int next = openat(from, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -1;
        base_fd_close(&folder);
        from = folder = next;
    }
    return openat(from, *path ? path : ".", flags | O_NOFOLLOW | O_CLOEXEC);
}

/* Make and open the folders of `path` one below the other, starting from a folder, whose descriptor
 * is taken. -1 with errno set. */
static int make_folders(int from, const char *path)
{
    while (from >= 0 && *path) {
        char part[NAME_MAX + 1];
        size_t len = strcspn(path, "/");
        _cleanup_fd_ int folder = TAKE_FD(from);
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, path, len);
        part[len] = '\0';
        path += path[len] ? len + 1 : len;
        if (mkdirat(folder, part, FOLDER_MODE) < 0 && errno != EEXIST)
            return -1;
        from = openat(folder, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return from;
}

/*
 * Open the folder `path` of the root, made as far as it is missing: what exists of it is resolved,
 * links and all, and must then lie inside. -1 with a fault.
 */
static int open_folder(const struct ctl_root *root, const char *path, enum ctl_file_fault *fault)
{
    char whole[2 * PATH_MAX], real[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", root->real, path);
    size_t len = strlen(whole), base = len - 1 - strlen(path); /* `base`: of the root in it */
    *fault = CTL_FILE_FAILED;
    while (!realpath(whole, real)) {
        if (errno != ENOENT || len <= base)
            return -1;
        while (len > base && whole[--len] != '/')
            ;
        whole[len] = '\0';
    }
    const char *inside = below(root->real, real);
    if (!inside) {
        *fault = CTL_FILE_OUTSIDE;
        return -1;
    }
    const char *missing = len > base ? path + (len - base - 1) : path;
    missing += *missing == '/' ? 1 : 0;
    return make_folders(open_below(root->fd, inside, O_PATH | O_DIRECTORY), missing);
}

/* Replace what is in an open file. It is truncated only once it is known to be one. */
static enum ctl_file_fault replace(int fd, plim_bytes content)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return CTL_FILE_FAILED;
    if (!S_ISREG(info.st_mode))
        return CTL_FILE_NOT_REGULAR;
    return ftruncate(fd, 0) == 0 && ctl_write_all(fd, content) ? CTL_FILE_OK : CTL_FILE_FAILED;
}

/* Write a file in a folder. */
static enum ctl_file_fault write_in(int folder, const char *name, plim_bytes content)
{
    const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(folder, name, flags, FILE_MODE);
    if (fd >= 0) {
        enum ctl_file_fault fault = replace(fd, content);
        base_fd_close(&fd);
        return fault;
    }
    bool other = errno == ELOOP || errno == ENXIO || errno == EISDIR || errno == ENODEV;
    return other ? CTL_FILE_NOT_REGULAR : CTL_FILE_FAILED;
}

enum ctl_file_fault ctl_file_write(const struct ctl_root *root, plim_bytes path, plim_bytes content)
{
    char inside[PATH_MAX];
    enum ctl_file_fault fault;
    if (!ctl_path_inside(root->path, path, inside))
        return CTL_FILE_OUTSIDE;
    if (!*inside)
        return CTL_FILE_NOT_REGULAR;
    char *slash = strrchr(inside, '/');
    if (slash)
        *slash = '\0';
    _cleanup_fd_ int folder = open_folder(root, slash ? inside : "", &fault);
    return folder < 0 ? fault : write_in(folder, slash ? slash + 1 : inside, content);
}

enum ctl_file_fault ctl_file_write_at(const char *path, plim_bytes content)
{
    return write_in(AT_FDCWD, path, content);
}

/* Does the descriptor name something inside the root? The kernel is asked what was really opened.
 */
static bool is_inside(const struct ctl_root *root, int fd)
{
    char link[64], real[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, real, sizeof real - 1);
    if (len < 0)
        return false;
    real[len] = '\0';
    return below(root->real, real) != NULL;
}

int ctl_file_open(const struct ctl_root *root, plim_bytes path, size_t *size)
{
    char relative[PATH_MAX], whole[2 * PATH_MAX], real[PATH_MAX];
    struct stat info;
    if (!ctl_path_inside(root->path, path, relative) || !*relative)
        return -1;
    snprintf(whole, sizeof whole, "%s/%s", root->real, relative);
    const char *inside = realpath(whole, real) ? below(root->real, real) : NULL;
    if (!inside)
        return -1;
    _cleanup_fd_ int fd = open_below(root->fd, inside, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || !is_inside(root, fd))
        return -1;
    *size = (size_t)info.st_size;
    return TAKE_FD(fd);
}
