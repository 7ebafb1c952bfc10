#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "providers/wasm/protocol.h"
#include "rt.h"

/*
 * A user id that no package, container range or dynamic user takes, so that nothing else runs as
 * it; and the one every system has, where a container's id range does not reach that far.
 */
static const uid_t own_ids[] = {1900000000, 65534};

#define CPU_SECONDS_MAX 31 /* longest run + 1 s: a backstop, the parent's deadline comes first */

/* ---- resource limits ---- */

struct limit {
    __rlimit_resource_t resource;
    rlim_t value;
};

static bool set_limits(const struct limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rlimit limit = {limits[i].value, limits[i].value};
        if (setrlimit(limits[i].resource, &limit) != 0)
            return false;
    }
    return true;
}

bool confine_descriptors(const char *text)
{
    struct rlimit limit;
    char *end = NULL;

    if (text[0] < '1' || text[0] > '9')
        return false;
    errno = 0;
    const rlim_t wanted = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

const char *confine_early(void)
{
    static const struct limit limits[] = {
        {RLIMIT_STACK, RT_STACK_RLIMIT_BYTES},
        {RLIMIT_CORE, 0},
        {RLIMIT_FSIZE, PLIM_WORKER_OUTBOX_BYTES}, /* no other file has a size; in a worker, none */
    };

    /* Before the limits: the compiled filter passes through a file. */
    if (!filter_compile())
        return "the system-call filter cannot be compiled (does the kernel support seccomp?)";
    if (!set_limits(limits, sizeof(limits) / sizeof(limits[0])))
        return "the resource limits cannot be set (is the hard limit of the stack below 8 MiB?)";
    return NULL;
}

static bool set_worker_limits(bool single_use)
{
    static const struct limit limits[] = {
        {RLIMIT_NOFILE, 4}, /* 0, 1, 2 and the socket */
        {RLIMIT_NPROC, 0},
        {RLIMIT_CORE, 0},
        {RLIMIT_FSIZE, 0},
        {RLIMIT_STACK, RT_STACK_RLIMIT_BYTES},
        {RLIMIT_CPU, CPU_SECONDS_MAX}, /* last: only for single use */
    };
    const size_t count = sizeof(limits) / sizeof(limits[0]);

    return set_limits(limits, single_use ? count : count - 1);
}

/* ---- namespaces and root ---- */

static bool write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const size_t length = strlen(text);
    const bool done = fd >= 0 && write(fd, text, length) == (ssize_t)length;

    if (fd >= 0)
        close(fd);
    return done;
}

/*
 * An ordinary user may make the other namespaces only inside a user namespace of its own. It maps
 * the user to itself: the tmpfs of the empty root needs an owner that exists.
 */
static bool enter_user_namespace(void)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    char map[64];

    if (unshare(CLONE_NEWUSER) != 0)
        return false;
    (void)write_file("/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
    (void)write_file("/proc/self/gid_map", map);
    (void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
    (void)write_file("/proc/self/uid_map", map);
    return true;
}

/* Replaces the root by an empty file system that cannot be written. The mount namespace is already
 * our own. */
static bool empty_root(void)
{
    static const char *const places[] = {"/tmp", "/var", "/usr", "/proc"};
    size_t i = 0;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    while (mount("none", places[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 "size=4k,nr_inodes=2,mode=555") != 0) {
        if (++i == sizeof(places) / sizeof(places[0]))
            return false;
    }
    if (chdir(places[i]) != 0)
        return false;
    if (syscall(SYS_pivot_root, ".", ".") == 0)
        (void)umount2(".", MNT_DETACH);
    else if (chroot(".") !=
             0) /* a root that cannot be pivoted away from, as on an initial ramdisk */
        return false;
    if (chdir("/") != 0)
        return false;
    return mount(NULL, "/", NULL,
                 MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static void enter_namespaces(uint32_t *walls)
{
    static const struct {
        int flag;
        uint32_t wall;
    } namespaces[] = {
        {CLONE_NEWNET, PLIM_WALL_NET_NS},
        {CLONE_NEWIPC, PLIM_WALL_IPC_NS},
        {CLONE_NEWUTS, PLIM_WALL_UTS_NS},
    };

    if (geteuid() != 0 && enter_user_namespace())
        *walls |= PLIM_WALL_USER_NS;
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
        if (unshare(namespaces[i].flag) == 0)
            *walls |= namespaces[i].wall;
    }
    if (unshare(CLONE_NEWNS) == 0 && empty_root())
        *walls |= PLIM_WALL_EMPTY_ROOT;
}

/* ---- identity and capabilities ---- */

static void become_nobody(uint32_t *walls)
{
    if (geteuid() != 0)
        return;
    for (size_t i = 0; i < sizeof(own_ids) / sizeof(own_ids[0]); i++) {
        if (setgroups(0, NULL) == 0 && setresgid(own_ids[i], own_ids[i], own_ids[i]) == 0 &&
            setresuid(own_ids[i], own_ids[i], own_ids[i]) == 0) {
            *walls |= PLIM_WALL_OTHER_UID;
            return;
        }
    }
}

/* Out of the bounding set while that is still allowed; the call fails past the last capability the
 * kernel knows. */
static void shrink_bounding_set(void)
{
    for (int capability = 0; capability < 64; capability++)
        (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    memset(sets, 0, sizeof(sets));
    if (syscall(SYS_capset, &header, sets) != 0 || syscall(SYS_capget, &header, sets) != 0)
        return false;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        if (sets[i].effective != 0 || sets[i].permitted != 0 || sets[i].inheritable != 0)
            return false;
    }
    return true;
}

/* ---- the two processes ---- */

const char *confine_host(uint32_t *walls)
{
    *walls = 0;
    enter_namespaces(walls);
    shrink_bounding_set();
    become_nobody(walls);
    if (!drop_capabilities())
        return "the capabilities cannot be dropped";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return "no_new_privs cannot be set";
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return "the process cannot be made non-dumpable";
    /* After the change of user, which clears it. End of file on the control socket is the first
     * line, this the second. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return "the parent-death signal cannot be set";
    *walls |= PLIM_WALLS_REQUIRED;
    return NULL;
}

static bool arrange_descriptors(int socket)
{
    if (socket != PLIM_WORKER_FD && dup2(socket, PLIM_WORKER_FD) != PLIM_WORKER_FD)
        return false;
    return close_range(PLIM_WORKER_FD + 1, ~0u, 0) == 0;
}

bool confine_worker(int socket, bool single_use, pid_t host)
{
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return false;
    if (getppid() != host)
        return false; /* it died before the line above could arrange that it takes us along */
    return arrange_descriptors(socket) && set_worker_limits(single_use) &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           filter_install();
}

void confine_probe(void)
{
    (void)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
}
