/* The handle without a worker: opening, settings, sized structs, the default provider, refusals
 * that start no process, cancel handles, descriptions. */
#include "unit.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox_support.h"

/* What an out parameter holds before the call that must clear it. */
static char marker;

static plim_status open_with(const char *name, const char *value, bool ignore_environment,
                             plim_sandbox **out, plim_error *err)
{
    plim_setting setting = {plim_bytes_of(name), plim_bytes_of(value)};
    plim_local_options options = {sizeof(options), &setting, name ? 1 : 0, ignore_environment};
    return plim_sandbox_local(&options, out, err);
}

static plim_status run_code(plim_sandbox *sandbox, plim_javascript_request request, plim_error *err)
{
    plim_result *result = (plim_result *)&marker;
    request.size = sizeof(request);
    plim_status status = plim_run_javascript(sandbox, &request, NULL, &result, err);
    assert_int_equal(status == PLIM_OK, result != NULL);
    plim_result_free(result);
    return status;
}

static void assert_no_process(void)
{
    pid_t pids[1];
    assert_int_equal(children_of(getpid(), pids, 1), 0);
}

static void the_default_runs_nothing(void **state)
{
    (void)state;
    plim_sandbox *sandbox = NULL;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_sandbox_local(NULL, &sandbox, &err), PLIM_OK);
    assert_int_equal(plim_sandbox_ready(sandbox, NULL, &err), PLIM_OK);
    assert_int_equal(run_code(sandbox, (plim_javascript_request){.code = PLIM_LIT("1")}, &err),
                     PLIM_E_DISABLED);
    assert_refused(&err, PLIM_E_DISABLED, "failed_precondition", PLIM_ND_UNSUPPORTED);
    assert_contains(plim_error_message(&err), "SANDBOX_PROVIDER");

    plim_info *info = NULL;
    assert_int_equal(plim_describe(sandbox, NULL, &info, &err), PLIM_OK);
    assert_string_equal(plim_info_provider(info), "disabled");
    assert_int_equal(plim_info_tier(info), PLIM_TIER_NONE);
    for (int kind = -1; kind <= PLIM_KIND_CELL + 1; kind++) {
        assert_false(plim_info_supports(info, (plim_kind)kind));
        assert_false(plim_info_supports_grant(info, (plim_kind)kind));
        assert_string_equal(plim_info_environment(info, (plim_kind)kind).identity, "");
    }
    assert_false(plim_info_supports_sessions(info));
    plim_info_free(info);
    plim_info_free(NULL);
    plim_sandbox_free(sandbox);
    plim_sandbox_free(NULL);
    assert_no_process();
}

/* A floor is compared before anything is said about what is enabled. */
static void a_floor_on_nothing_is_an_isolation_refusal(void **state)
{
    (void)state;
    plim_sandbox *sandbox = NULL;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_sandbox_local(NULL, &sandbox, &err), PLIM_OK);
    assert_int_equal(
        run_code(sandbox,
                 (plim_javascript_request){.code = PLIM_LIT("1"),
                                           .options.minimum_isolation = PLIM_TIER_PROCESS},
                 &err),
        PLIM_E_INSUFFICIENT_ISOLATION);
    assert_refused(&err, PLIM_E_INSUFFICIENT_ISOLATION, "failed_precondition", PLIM_ND_ISOLATION);
    plim_sandbox_free(sandbox);
}

