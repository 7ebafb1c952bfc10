/* Who may call: the choice at startup, verification, scopes, and what refusals leave in the log. */
#include "daemon/auth.h"
#include "daemon/environment.h"
#include "daemon/throttle.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

static const char token_a[] = "a-token-that-is-long-enough-for-anybody";
static const char token_b[] = "another-token-that-is-also-long-enough!";

/* Everything is logged to a file of this process. */
static int log_fd;

static int open_log(void **state)
{
    (void)state;
    log_fd = memfd_create("log", MFD_CLOEXEC);
    base_log_open(log_fd, BASE_LOG_JSON);
    return log_fd < 0;
}

static int clear_log(void **state)
{
    (void)state;
    return ftruncate(log_fd, 0) || lseek(log_fd, 0, SEEK_SET);
}

/* What was logged, as text. */
static const char *logged(void)
{
    static char text[65536];
    ssize_t length = pread(log_fd, text, sizeof(text) - 1, 0);
    assert_true(length >= 0);
    text[length] = '\0';
    return text;
}

static size_t lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* A registry of two callers, `a` with code:run and `b` with every scope, or of none. */
static void write_registry(char path[32], bool empty)
{
    static const char format[] =
        "{\"clients\":[{\"id\":\"a\",\"token_sha256\":\"%s\",\"scopes\":[\"code:run\"]},"
        "{\"id\":\"b\",\"token_sha256\":\"%s\",\"scopes\":[\"*\"]}]}";
    char hex_a[BASE_SHA256_HEX + 1], hex_b[BASE_SHA256_HEX + 1], text[1024];
    assert_true(base_sha256_hex_of(plim_bytes_of(token_a), hex_a));
    assert_true(base_sha256_hex_of(plim_bytes_of(token_b), hex_b));
    if (empty)
        snprintf(text, sizeof(text), "{\"clients\":[]}");
    else
        snprintf(text, sizeof(text), format, hex_a, hex_b);
    snprintf(path, 32, "/tmp/plim-auth-XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0 && base_write_all(fd, plim_bytes_of(text)));
    close(fd);
}

static daemon_auth *make(core_daemon_settings *settings, bool runs_code)
{
    plim_error err = PLIM_ERROR_INIT;
    daemon_auth *auth = daemon_auth_new(settings, runs_code, &err);
    if (!auth)
        fail_msg("%s", plim_error_message(&err));
    return auth;
}

static const daemon_caller *verify(const daemon_auth *auth, const char *token)
{
    const daemon_caller *caller = NULL;
    daemon_auth_verdict verdict = daemon_auth_verify(auth, plim_bytes_of(token), &caller);
    assert_int_equal(verdict, caller ? DAEMON_AUTH_KNOWN : DAEMON_AUTH_UNKNOWN);
    return caller;
}

static void the_registry_wins_over_the_token(void **state)
{
    (void)state;
    core_daemon_settings settings = {.insecure = CORE_ACK_GIVEN};
    char path[32];
    write_registry(path, false);
    snprintf(settings.clients_file, sizeof(settings.clients_file), "%s", path);
    snprintf(settings.token, sizeof(settings.token), "a-shared-token-that-is-long-enough-too");
    daemon_auth *auth = make(&settings, true);
    assert_int_equal(daemon_auth_mode_of(auth), DAEMON_AUTH_REGISTRY);
    assert_string_equal(settings.token, "");
    assert_true(base_bytes_is(verify(auth, token_a)->id, "a"));
    assert_true(base_bytes_is(verify(auth, token_b)->id, "b"));
    assert_null(verify(auth, "a-shared-token-that-is-long-enough-too"));
    assert_null(verify(auth, ""));
    assert_null(verify(auth, "a-token-that-is-long-enough-for-anybody "));
    assert_non_null(strstr(logged(), "\"callers\":2"));
    assert_null(strstr(logged(), "token"));
    daemon_auth_free(auth);
    unlink(path);
}

static void scopes(void **state)
{
    (void)state;
    core_daemon_settings settings = {.insecure = CORE_ACK_ABSENT};
    char path[32];
    write_registry(path, false);
    snprintf(settings.clients_file, sizeof(settings.clients_file), "%s", path);
    daemon_auth *auth = make(&settings, true);
    const daemon_caller *a = verify(auth, token_a), *b = verify(auth, token_b);
    assert_true(daemon_caller_has_scope(a, "code:run"));
    assert_false(daemon_caller_has_scope(a, "other"));
    assert_false(daemon_caller_has_scope(a, "code:ru"));
    assert_true(daemon_caller_has_scope(b, "other"));
    assert_false(daemon_caller_has_scope(&(daemon_caller){.id = PLIM_LIT("c")}, "code:run"));
    daemon_auth_free(auth);
    unlink(path);
}

static void a_shared_token(void **state)
{
    (void)state;
    core_daemon_settings settings = {.insecure = CORE_ACK_ABSENT};
    snprintf(settings.token, sizeof(settings.token), "%s", token_a);
    daemon_auth *auth = make(&settings, true);
    assert_int_equal(daemon_auth_mode_of(auth), DAEMON_AUTH_SHARED);
    assert_string_equal(settings.token, "");
    const daemon_caller *caller = verify(auth, token_a);
    assert_true(base_bytes_is(caller->id, "static"));
    assert_true(daemon_caller_has_scope(caller, "code:run"));
    assert_int_equal(caller->scope_count, 1);
    assert_null(verify(auth, token_b));
    assert_null(verify(auth, "a-token-that-is-long-enough-for-anybod"));
    daemon_auth_free(auth);
}

static void open_mode_needs_the_exact_acknowledgement(void **state)
{
    (void)state;
    static const struct {
        core_acknowledgement insecure;
        bool runs_code, starts;
    } cases[] = {{CORE_ACK_ABSENT, false, true},
                 {CORE_ACK_ABSENT, true, false},
                 {CORE_ACK_OTHER, true, false},
                 {CORE_ACK_GIVEN, true, true},
                 {CORE_ACK_OTHER, false, true}};
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_daemon_settings settings = {.insecure = cases[i].insecure};
        plim_error err = PLIM_ERROR_INIT;
        clear_log(NULL);
        daemon_auth *auth = daemon_auth_new(&settings, cases[i].runs_code, &err);
        assert_int_equal(auth != NULL, cases[i].starts);
        if (auth)
            assert_non_null(strstr(logged(), "WARN"));
        else
            assert_non_null(strstr(plim_error_message(&err), "PLIMSOLL_CLIENTS_FILE"));
        daemon_auth_free(auth);
    }
}

