#include "cli/findings.h"

#include "cli/sandbox_of.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>

static void set(finding *out, finding_state state, const char *format, ...) PLIM_PRINTF(3, 4);
static void advise(finding *out, const char *format, ...) PLIM_PRINTF(2, 3);

static void set(finding *out, finding_state state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->evidence, sizeof(out->evidence), format, args);
    va_end(args);
    out->state = state;
    out->change[0] = '\0';
}

static void advise(finding *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->change, sizeof(out->change), format, args);
    va_end(args);
}

/* The first line of a small file of the kernel; false when it cannot be read. */
static bool first_line(const char *path, char *out, size_t size)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(4096);
    if (!base_read_file(path, &text, NULL))
        return false;
    snprintf(out, size, "%.*s", (int)strcspn(base_buf_text(&text), "\n"), base_buf_text(&text));
    return true;
}

/* ---- tiers ---- */

void finding_wasm(finding *out)
{
    _cleanup_(cli_sandbox_freep)
    plim_sandbox *sandbox = NULL;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    int64_t start_ns = base_monotonic_ns();
    if (cli_sandbox_open(&(cli_options){.provider = "wasm"}, &sandbox, &err) &&
        plim_sandbox_ready(sandbox, NULL, &err) == PLIM_OK) {
        set(out, FINDING_WORKS, "started, and its startup test passed, in %" PRId64 " ms",
            (base_monotonic_ns() - start_ns) / BASE_NS_PER_MS);
        return;
    }
    set(out, FINDING_NO, "%s", plim_error_message(&err));
    advise(out, "put right what the message names");
}

#define ENGINE_SOCKET "/var/run/docker.sock"

/* Errno of connecting to a Unix socket; 0 when it accepts. Nothing is sent. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return errno;
    return 0;
}

void finding_engine(finding *out)
{
    int failed = connect_to(ENGINE_SOCKET);
    switch (failed) {
    case 0:
        set(out, FINDING_SEEN, ENGINE_SOCKET " accepts connections; nothing was sent");
        advise(out, "SANDBOX_PROVIDER=docker plimsoll describe runs its startup test");
        break;
    case ENOENT:
        set(out, FINDING_NO, ENGINE_SOCKET " not found");
        advise(out, "install Docker Engine and start it");
        break;
    case EACCES:
        set(out, FINDING_NO, ENGINE_SOCKET " found, but this user may not open it");
        advise(out, "run as a user who may open " ENGINE_SOCKET);
        break;
    default:
        set(out, FINDING_NO, ENGINE_SOCKET " found, but it accepts no connection: %s",
            base_errno_text(failed));
        advise(out, "start Docker Engine");
    }
}

void finding_runsc(finding *out)
{
    static const char *const paths[] = {"/usr/local/bin/runsc", "/usr/bin/runsc",
                                        "/usr/local/sbin/runsc", "/usr/sbin/runsc"};
    for (size_t i = 0; i < PLIM_COUNT(paths); i++) {
        struct stat file;
        if (stat(paths[i], &file) != 0 || !S_ISREG(file.st_mode) || access(paths[i], X_OK) != 0)
            continue;
        set(out, FINDING_SEEN,
            "%s found; it was not started, and whether an Engine uses it was "
            "not asked",
            paths[i]);
        advise(out, "SANDBOX_PROVIDER=docker SANDBOX_DOCKER_RUNTIME=runsc plimsoll describe runs "
                    "its startup test");
        return;
    }
    set(out, FINDING_NO,
        "no program runsc in /usr/local/bin, /usr/bin, /usr/local/sbin, "
        "/usr/sbin");
    advise(out, "install gVisor's runsc in /usr/local/bin");
}

#define KVM_DEVICE "/dev/kvm"

void finding_kvm(finding *out)
{
    if (access(KVM_DEVICE, R_OK | W_OK) == 0) {
        set(out, FINDING_SEEN, KVM_DEVICE " found, and this user may open it; it was not opened");
    } else if (errno == EACCES) {
        set(out, FINDING_NO, KVM_DEVICE " found, but this user may not open it");
        advise(out, "run as a user who may open " KVM_DEVICE);
    } else {
        set(out, FINDING_NO, KVM_DEVICE " not found");
        advise(out, "switch on hardware virtualization in the firmware or, inside a virtual "
                    "machine, on its host");
    }
}

/* ---- the machine ---- */