static void bad_settings_do_not_open(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        {"SANDBOX_PROVIDER", "doker", "disabled, wasm"},
        {"SANDBOX_PROVIDER", "wasm2", "disabled, wasm"},
        {"SANDBOX_MEMORY_MB", "lots", "SANDBOX_MEMORY_MB"},
        {"SANDBOX_MEMORY_MB", "-1", "SANDBOX_MEMORY_MB"},
        {"SANDBOX_MAX_CONCURRENT", "0", "SANDBOX_MAX_CONCURRENT"},
        {"SANDBOX_TOTAL_MEMORY_MB", "200", "SANDBOX_TOTAL_MEMORY_MB"},
        {"SANDBOX_MEMROY_MB", "64", "setting 1"}, /* a name that nobody knows */
        {"PATH", "/bin", "setting 1"},
        {"", "", "setting 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plim_sandbox *sandbox = (plim_sandbox *)&marker;
        plim_error err = PLIM_ERROR_INIT;
        assert_int_equal(open_with(cases[i].name, cases[i].value, true, &sandbox, &err),
                         PLIM_E_INVALID_OPTION);
        assert_null(sandbox);
        assert_refused(&err, PLIM_E_INVALID_OPTION, "failed_precondition", PLIM_ND_ENVIRONMENT);
        assert_contains(plim_error_message(&err), cases[i].words);
        assert_int_equal(open_with(cases[i].name, cases[i].value, true, &sandbox, NULL),
                         PLIM_E_INVALID_OPTION);
    }
    assert_no_process();
}

static const char *provider_of(plim_sandbox *sandbox)
{
    static char name[32];
    plim_info *info = NULL;
    assert_int_equal(plim_describe(sandbox, NULL, &info, NULL), PLIM_OK);
    snprintf(name, sizeof(name), "%s", plim_info_provider(info));
    plim_info_free(info);
    return name;
}