static void a_bad_registry_never_opens_the_door(void **state)
{
    (void)state;
    core_daemon_settings settings = {.insecure = CORE_ACK_GIVEN};
    plim_error err = PLIM_ERROR_INIT;
    char path[32];
    snprintf(settings.clients_file, sizeof(settings.clients_file), "/nonexistent/clients.json");
    assert_null(daemon_auth_new(&settings, true, &err));
    assert_non_null(strstr(plim_error_message(&err), "/nonexistent/clients.json"));
    write_registry(path, true);
    snprintf(settings.clients_file, sizeof(settings.clients_file), "%s", path);
    assert_null(daemon_auth_new(&settings, true, &err));
    assert_non_null(strstr(plim_error_message(&err), "names no caller"));
    unlink(path);
}

static void many_refusals_are_one_line(void **state)
{
    (void)state;
    core_daemon_settings settings = {.insecure = CORE_ACK_ABSENT};
    snprintf(settings.token, sizeof(settings.token), "%s", token_a);
    daemon_auth *auth = make(&settings, true);
    for (int i = 0; i < 1000; i++)
        daemon_auth_count_refused(auth);
    assert_int_equal(lines(logged()), 1);
    daemon_auth_report_refused(auth, false);
    assert_int_equal(lines(logged()), 1);
    daemon_auth_report_refused(auth, true);
    assert_int_equal(lines(logged()), 2);
    assert_non_null(strstr(logged(), "\"count\":1,\"window_ms\":0}"));
    assert_non_null(strstr(logged(), "\"count\":999,"));
    daemon_auth_report_refused(auth, true);
    assert_int_equal(lines(logged()), 2);
    daemon_auth_free(auth);
}

