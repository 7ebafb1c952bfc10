/* Steps as the runner runs them: how each can end, and that nothing of one is left when it was
 * killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/base.h"
#include "io.h"
#include "report.h"
#include "step.h"

enum { LONG_MS = 60000, SOON_MS = 20000 };

static struct ctl_env env;
static struct ctl_runner runner;
static struct ctl_step_result result;
static char folder[] = "/tmp/plimsoll-step-XXXXXX";
static int work;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || !ctl_env_init(&env) || !ctl_env_add_identity(&env))
        return -1;
    work = open(folder, O_PATH | O_DIRECTORY);
    return ctl_runner_init(&runner, work, &env) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    ctl_runner_step(&runner, "rm -rf -- * \"$PWD\"", LONG_MS, &result);
    base_arena_free(env.arena);
    base_free(runner.streams[0].bytes);
    base_free(runner.streams[1].bytes);
    close(work);
    return 0;
}

static void step(const char *command, int64_t timeout_ms)
{
    ctl_runner_step(&runner, command, timeout_ms, &result);
}

static void assert_out(const char *text)
{
    assert_int_equal(result.out.len, strlen(text));
    assert_memory_equal(result.out.data, text, result.out.len);
}

/* Is there a process whose command line holds this word? */
static bool lives(const char *word)
{
    bool found = false;
    DIR *processes = opendir("/proc");
    /* cppcheck-suppress readdirCalled ; there is one thread */
    for (struct dirent *entry; !found && (entry = readdir(processes));) {
        char path[300], line[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof line);
        found = got > 0 && memmem(line, (size_t)got, word, strlen(word));
        if (fd >= 0)
            close(fd);
    }
    closedir(processes);
    return found;
}

static void exits_are_told(void **state)
{
    (void)state;
    step("echo out; echo err >&2; exit 3", LONG_MS);
    assert_out("out\n");
    assert_int_equal(result.err.len, 4);
    assert_int_equal(result.exit_code, 3);
    assert_false(result.timed_out || result.truncated);
    step("printf 'a\\0b\\377'", LONG_MS);
    assert_int_equal(result.out.len, 4);
    assert_memory_equal(result.out.data, "a\0b\xFF", 4);
    assert_int_equal(result.exit_code, 0);
    step("kill -9 $$", LONG_MS);
    assert_int_equal(result.exit_code, -1);
    step("sh -c 'kill -9 $$'",
         LONG_MS); /* dash runs a last command in its place, or reports 128 + 9 */
    assert_true(result.exit_code == -1 || result.exit_code == 137);
    step("no-such-command-anywhere", LONG_MS);
    assert_int_equal(result.exit_code, 127);
    step("cat; echo $#; pwd", LONG_MS);
    assert_int_equal(result.exit_code, 0);
    assert_memory_equal(result.out.data, "0\n", 2);
}

static void the_environment_is_ours_and_descriptors_are_three(void **state)
{
    (void)state;
    step("echo \"$PATH|$HOME\"; ls /proc/self/fd | tr '\\n' ' '", LONG_MS);
    assert_non_null(memmem(result.out.data, result.out.len, CTL_PATH "|", sizeof CTL_PATH));
    assert_non_null(
        memmem(result.out.data, result.out.len, "\n0 1 2 3 ", 9)); /* 3 is the list itself */
    assert_null(memmem(result.out.data, result.out.len, "4", 1));
}

static void a_budget_ends_whatever_the_step_made(void **state)
{
    (void)state;
    int64_t began = ctl_now_ms();
    step("trap '' TERM; echo a; sleep 300.51 & setsid sleep 300.51 & "
         "(setsid sh -c 'setsid sleep 300.51 & exec sleep 300.51' &) ; wait; sleep 300.51",
         500);
    assert_true(result.timed_out);
    assert_int_equal(result.exit_code, 124);
    assert_out("a\n");
    assert_true(ctl_now_ms() - began < SOON_MS);
    for (unsigned i = 0; i < 100 && lives("300.51"); i++)
        usleep(20000);
    assert_false(lives("300.51"));
}

static void a_flood_is_cut_at_the_byte_and_ended(void **state)
{
    (void)state;
    step("(while :; do echo 0123456789012345678901234567890123456789; done) & yes >&2", LONG_MS);
    assert_true(result.truncated && !result.timed_out);
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.out.len + result.err.len, CTL_STEP_OUTPUT_MAX);
    step("head -c 1048576 /dev/zero", LONG_MS);
    assert_false(result.truncated);
    assert_int_equal(result.out.len, CTL_STEP_OUTPUT_MAX);
    assert_int_equal(result.exit_code, 0);
    step("head -c 1048577 /dev/zero", LONG_MS);
    assert_true(result.truncated);
    assert_int_equal(result.out.len, CTL_STEP_OUTPUT_MAX);
    assert_int_equal(result.exit_code, -1);
}

