/* Socket directories of programs that are gone: real directories with a prefix of ours, older than
 * a minute, in which every socket refuses a connection. */
#include "providers/docker/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { AGE_S = 60, CONNECT_MS = 1000 };

static bool is_ours(const char *name)
{
    static const char *const prefixes[] = {"plsm-broker-", "plsm-session-broker-",
                                           "plsm-smoke-sock-"};
    for (size_t i = 0; i < PLIM_COUNT(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Nobody listens there. Any doubt says that somebody may. */
static bool is_dead_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path, path, strlen(path));
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval bound = {.tv_sec = CONNECT_MS / 1000};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)) != 0)
        return false;
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 &&
           errno == ECONNREFUSED;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Remove the dead sockets of `path`, and the directory when nothing else is in it. */
static bool remove_dead(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    bool dead = true;
    for (const struct dirent *entry; dead && (entry = readdir(dir));) {
        char inside[PATH_MAX];
        struct stat info;
        if (is_dot(entry->d_name))
            continue;
        int length = snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        dead = (size_t)length < sizeof(inside) && lstat(inside, &info) == 0 &&
               S_ISSOCK(info.st_mode) && is_dead_socket(inside) && unlink(inside) == 0;
    }
    closedir(dir);
    return dead && rmdir(path) == 0;
}

size_t docker_sweep_directories(const char *tmpdir)
{
    DIR *dir = opendir(tmpdir);
    size_t removed = 0;
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[PATH_MAX];
        struct stat info;
        if (!is_ours(entry->d_name))
            continue;
        int length = snprintf(path, sizeof(path), "%s/%s", tmpdir, entry->d_name);
        if ((size_t)length < sizeof(path) && lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
            time(NULL) - info.st_mtime > AGE_S && remove_dead(path))
            removed++;
    }
    closedir(dir);
    return removed;
}
