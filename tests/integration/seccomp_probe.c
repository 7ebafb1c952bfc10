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

struct attempt {
    const char *name;
    long number, arguments[6];
};

/* X(name): a call with nothing but zeros; X2 and so on where zeros would do something. */
#define ZERO(call) {#call, SYS_##call, {0, 0, 0, 0, 0, 0}},
#define BAD(call)  {#call, SYS_##call, {-1, -1, -1, -1, -1, -1}},
static const struct attempt attempts[] = {
    BAD(ptrace) BAD(process_vm_readv) BAD(process_vm_writev) /* another process */
    ZERO(io_uring_setup) BAD(io_uring_enter) BAD(io_uring_register) BAD(pkey_alloc) BAD(pkey_free)
        BAD(pkey_mprotect) BAD(landlock_create_ruleset) BAD(landlock_add_rule) BAD(
            landlock_restrict_self) BAD(pidfd_open) BAD(pidfd_getfd) BAD(pidfd_send_signal)
            ZERO(mq_open) ZERO(mq_unlink) BAD(mq_timedsend) BAD(mq_timedreceive) BAD(mq_notify)
                BAD(mq_getsetattr) BAD(userfaultfd) BAD(perf_event_open) BAD(bpf) BAD(keyctl) ZERO(
                    add_key) ZERO(request_key) BAD(unshare) BAD(setns) BAD(mount) ZERO(umount2)
                    ZERO(pivot_root) ZERO(chroot) BAD(name_to_handle_at) BAD(open_by_handle_at)
#ifdef SYS_modify_ldt
                        BAD(modify_ldt)
#endif
                            BAD(kexec_load) BAD(init_module) BAD(finit_module) ZERO(reboot)
                                ZERO(swapon) BAD(clock_settime) BAD(clock_adjtime) BAD(settimeofday)
                                    BAD(adjtimex) BAD(shmget) BAD(shmat) BAD(shmdt) BAD(shmctl)
                                        BAD(semget) BAD(semop) BAD(semtimedop) BAD(semctl)
                                            BAD(msgget) BAD(msgsnd) BAD(msgrcv) BAD(msgctl){
                                                "no_such_call", NO_SUCH_CALL, {0, 0, 0, 0, 0, 0}},
    BAD(clone3){"socket_inet", SYS_socket, {AF_INET, SOCK_STREAM, 0, 0, 0, 0}},
    {"socket_netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0, 0, 0, 0}},
    {"socket_packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0, 0, 0, 0}},
    {"socket_vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0, 0, 0, 0}},
    {"socket_alg", SYS_socket, {AF_ALGORITHMS, SOCK_SEQPACKET, 0, 0, 0, 0}},
    {"socket_unix", SYS_socket, {AF_UNIX, SOCK_STREAM, 0, 0, 0, 0}},
    {"personality_read", SYS_personality, {0xffffffff, 0, 0, 0, 0, 0}},
    {"personality_plain", SYS_personality, {0, 0, 0, 0, 0, 0}},
    {"personality_no_randomization", SYS_personality, {0x0040000, 0, 0, 0, 0, 0}},
    {"unshare_user", SYS_unshare, {CLONE_NEWUSER, 0, 0, 0, 0, 0}},
};

static void try_all(void)
{
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        const long *a = attempts[i].arguments;
        long result = syscall(attempts[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
        say(attempts[i].name, result);
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
