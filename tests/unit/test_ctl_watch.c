/* The watch over ends: who is told of, who goes on, and what a kernel without it does. Each test
 * runs in a process of its own, since a filter cannot be taken off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch.h"

enum { SOON_MS = 20000 };

typedef enum { NO_WATCH = 'n', PASSED = 'p', FAILED = 'f' } verdict;

static int judge = -1; /* where the process that watches says how it went */

/* It cannot end by itself (its own call to end would wait for it), nor by its only thread: a
 * sanitizer has others. */
static _Noreturn void say(verdict how)
{
    char byte = (char)how;
    if (write(judge, &byte, 1) != 1)
        kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void need(bool holds)
{
    if (!holds)
        say(FAILED);
}

static int start_watch(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    int watch = ctl_watch_exits();
    if (watch < 0)
        say(NO_WATCH);
    return watch;
}

static void await(int watch)
{
    struct pollfd fd = {.fd = watch, .events = POLLIN};
    need(poll(&fd, 1, SOON_MS) == 1 && (fd.revents & POLLIN));
}

static bool is_alive(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

/* The guest's own end is told, with its status, before it is over. */
static void tell(int status, int expected)
{
    int watch = start_watch(), told = -1;
    pid_t guest = fork();
    if (guest == 0)
        _exit(status);
    need(guest > 0);
    await(watch);
    need(ctl_watch_take(watch, guest, &told) && told == expected);
    usleep(20000);
    need(is_alive(guest)); /* it stands in its call */
    need(kill(guest, SIGKILL) == 0);
    int end;
    need(waitpid(guest, &end, 0) == guest && WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    say(PASSED);
}

static void tell_zero(void)
{
    tell(0, 0);
}

static void tell_of_a_byte(void)
{
    tell(0x1207, 7);
}

/* Whoever is not the guest ends as it would have, and is reaped with its own status. */
static void let_others_end(void)
{
    int watch = start_watch(), told = -1, end;
    for (int status = 0; status < 4; status++) {
        pid_t other = fork();
        if (other == 0)
            _exit(status);
        await(watch);
        need(!ctl_watch_take(watch, getpid(), &told) && told == -1);
        need(waitpid(other, &end, 0) == other && WIFEXITED(end) && WEXITSTATUS(end) == status);
    }
    say(PASSED);
}

static void *end_everything(void *data)
{
    (void)data;
    _exit(5);
}

/* The end by a thread that is not the first is that of the process all the same. */
static void let_a_thread_end_it(void)
{
    int watch = start_watch(), told = -1, end;
    pid_t guest = fork();
    if (guest == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, end_everything, NULL);
        pthread_join(thread, NULL);
    }
    await(watch);
    need(!ctl_watch_take(watch, guest, &told));
    need(waitpid(guest, &end, 0) == guest && WIFEXITED(end) && WEXITSTATUS(end) == 5);
    say(PASSED);
}

/* One that is killed while it asks leaves nothing to take. */
static void outlive_the_killed(void)
{
    int watch = start_watch(), told = -1;
    pid_t guest = fork();
    if (guest == 0)
        _exit(1);
    await(watch);
    need(kill(guest, SIGKILL) == 0 && waitpid(guest, NULL, 0) == guest);
    need(!ctl_watch_take(watch, guest, &told) && told == -1);
    say(PASSED);
}

/* An end by a signal is no call, so it is seen when it is over. */
static void hear_nothing_of_signals(void)
{
    int watch = start_watch(), end;
    pid_t guest = fork();
    if (guest == 0) {
        kill(getpid(), SIGKILL);
        pause();
    }
    need(waitpid(guest, &end, 0) == guest && WIFSIGNALED(end));
    struct pollfd fd = {.fd = watch, .events = POLLIN};
    need(poll(&fd, 1, 0) == 0);
    say(PASSED);
}

/* Without no_new_privs a process without rights gets no watch, and its ends are its own. */
static void do_without(void)
{
    if (getuid() == 0)
        need(setgid(65534) == 0 && setuid(65534) == 0);
    need(ctl_watch_exits() == -1);
    say(PASSED);
}

static void run(void (*body)(void))
{
    int ends[2];
    char how = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        judge = ends[1];
        body();
    }
    close(ends[1]);
    bool heard = read(ends[0], &how, 1) == 1;
    close(ends[0]);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(heard);
    if (how == NO_WATCH) {
        print_message("skip: this kernel tells of no system calls (seccomp)\n");
        skip();
    }
    assert_int_equal(how, PASSED);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run(name);                                                                                 \
    }

TEST(tell_zero)
TEST(tell_of_a_byte)
TEST(let_others_end)
TEST(let_a_thread_end_it)
TEST(outlive_the_killed)
TEST(hear_nothing_of_signals)
TEST(do_without)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tell_zero),          cmocka_unit_test(test_tell_of_a_byte),
        cmocka_unit_test(test_let_others_end),     cmocka_unit_test(test_let_a_thread_end_it),
        cmocka_unit_test(test_outlive_the_killed), cmocka_unit_test(test_hear_nothing_of_signals),
        cmocka_unit_test(test_do_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
