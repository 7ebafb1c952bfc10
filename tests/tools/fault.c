/*
 * Preloaded into a program under test: the FAULT_AT-th call that touches the file system is where
 * something happens. FAULT=fail makes it fail with EIO, FAULT=kill kills the process before it,
 * FAULT=killed-after right after it. The name of the call goes to stderr.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

static void say(const char *text)
{
    syscall(SYS_write, STDERR_FILENO, text, strlen(text));
}

/* Is this the call? Dies here if it must. True: the call fails. */
static int strikes(const char *name, int after)
{
    const char *at = getenv("FAULT_AT"), *what = getenv("FAULT");
    if (!at || !what || strtol(at, NULL, 10) != calls)
        return 0;
    if (strcmp(what, after ? "killed-after" : "kill") == 0)
        syscall(SYS_kill, getpid(), SIGKILL);
    if (after || strcmp(what, "fail") != 0)
        return 0;
    say("fault: ");
    say(name);
    say("\n");
    errno = EIO;
    return 1;
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                      \
        calls++;                                                                                   \
        if (strikes(#name, 0))                                                                     \
            return -1;                                                                             \
        type result = real arguments;                                                              \
        int saved = errno;                                                                         \
        strikes(#name, 1);                                                                         \
        errno = saved;                                                                             \
        return result;                                                                             \
    }

/* The C library names parameters as only it may. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, mkostemp, (char *path, int flags), (path, flags))
WRAP(int, mkostemp64, (char *path, int flags), (path, flags))
WRAP(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, close, (int fd), (fd))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, unlink, (const char *path), (path))

/* open takes a mode only sometimes. */
#define WRAP_OPEN(name)                                                                            \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                      \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                                  \
        va_end(args);                                                                              \
        calls++;                                                                                   \
        if (strikes(#name, 0))                                                                     \
            return -1;                                                                             \
        int fd = real(path, flags, mode);                                                          \
        int saved = errno;                                                                         \
        strikes(#name, 1);                                                                         \
        errno = saved;                                                                             \
        return fd;                                                                                 \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
