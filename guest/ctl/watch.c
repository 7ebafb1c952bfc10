#include "watch.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0 /* nothing has it, so nothing is watched */
#endif

/* The first Linux on which a watched call can go on as if nothing had been (seccomp_unotify(2)). */
enum { LEAST_MAJOR = 5, LEAST_MINOR = 5 };

/* A kernel may say more than our headers know, and wants it zeroed. */
enum { MESSAGE_BYTES = 512 };

static bool lets_calls_go_on(void)
{
    struct utsname name;
    if (uname(&name) < 0)
        return false;
    char *rest = NULL;
    long major = strtol(name.release, &rest, 10);
    long minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    return major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR);
}

static bool fits(void)
{
    struct seccomp_notif_sizes sizes;
    return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
           sizes.seccomp_notif <= MESSAGE_BYTES && sizes.seccomp_notif_resp <= MESSAGE_BYTES;
}

int ctl_watch_exits(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    if (!lets_calls_go_on() || !fits())
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &filter);
}

bool ctl_watch_take(int watch, pid_t guest, int *status)
{
    union {
        struct seccomp_notif call;
        char space[MESSAGE_BYTES];
    } said;
    union {
        struct seccomp_notif_resp answer;
        char space[MESSAGE_BYTES];
    } reply;
    memset(&said, 0, sizeof said);
    if (ioctl(watch, SECCOMP_IOCTL_NOTIF_RECV, &said) < 0)
        return false; /* who asked is gone */
    if ((pid_t)said.call.pid == guest) {
        *status = (int)(said.call.data.args[0] & 0xff);
        return true;
    }
    memset(&reply, 0, sizeof reply);
    reply.answer.id = said.call.id;
    reply.answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (ioctl(watch, SECCOMP_IOCTL_NOTIF_SEND, &reply) < 0)
        errno = 0; /* it was killed meanwhile */
    return false;
}

_Noreturn void ctl_watch_leave(int status)
{
    for (;;)
        syscall(SYS_exit, status);
}