/* A setting wins over the environment's, the last of two wins, and a blank one is the default. */
static void settings_win_over_the_environment(void **state)
{
    (void)state;
    plim_sandbox *sandbox = NULL;
    setenv("SANDBOX_PROVIDER", " WASM ", 1);
    assert_int_equal(plim_sandbox_local(NULL, &sandbox, NULL), PLIM_OK);
    assert_string_equal(provider_of(sandbox), "wasm");
    plim_sandbox_free(sandbox);
    assert_int_equal(open_with(NULL, NULL, true, &sandbox, NULL), PLIM_OK);
    assert_string_equal(provider_of(sandbox), "disabled");
    plim_sandbox_free(sandbox);
    assert_int_equal(open_with("SANDBOX_PROVIDER", "", false, &sandbox, NULL), PLIM_OK);
    assert_string_equal(provider_of(sandbox), "disabled");
    plim_sandbox_free(sandbox);
    setenv("SANDBOX_PROVIDER", "nonsense", 1);
    assert_int_equal(plim_sandbox_local(NULL, &sandbox, NULL), PLIM_E_INVALID_OPTION);
    assert_int_equal(open_with("SANDBOX_PROVIDER", "wasm", false, &sandbox, NULL), PLIM_OK);
    plim_sandbox_free(sandbox);
    unsetenv("SANDBOX_PROVIDER");

    plim_setting two[] = {{PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("disabled")},
                          {PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")}};
    plim_local_options options = {sizeof(options), two, 2, true};
    assert_int_equal(plim_sandbox_local(&options, &sandbox, NULL), PLIM_OK);
    assert_string_equal(provider_of(sandbox), "wasm");
    plim_sandbox_free(sandbox);
    assert_no_process();
}

/* A struct of another version: an older, smaller one means defaults; a larger one asks for what is
 * not known here, and is refused. */
static void structs_state_their_size(void **state)
{
    (void)state;
    plim_sandbox *sandbox = NULL;
    plim_error err = PLIM_ERROR_INIT;
    plim_local_options options = {0};
    static const struct {
        size_t size;
        bool good;
    } cases[] = {{0, false},
                 {sizeof(size_t) - 1, false},
                 {sizeof(size_t), true},
                 {sizeof(plim_local_options), true},
                 {sizeof(plim_local_options) + 1, false},
                 {SIZE_MAX, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.size = cases[i].size;
        plim_status status = plim_sandbox_local(&options, &sandbox, &err);
        assert_int_equal(status, cases[i].good ? PLIM_OK : PLIM_E_INVALID_OPTION);
        if (!cases[i].good)
            assert_refused(&err, PLIM_E_INVALID_OPTION, "invalid_argument", PLIM_ND_REQUEST);
        plim_sandbox_free(sandbox);
    }
    assert_int_equal(plim_sandbox_local(NULL, &sandbox, NULL), PLIM_OK);
    plim_javascript_request request = {.size = sizeof(request) + 8, .code = PLIM_LIT("1")};
    plim_result *result = (plim_result *)&marker;
    assert_int_equal(plim_run_javascript(sandbox, &request, NULL, &result, &err),
                     PLIM_E_INVALID_OPTION);
    assert_null(result);
    assert_refused(&err, PLIM_E_INVALID_OPTION, "invalid_argument", PLIM_ND_REQUEST);
    plim_sandbox_free(sandbox);
}

/* Everything that is refused before a run starts no process, on a provider that could start one. */
static void refusals_start_no_process(void **state)
{
    (void)state;
    plim_sandbox *sandbox = open_wasm(NULL);
    static const plim_bytes step = PLIM_LIT("true"), identity = PLIM_LIT("img:1");
    static char long_code[PLIM_CODE_BYTES_MAX + 1];
    memset(long_code, ' ', sizeof(long_code));
    const struct {
        plim_javascript_request request;
        const char *code;
        plim_status class;
        plim_not_dispatched reason;
    } cases[] = {
        {{.code = {NULL, 0}}, "invalid_argument", PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST},
        {{.code = {long_code, sizeof(long_code)}},
         "invalid_argument",
         PLIM_E_INVALID_REQUEST,
         PLIM_ND_REQUEST},
        {{.code = PLIM_LIT("1\0")}, "invalid_argument", PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST},
        {{.code = PLIM_LIT("'\xFF'")}, "invalid_argument", PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST},
        {{.code = PLIM_LIT("1"), .options.minimum_isolation = PLIM_TIER_NONE},
         "invalid_argument",
         PLIM_E_INVALID_REQUEST,
         PLIM_ND_REQUEST},
        {{.code = PLIM_LIT("1"), .grant_profile = PLIM_LIT("p")},
         "permission_denied",
         PLIM_E_REMOTE,
         PLIM_ND_PERMISSION},
        {{.code = PLIM_LIT("1"), .options.minimum_isolation = PLIM_TIER_CONTAINER},
         "failed_precondition",
         PLIM_E_INSUFFICIENT_ISOLATION,
         PLIM_ND_ISOLATION},
        {{.code = PLIM_LIT("1"), .options.minimum_isolation = PLIM_TIER_KERNEL},
         "failed_precondition",
         PLIM_E_INSUFFICIENT_ISOLATION,
         PLIM_ND_ISOLATION},
        {{.code = PLIM_LIT("1"), .options.minimum_isolation = PLIM_TIER_VM},
         "failed_precondition",
         PLIM_E_INSUFFICIENT_ISOLATION,
         PLIM_ND_ISOLATION},
        {{.code = PLIM_LIT("1"), .options.software = {PLIM_RULE_EXACT, &identity, 1}},
         "failed_precondition",
         PLIM_E_SOFTWARE_MISMATCH,
         PLIM_ND_ENVIRONMENT},
    };
    plim_error err = PLIM_ERROR_INIT;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run_code(sandbox, cases[i].request, &err), cases[i].class);
        assert_refused(&err, cases[i].class, cases[i].code, cases[i].reason);
    }
    /* A project with a floor that is too high gets the isolation refusal, without one it is
     * unsupported; modules likewise. */
    plim_result *result = NULL;
    plim_project_request project = {.size = sizeof(project), .steps = &step, .step_count = 1};
    assert_int_equal(plim_run_project(sandbox, &project, NULL, &result, &err), PLIM_E_UNSUPPORTED);
    assert_refused(&err, PLIM_E_UNSUPPORTED, "unimplemented", PLIM_ND_UNSUPPORTED);
    project.options.minimum_isolation = PLIM_TIER_VM;
    assert_int_equal(plim_run_project(sandbox, &project, NULL, &result, &err),
                     PLIM_E_INSUFFICIENT_ISOLATION);
    assert_contains(plim_error_message(&err), "process");
    double value = 1;
    plim_module_request module = {.size = sizeof(module),
                                  .model = PLIM_LIT("m"),
                                  .values = &value,
                                  .rows = 1,
                                  .width = 1,
                                  .end_time = 1,
                                  .step = 1};
    assert_int_equal(plim_run_module(sandbox, &module, NULL, &result, &err), PLIM_E_UNSUPPORTED);
    assert_refused(&err, PLIM_E_UNSUPPORTED, "unimplemented", PLIM_ND_UNSUPPORTED);
    value = NAN;
    assert_int_equal(plim_run_module(sandbox, &module, NULL, &result, &err),
                     PLIM_E_INVALID_REQUEST);
    assert_null(result);
    assert_no_process();
    plim_sandbox_free(sandbox);
}

/* A configuration that wasm cannot honour: the handle opens, and nothing runs. */
static void limits_that_would_not_hold_are_refused(void **state)
{
    (void)state;
    static const char *const limits[] = {"SANDBOX_CPUS", "SANDBOX_PIDS", "SANDBOX_DISK_MB"};
    for (size_t i = 0; i < 3; i++) {
        char setting[64];
        snprintf(setting, sizeof(setting), "%s=1", limits[i]);
        plim_sandbox *sandbox = open_wasm((const char *const[]){setting, NULL});
        plim_error err = PLIM_ERROR_INIT;
        assert_int_equal(plim_sandbox_ready(sandbox, NULL, &err), PLIM_E_INVALID_OPTION);
        assert_contains(plim_error_message(&err), limits[i]);
        assert_int_equal(run_code(sandbox, (plim_javascript_request){.code = PLIM_LIT("1")}, &err),
                         PLIM_E_INVALID_OPTION);
        assert_refused(&err, PLIM_E_INVALID_OPTION, "failed_precondition", PLIM_ND_ENVIRONMENT);
        /* The floor is still compared first. */
        assert_int_equal(
            run_code(sandbox,
                     (plim_javascript_request){.code = PLIM_LIT("1"),
                                               .options.minimum_isolation = PLIM_TIER_VM},
                     &err),
            PLIM_E_INSUFFICIENT_ISOLATION);
        plim_sandbox_free(sandbox);
    }
    assert_no_process();
}

static void describing_starts_nothing(void **state)
{
    (void)state;
    plim_sandbox *sandbox = open_wasm((const char *const[]){"SANDBOX_MEMORY_MB=64", NULL});
    plim_info *info = NULL;
    assert_int_equal(plim_describe(sandbox, NULL, &info, NULL), PLIM_OK);
    assert_string_equal(plim_info_provider(info), "wasm");
    assert_int_equal(plim_info_tier(info), PLIM_TIER_PROCESS);
    assert_true(plim_info_supports(info, PLIM_KIND_JAVASCRIPT));
    assert_false(plim_info_supports(info, PLIM_KIND_PROJECT));
    assert_false(plim_info_supports(info, PLIM_KIND_MODULE));
    assert_false(plim_info_supports(info, PLIM_KIND_CELL));
    assert_false(plim_info_supports_sessions(info));
    plim_environment environment = plim_info_environment(info, PLIM_KIND_JAVASCRIPT);
    assert_int_equal(strlen(environment.identity), strlen("quickjs-wasm:sha256:") + 64);
    assert_int_equal(strncmp(environment.identity, "quickjs-wasm:sha256:", 20), 0);
    assert_string_equal(environment.software_identity, "");
    assert_int_equal(environment.max_timeout_ms, 30000);
    assert_string_equal(plim_info_environment(info, PLIM_KIND_PROJECT).identity, "");
    assert_int_equal(plim_info_memory_mb(info), 64);
    assert_true(plim_info_cpus(info) == 0);
    assert_int_equal(plim_info_pids(info), 0);
    assert_int_equal(plim_info_disk_mb(info), 0);
    plim_info_free(info);
    assert_no_process();
    plim_sandbox_free(sandbox);
}

/* A cancel handle may be fired before, twice, and by nobody. */
static void a_fired_cancel_stops_a_run_before_it_starts(void **state)
{
    (void)state;
    plim_sandbox *sandbox = open_wasm(NULL);
    plim_cancel *cancel = plim_cancel_new();
    assert_non_null(cancel);
    for (int i = 0; i < 1000; i++)
        plim_cancel_fire(cancel);
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT("1")};
    plim_result *result = NULL;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_run_javascript(sandbox, &request, cancel, &result, &err),
                     PLIM_E_CANCELED);
    assert_refused(&err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
    plim_sandbox_free(sandbox);
    plim_cancel_free(cancel);
    plim_cancel_free(NULL);
}