#define CGROUP_ROOT "/sys/fs/cgroup"

static bool is_file_system(const char *path, long type)
{
    struct statfs found;
    return statfs(path, &found) == 0 && (long)found.f_type == type;
}

void finding_cgroups(finding *out)
{
    char controllers[256] = "";
    if (is_file_system(CGROUP_ROOT, CGROUP2_SUPER_MAGIC)) {
        first_line(CGROUP_ROOT "/cgroup.controllers", controllers, sizeof(controllers));
        set(out, FINDING_SEEN, "version 2 at " CGROUP_ROOT ", controllers here: %s",
            controllers[0] ? controllers : "none");
        return;
    }
    const char *version = NULL;
    if (is_file_system(CGROUP_ROOT "/unified", CGROUP2_SUPER_MAGIC))
        version = "hybrid: version 1 at " CGROUP_ROOT ", version 2 at " CGROUP_ROOT "/unified";
    else if (is_file_system(CGROUP_ROOT "/memory", CGROUP_SUPER_MAGIC) ||
             is_file_system(CGROUP_ROOT "/pids", CGROUP_SUPER_MAGIC))
        version = "version 1 at " CGROUP_ROOT;
    set(out, version ? FINDING_SEEN : FINDING_NO, "%s",
        version ? version : "no cgroup file system at " CGROUP_ROOT);
    if (!version)
        advise(out, "mount the version 2 file system (cgroup2) at " CGROUP_ROOT);
}

/* Settings that stand between an ordinary user and a user namespace, and the value that forbids. */
static const struct namespace_setting {
    const char *path, *name, *forbids;
    bool for_root_too;
} namespace_settings[] = {
    {"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", "0", true},
    {"/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0", false},
    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
     "kernel.apparmor_restrict_unprivileged_userns", "1", false},
};

void finding_user_namespaces(finding *out)
{
    _cleanup_buf_ base_buf seen = BASE_BUF_INIT(512);
    const struct namespace_setting *barrier = NULL;
    if (access("/proc/self/ns/user", F_OK) != 0) {
        set(out, FINDING_NO, "/proc/self/ns/user not found");
        advise(out, "use a kernel with CONFIG_USER_NS, and mount /proc");
        return;
    }
    for (size_t i = 0; i < PLIM_COUNT(namespace_settings); i++) {
        const struct namespace_setting *setting = &namespace_settings[i];
        char value[32];
        if (!first_line(setting->path, value, sizeof(value)))
            continue;
        base_buf_printf(&seen, "%s%s=%s", seen.len ? ", " : "", setting->name, value);
        if (!barrier && strcmp(value, setting->forbids) == 0 &&
            (setting->for_root_too || geteuid() != 0))
            barrier = setting;
    }
    set(out, barrier ? FINDING_NO : FINDING_SEEN, "%s; none was made",
        seen.len ? base_buf_text(&seen) : "the kernel has them");
    if (barrier)
        advise(out, "sysctl -w %s=%s", barrier->name, barrier->forbids[0] == '0' ? "1" : "0");
}

static bool action_available(uint32_t action)
{
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void finding_seccomp(finding *out)
{
    if (action_available(SECCOMP_RET_KILL_PROCESS)) {
        set(out, FINDING_SEEN,
            "the kernel offers filters that end a process (asked, no filter was installed)");
        return;
    }
    set(out, FINDING_NO, "the kernel says that a filter cannot end a process: %s",
        base_errno_text(errno));
    advise(out, "use a kernel of version 4.14 or later with CONFIG_SECCOMP_FILTER");
}