static void a_throttled_line_is_due_every_half_minute(void **state)
{
    (void)state;
    daemon_throttle throttle = DAEMON_THROTTLE_INIT;
    daemon_throttled line;
    int64_t start = 5 * BASE_NS_PER_S;
    assert_false(daemon_throttle_due(&throttle, start, true, &line));
    assert_true(daemon_throttle_hit(&throttle, start, &line));
    assert_int_equal(line.count, 1);
    assert_false(daemon_throttle_hit(&throttle, start + 1, &line));
    assert_false(daemon_throttle_hit(&throttle, start + DAEMON_THROTTLE_NS - 1, &line));
    assert_true(daemon_throttle_hit(&throttle, start + DAEMON_THROTTLE_NS, &line));
    assert_int_equal(line.count, 3);
    assert_int_equal(line.window_ms, 30000);
    assert_false(daemon_throttle_due(&throttle, start + 10 * DAEMON_THROTTLE_NS, false, &line));
}

static void unknown_variables_are_named_in_order(void **state)
{
    (void)state;
    char *environment[] = {"SANDBOX_MAX_CONCURENT=4",
                           "PATH=/bin",
                           "PLIMSOLL_ADDR=:0",
                           "PLIMSOLL_GUARD_ADDRESS=secret-value",
                           "SANDBOX_SESSION_POOL=3",
                           "SANDBOX_SESSION_POOLS=3",
                           "PLIMSOLL_=",
                           "XPLIMSOLL_A=1",
                           NULL};
    daemon_warn_unknown(environment);
    const char *text = logged();
    assert_int_equal(lines(text), 4);
    assert_null(strstr(text, "secret-value"));
    const char *first = strstr(text, "\"name\":\"PLIMSOLL_\"");
    const char *second = strstr(text, "\"name\":\"PLIMSOLL_GUARD_ADDRESS\"");
    const char *third = strstr(text, "\"name\":\"SANDBOX_MAX_CONCURENT\"");
    const char *fourth = strstr(text, "\"name\":\"SANDBOX_SESSION_POOLS\"");
    assert_true(first && second > first && third > second && fourth > third);
}

static void the_token_leaves_the_environment(void **state)
{
    (void)state;
    setenv("PLIMSOLL_TOKEN", token_a, 1);
    const char *value = getenv("PLIMSOLL_TOKEN");
    daemon_forget_token();
    assert_null(getenv("PLIMSOLL_TOKEN"));
    assert_true(value && value[0] == '\0');
    daemon_forget_token();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_registry_wins_over_the_token, clear_log),
        cmocka_unit_test_setup(scopes, clear_log),
        cmocka_unit_test_setup(a_shared_token, clear_log),
        cmocka_unit_test_setup(open_mode_needs_the_exact_acknowledgement, clear_log),
        cmocka_unit_test_setup(a_bad_registry_never_opens_the_door, clear_log),
        cmocka_unit_test_setup(many_refusals_are_one_line, clear_log),
        cmocka_unit_test_setup(a_throttled_line_is_due_every_half_minute, clear_log),
        cmocka_unit_test_setup(unknown_variables_are_named_in_order, clear_log),
        cmocka_unit_test_setup(the_token_leaves_the_environment, clear_log),
    };
    return cmocka_run_group_tests(tests, open_log, NULL);
}
