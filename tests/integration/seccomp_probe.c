/*
 * Makes system calls and says how they ended, one line each: "NAME RESULT", where RESULT is "ok" or
 * the name of an errno. Run in a container by test_seccomp.py, under the profile and without one.
 * Arguments are such that a call that gets past a filter does no harm and, as a rule, fails in
 * another way.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

enum {
    NO_SUCH_CALL = 0x3fff, /* a number that no kernel has given away */
    AF_ALGORITHMS = 38,
};

static void say(const char *name, long result)
{
    int error = errno;
    printf("%s %s\n", name, result >= 0 ? "ok" : strerrorname_np(error));
}

/* The denied calls, each with one value for all of its arguments: one that is never right, or zero
 * where that would be read as something. */
#define CALL(name, value)                                                                          \
    {                                                                                              \
#name, SYS_##name, value                                                                   \
    }
static const struct {
    const char *name;
    long number, value;
} denied[] = {
    CALL(ptrace, -1),
    CALL(process_vm_readv, -1),
    CALL(process_vm_writev, -1),
    CALL(io_uring_setup, 0),
    CALL(io_uring_enter, -1),
    CALL(io_uring_register, -1),
    CALL(pkey_alloc, -1),
    CALL(pkey_free, -1),
    CALL(pkey_mprotect, -1),
    CALL(landlock_create_ruleset, -1),
    CALL(landlock_add_rule, -1),
    CALL(landlock_restrict_self, -1),
    CALL(pidfd_open, -1),
    CALL(pidfd_getfd, -1),
    CALL(pidfd_send_signal, -1),
    CALL(mq_open, 0),
    CALL(mq_unlink, 0),
    CALL(mq_timedsend, -1),
    CALL(mq_timedreceive, -1),
    CALL(mq_notify, -1),
    CALL(mq_getsetattr, -1),
    CALL(userfaultfd, -1),
    CALL(perf_event_open, -1),
    CALL(bpf, -1),
    CALL(keyctl, -1),
    CALL(add_key, 0),
    CALL(request_key, 0),
    CALL(unshare, -1),
    CALL(setns, -1),
    CALL(mount, -1),
    CALL(umount2, 0),
    CALL(pivot_root, 0),
    CALL(chroot, 0),
    CALL(name_to_handle_at, -1),
    CALL(open_by_handle_at, -1),
    CALL(kexec_load, -1),
    CALL(init_module, -1),
    CALL(finit_module, -1),
    CALL(reboot, 0),
    CALL(swapon, 0),
    CALL(clock_settime, -1),
    CALL(clock_adjtime, -1),
    CALL(settimeofday, -1),
    CALL(adjtimex, -1),
    CALL(shmget, -1),
    CALL(shmat, -1),
    CALL(shmdt, -1),
    CALL(shmctl, -1),
    CALL(semget, -1),
    CALL(semop, -1),
    CALL(semtimedop, -1),
    CALL(semctl, -1),
    CALL(msgget, -1),
    CALL(msgsnd, -1),
    CALL(msgrcv, -1),
    CALL(msgctl, -1),
    CALL(clone3, -1),
#ifdef SYS_modify_ldt
    CALL(modify_ldt, -1),
#endif
    {"no_such_call", NO_SUCH_CALL, 0},
};

/* Calls that are allowed or denied for what their arguments are. */
static const struct {
    const char *name;
    long number, arguments[3];
} conditional[] = {
    {"socket_inet", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"socket_netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
    {"socket_packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
    {"socket_vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
    {"socket_alg", SYS_socket, {AF_ALGORITHMS, SOCK_SEQPACKET, 0}},
    {"socket_unix", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
    {"personality_read", SYS_personality, {0xffffffff, 0, 0}},
    {"personality_plain", SYS_personality, {0, 0, 0}},
    {"personality_no_randomization", SYS_personality, {0x0040000, 0, 0}},
    {"unshare_user", SYS_unshare, {CLONE_NEWUSER, 0, 0}},
};

static void try_all(void)
{
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++) {
        long value = denied[i].value;
        say(denied[i].name, syscall(denied[i].number, value, value, value, value, value, value));
    }
    for (size_t i = 0; i < sizeof conditional / sizeof conditional[0]; i++) {
        const long *a = conditional[i].arguments;
        say(conditional[i].name, syscall(conditional[i].number, a[0], a[1], a[2]));
    }
}

static int end_at_once(void *unused)
{
    (void)unused;
    return 0;
}

/* A child made with these flags. */
static void try_clone(const char *name, int flags)
{
    static _Alignas(16) char stack[64 << 10];
    pid_t pid = clone(end_at_once, stack + sizeof stack, flags | SIGCHLD, NULL);
    say(name, pid);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void try_clones(void)
{
    static const struct {
        const char *name;
        int flags;
    } made[] = {{"clone_plain", 0},
                {"clone_mount", CLONE_NEWNS},
                {"clone_cgroup", CLONE_NEWCGROUP},
                {"clone_uts", CLONE_NEWUTS},
                {"clone_ipc", CLONE_NEWIPC},
                {"clone_user", CLONE_NEWUSER},
                {"clone_pid", CLONE_NEWPID},
                {"clone_net", CLONE_NEWNET}};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        try_clone(made[i].name, made[i].flags);
}

static void try_nodes(const char *folder)
{
    static const struct {
        const char *name;
        mode_t type;
    } kinds[] = {{"fifo", S_IFIFO}, {"device", S_IFCHR}, {"file", S_IFREG}};
    char name[64], path[256];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(path, sizeof path, "%s/at-%s", folder, kinds[i].name);
        snprintf(name, sizeof name, "mknodat_%s", kinds[i].name);
        say(name, mknodat(AT_FDCWD, path, kinds[i].type | 0600, 0));
#ifdef SYS_mknod
        snprintf(path, sizeof path, "%s/%s", folder, kinds[i].name);
        snprintf(name, sizeof name, "mknod_%s", kinds[i].name);
        say(name, syscall(SYS_mknod, path, kinds[i].type | 0600, 0));
#endif
    }
#ifdef SYS_utime
    say("utime", syscall(SYS_utime, folder, NULL));
    say("utimes", syscall(SYS_utimes, folder, NULL));
    say("futimesat", syscall(SYS_futimesat, AT_FDCWD, folder, NULL));
#endif
}

static void try_child(void)
{
    int ends[2];
    say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    say("fork", child);
    say("kill_child", kill(child, SIGKILL));
    say("wait_child", waitpid(child, NULL, 0));
}

int main(int argc, char **argv)
{
    try_all();
    try_clones();
    try_nodes(argc > 1 ? argv[1] : "/tmp");
    try_child();
    return 0;
}