static void what_is_left_behind_holds_nothing_up_and_lives_on(void **state)
{
    (void)state;
    int64_t began = ctl_now_ms();
    step("(for i in 1 2 3 4; do sleep 0.6; head -c 100000 /dev/zero; done; echo done > "
         "left) & echo STARTED",
         LONG_MS);
    assert_out("STARTED\n");
    assert_int_equal(result.exit_code, 0);
    assert_true(ctl_now_ms() - began < SOON_MS);
    step("n=0; until [ -e left ] || [ $n -gt 100 ]; do sleep 0.1; n=$((n + 1)); done; cat left",
         LONG_MS);
    assert_out("done\n"); /* it was not stopped by a full pipe, nor by a closed one */
}

static void a_shell_that_cannot_start_is_minus_one(void **state)
{
    (void)state;
    static struct ctl_env none;
    assert_true(ctl_env_init(&none) && ctl_env_set(&none, "PATH", "", "/nowhere"));
    runner.env = &none;
    step("true", LONG_MS);
    runner.env = &env;
    base_arena_free(none.arena);
    assert_int_equal(result.exit_code, -1);
    assert_false(result.timed_out);
}

/* ---- the report's budgets ---- */

static struct ctl_report report;

static void fill(struct ctl_step_result *with, const char *bytes, size_t out, size_t err)
{
    *with = (struct ctl_step_result){.out = {bytes, out}, .err = {bytes, err}};
}

static void outputs_of_all_steps_share_a_budget(void **state)
{
    (void)state;
    const size_t eighth = CTL_STEP_OUTPUT_MAX / 8;
    char *bytes = base_alloc(CTL_STEP_OUTPUT_MAX, 1);
    ctl_report_init(&report);
    for (unsigned i = 0; i < 4; i++) {
        fill(&result, bytes, eighth, 7 * eighth);
        ctl_report_step(&report, PLIM_LIT("x"), &result);
    }
    assert_true(report.steps.len <= CTL_STEPS_JSON_MAX);
    assert_true(report.steps.len > CTL_STEPS_JSON_MAX - 1024);
    assert_non_null(
        strstr(report.steps.data, "\"stdoutTruncated\":false,\"stderrTruncated\":true"));
    assert_non_null(strstr(report.steps.data, "\"stdoutTruncated\":true,\"stderrTruncated\":true"));
    base_free(bytes);
    base_buf_free(&report.steps);
}

static bool add_artifact(size_t bytes, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/artifact", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    bool fits = ctl_report_artifact(&report, plim_bytes_of(name), fd, bytes);
    close(fd);
    return fits;
}

static void artifacts_stop_at_the_first_that_does_not_fit(void **state)
{
    (void)state;
    ctl_report_init(&report);
    assert_true(add_artifact(0, "empty"));
    assert_true(add_artifact(CTL_ARTIFACTS_RAW_MAX - 10, "most"));
    assert_false(report.artifacts_truncated);
    assert_false(add_artifact(11, "one byte too many"));
    assert_true(report.artifacts_truncated);
    assert_false(add_artifact((size_t)1 << 40, "sparse"));
    assert_int_equal(report.artifact_count, 2);
    base_buf_free(&report.artifacts);
}

static void commands_are_cut_between_characters(void **state)
{
    (void)state;
    assert_int_equal(ctl_cut_text(PLIM_LIT("abc"), 3).len, 3);
    assert_int_equal(ctl_cut_text(PLIM_LIT("abc"), 2).len, 2);
    assert_int_equal(ctl_cut_text(PLIM_LIT("a\xC3\xA4"), 2).len, 1);
    assert_int_equal(ctl_cut_text(PLIM_LIT("\xF0\x9F\x98\x80"), 3).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits_are_told),
        cmocka_unit_test(the_environment_is_ours_and_descriptors_are_three),
        cmocka_unit_test(a_budget_ends_whatever_the_step_made),
        cmocka_unit_test(a_flood_is_cut_at_the_byte_and_ended),
        cmocka_unit_test(what_is_left_behind_holds_nothing_up_and_lives_on),
        cmocka_unit_test(a_shell_that_cannot_start_is_minus_one),
        cmocka_unit_test(outputs_of_all_steps_share_a_budget),
        cmocka_unit_test(artifacts_stop_at_the_first_that_does_not_fit),
        cmocka_unit_test(commands_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