static int clean_environment(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"SANDBOX_", "PLIMSOLL_"};
    for (char **at = environ; *at;) {
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
        bool ours = strncmp(name, prefixes[0], 8) == 0 || strncmp(name, prefixes[1], 9) == 0;
        if (ours)
            unsetenv(name);
        at = ours ? environ : at + 1;
    }
    return 0;
}

/* ---- a startup test that takes long ---- */

struct readying {
    plim_sandbox *sandbox;
    plim_cancel *cancel;
    atomic_bool ended;
};

static void *make_ready(void *data)
{
    struct readying *it = data;
    plim_sandbox_ready(it->sandbox, it->cancel, NULL);
    it->ended = true;
    return NULL;
}

/* A Unix socket that takes connections and says nothing, as an Engine that hangs does. */
static int listen_silently(char folder[], char path[], size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, size, "%s/engine", folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void who_waits_for_a_startup_test_can_leave(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-open-XXXXXX", path[64], host[80];
    int fd = listen_silently(folder, path, sizeof(path));
    snprintf(host, sizeof(host), "unix://%s", path);
    const plim_setting settings[] = {{PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("docker")},
                                     {PLIM_LIT("DOCKER_HOST"), plim_bytes_of(host)}};
    plim_local_options options = {sizeof(options), settings, 2, true};
    struct readying first = {.cancel = plim_cancel_new()};
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_sandbox_local(&options, &first.sandbox, &err), PLIM_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_ready, &first), 0);
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&asked, 1, HANG_MS), 1);

    plim_cancel *cancel = plim_cancel_new();
    plim_cancel_fire(cancel);
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT("1")};
    plim_result *result = (plim_result *)&marker;
    assert_int_equal(plim_run_javascript(first.sandbox, &request, cancel, &result, &err),
                     PLIM_E_CANCELED);
    assert_refused(&err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
    assert_null(result);
    assert_false(first.ended); /* it was not waited for */

    plim_cancel_fire(first.cancel);
    pthread_join(thread, NULL);
    plim_sandbox_free(first.sandbox);
    plim_cancel_free(cancel);
    plim_cancel_free(first.cancel);
    close(fd);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_runs_nothing),
        cmocka_unit_test(a_floor_on_nothing_is_an_isolation_refusal),
        cmocka_unit_test(bad_settings_do_not_open),
        cmocka_unit_test(settings_win_over_the_environment),
        cmocka_unit_test(structs_state_their_size),
        cmocka_unit_test(refusals_start_no_process),
        cmocka_unit_test(limits_that_would_not_hold_are_refused),
        cmocka_unit_test(describing_starts_nothing),
        cmocka_unit_test(a_fired_cancel_stops_a_run_before_it_starts),
        cmocka_unit_test(who_waits_for_a_startup_test_can_leave),
    };
    return cmocka_run_group_tests(tests, clean_environment, NULL);
}
