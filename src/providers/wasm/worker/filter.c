#include "filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Conditions on an argument. */
enum condition {
    ANY,
    NO_EXEC,     /* argument 2, the protection, without PROT_EXEC */
    FAULT_SIGNAL /* argument 0 is SIGSEGV or SIGBUS */
};

/* Every system call a worker may make. Descriptors need no conditions: there are four, and no way
 * to more. */
static const struct {
    int number;
    enum condition condition;
    const char *why;
} allowed[] = {
    {SCMP_SYS(sendto), ANY, "frames to the parent"},
    {SCMP_SYS(recvfrom), ANY, "frames from the parent"},
    {SCMP_SYS(sched_yield), ANY, "asking for the next run without keeping others waiting"},
    {SCMP_SYS(write), ANY, "the C library's last words"},
    {SCMP_SYS(mprotect), NO_EXEC, "memory.grow, its undoing, first writes to frozen pages"},
    {SCMP_SYS(madvise), ANY, "giving back what a run grew by"},
    {SCMP_SYS(mmap), NO_EXEC, "the C library's allocator"},
    {SCMP_SYS(munmap), ANY, "the C library's allocator"},
    {SCMP_SYS(mremap), ANY, "the C library's allocator; cannot add a protection"},
    {SCMP_SYS(brk), ANY, "the C library's allocator"},
    {SCMP_SYS(rt_sigreturn), ANY, "the end of the fault handler"},
    {SCMP_SYS(rt_sigprocmask), ANY, "the signal mask restored after a run"},
    {SCMP_SYS(rt_sigaction), FAULT_SIGNAL,
     "a fault of our own must crash: back to the default action"},
    {SCMP_SYS(sigaltstack), ANY, "the fault handler's stack"},
    {SCMP_SYS(futex), ANY, "the C library's locks"},
    {SCMP_SYS(getpid), ANY, "harmless, and libraries ask"},
    {SCMP_SYS(exit), ANY, "the end"},
    {SCMP_SYS(exit_group), ANY, "the end"},
};

/* A filter is a few instructions a call; far below what a kernel accepts. */
static struct sock_filter program[512];
static unsigned short program_length;

static bool allow_if(scmp_filter_ctx filter, int number, struct scmp_arg_cmp condition)
{
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 1, &condition) == 0;
}

static bool add_rule(scmp_filter_ctx filter, int number, enum condition condition)
{
    const struct scmp_arg_cmp no_exec = {
        .arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = PROT_EXEC, .datum_b = 0};
    const struct scmp_arg_cmp segv = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = SIGSEGV};
    const struct scmp_arg_cmp bus = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = SIGBUS};

    switch (condition) {
    case ANY:
        return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0) == 0;
    case NO_EXEC:
        return allow_if(filter, number, no_exec);
    case FAULT_SIGNAL:
        return allow_if(filter, number, segv) && allow_if(filter, number, bus);
    }
    return false;
}

static bool build(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        if (!add_rule(filter, allowed[i].number, allowed[i].condition))
            return false;
    }
    return true;
}

/* Takes the compiled program out of the library, so that a worker's start is one system call. */
static bool export_program(scmp_filter_ctx filter)
{
    const int fd = memfd_create("filter", MFD_CLOEXEC);
    ssize_t bytes = -1;

    if (fd < 0)
        return false;
    if (seccomp_export_bpf(filter, fd) == 0 && lseek(fd, 0, SEEK_SET) == 0)
        bytes = read(fd, program, sizeof(program));
    close(fd);
    if (bytes <= 0 || (size_t)bytes == sizeof(program) || (size_t)bytes % sizeof(program[0]) != 0)
        return false;
    program_length = (unsigned short)((size_t)bytes / sizeof(program[0]));
    return true;
}

static bool kernel_kills_processes(void)
{
    const unsigned int action = SECCOMP_RET_KILL_PROCESS;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool filter_compile(void)
{
    scmp_filter_ctx filter;
    bool done;

    if (!kernel_kills_processes())
        return false;
    filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (filter == NULL)
        return false;
    done = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
           build(filter) && export_program(filter);
    seccomp_release(filter);
    return done;
}

bool filter_install(void)
{
    const struct sock_fprog filter = {.len = program_length, .filter = program};

    return program_length > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}
