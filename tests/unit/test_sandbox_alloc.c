/*
 * Every allocation of a scenario fails once: the first, then the second, until one goes through
 * untouched. Each time the scenario succeeds correctly or fails with an error that says so; nothing
 * crashes, and as much is freed as was allocated. The program is linked so that the allocator's
 * functions come here.
 */
#include "unit.h"

#include <stdatomic.h>

#include <jansson.h>

#include "core/core.h"
#include "providers/providers.h"
#include "providers/wasm/envelope.h"
#include "providers/wasm/frames.h"
#include "sandbox_support.h"

/* ---- the allocator ---- */

static atomic_long countdown = -1; /* allocations until one fails; below 0: none does */
static atomic_long live;           /* blocks not freed yet */
static atomic_bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static bool fails_now(void)
{
    if (countdown < 0 || countdown-- != 0)
        return false;
    failed = true;
    return true;
}

static void *counted(void *block)
{
    live += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (fails_now())
        return NULL;
    void *moved = __real_realloc(block, size);
    live += moved && !block;
    return moved;
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *block)
{
    live -= block != NULL;
    __real_free(block);
}

/* ---- one scenario, over and over ---- */

/*
 * `work` returns true when everything came out right and false, with an error, when it did not. The
 * number of allocations that the untouched scenario makes.
 */
static long fail_each(bool (*work)(plim_error *err))
{
    for (long nth = 0; nth < 10000; nth++) {
        plim_error err = PLIM_ERROR_INIT;
        long before = live;
        failed = false;
        countdown = nth;
        bool worked = work(&err);
        countdown = -1;
        if (worked != (plim_error_status(&err) == PLIM_OK))
            fail_msg("allocation %ld: %s, with the error \"%s\"", nth, worked ? "good" : "bad",
                     plim_error_message(&err));
        if (!worked && !failed)
            fail_msg("without a failure: %s", plim_error_message(&err));
        plim_error_clear(&err);
        if (live != before)
            fail_msg("allocation %ld: %ld blocks are left", nth, live - before);
        if (!failed)
            return nth;
    }
    fail_msg("allocations without end");
    return 0;
}

/* ---- scenarios ---- */

static bool use_buffers(plim_error *err)
{
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(100000);
    for (int i = 0; i < 3000; i++)
        base_buf_printf(&buf, "%d,", i);
    base_buf_add_utf8(&buf, PLIM_LIT("\xFF!"));
    if (buf.failed) {
        /* What is there is a front of what was to be. */
        assert_true(buf.len == 0 || strncmp(base_buf_text(&buf), "0,1,2,", 6) == 0 || buf.len < 6);
        return plim_refuse_nomem(err);
    }
    assert_int_equal(buf.len, 10 * 2 + 90 * 3 + 900 * 4 + 2000 * 5 + 4);
    return true;
}

static bool use_arenas(plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(1 << 20);
    if (!arena)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < 40; i++) {
        plim_bytes copy;
        char *text = base_arena_printf(arena, "%0*zu", (int)(i * 200 + 1), i);
        if (!text || !base_arena_dup(arena, plim_bytes_of(text), &copy))
            return plim_refuse_nomem(err);
        assert_string_equal(copy.data, text);
    }
    return true;
}

static bool use_results(plim_error *err)
{
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(PLIM_KIND_PROJECT);
    static char output[70000];
    memset(output, 'o', sizeof(output));
    if (!result || !base_arena_dup(result->arena, PLIM_LIT("out"), &result->out) ||
        !base_arena_dup(result->arena, (plim_bytes){output, sizeof(output)}, &result->err))
        return plim_refuse_nomem(err);
    core_step_result *steps = base_arena_alloc(result->arena, 20, sizeof(*steps));
    if (!steps)
        return plim_refuse_nomem(err);
    assert_int_equal(plim_result_stderr(result).len, sizeof(output));
    return true;
}

static plim_bytes look_up(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "SANDBOX_PROVIDER") == 0         ? PLIM_LIT("wasm")
           : strcmp(name, "SANDBOX_MAX_CONCURRENT") == 0 ? PLIM_LIT("2")
                                                         : (plim_bytes){NULL, 0};
}

static bool read_settings(plim_error *err)
{
    core_settings settings;
    return core_settings_read(look_up, NULL, &settings, err) && providers_find(&settings, err);
}

static bool name_no_provider(plim_error *err)
{
    core_settings settings;
    plim_error wrong = PLIM_ERROR_INIT;
    if (!core_settings_read(look_up, NULL, &settings, err))
        return false;
    memcpy(settings.provider, "nonsense", 9);
    assert_null(providers_find(&settings, &wrong)); /* with or without the list of names */
    assert_int_equal(plim_error_status(&wrong), PLIM_E_INVALID_OPTION);
    assert_false(plim_may_have_run(&wrong));
    return true;
}

static bool validate(plim_error *err)
{
    static const plim_bytes steps[] = {PLIM_LIT("a"), PLIM_LIT("b")}, artifacts[] = {PLIM_LIT("x")};
    static const plim_file files[] = {{PLIM_LIT("p"), PLIM_LIT("1")}, {PLIM_LIT("q"), {NULL, 0}}};
    plim_project_request project = {.steps = steps,
                                    .step_count = 2,
                                    .files = files,
                                    .file_count = 2,
                                    .artifacts = artifacts,
                                    .artifact_count = 1};
    core_request request = {PLIM_KIND_PROJECT, &project.options, .project = &project};
    return core_validate(&request, err);
}

static bool identify_rules(plim_error *err)
{
    const plim_bytes identities[] = {PLIM_LIT("img:1"), PLIM_LIT("img:2")};
    const plim_software_rule rule = {PLIM_RULE_APPROVED, identities, 2};
    char id[CORE_RULE_ID_MAX];
    if (!core_rule_id(&rule, id))
        return plim_refuse_nomem(err);
    assert_int_equal(strncmp(id, "approved:sha256:", 16), 0);
    return core_rule_valid(&rule, err);
}

static bool admit(plim_error *err)
{
    const core_limits limits = {.max_concurrent = 50, .rate_per_min = 600, .rate_burst = 2};
    core_limiter *limiter = core_limiter_new(&limits);
    if (!limiter)
        return plim_refuse_nomem(err);
    int64_t admitted = 0;
    for (int i = 0; i < 20 && plim_error_status(err) == PLIM_OK; i++) {
        char key[16];
        snprintf(key, sizeof(key), "caller-%d", i);
        admitted += core_limiter_acquire(limiter, plim_bytes_of(key), i, err);
    }
    core_admission_counts counts;
    core_limiter_counts(limiter, &counts);
    assert_int_equal(counts.in_flight, admitted); /* a failed one holds no slot */
    core_limiter_free(limiter);
    return plim_error_status(err) == PLIM_OK;
}

static bool log_line(plim_error *err)
{
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(4096);
    base_log_format_line(&line, BASE_LOG_JSON, 0, BASE_LOG_INFO, "m", &LOG_STR("k", "v"), 1);
    /* Logging never fails its caller: the line is whole or it is known not to be. */
    if (line.failed)
        return plim_refuse_nomem(err);
    assert_int_equal(line.data[line.len - 1], '\n');
    return true;
}

static bool read_frames(plim_error *err)
{
    static char input[5 + 2000];
    memcpy(input, "H\xD0\x07\0\0", 5);
    wasm_frames frames;
    wasm_frames_init(&frames);
    frames.phase = WASM_PHASE_RUNNING;
    plim_bytes left = {input, sizeof(input)}, payload;
    wasm_frame_kind kind = wasm_frames_next(&frames, &left, &payload);
    wasm_frames_free(&frames);
    if (kind == WASM_FRAME_BAD)
        return plim_refuse_nomem(err);
    assert_int_equal(kind, WASM_FRAME_CALL);
    assert_int_equal(payload.len, 2000);
    return true;
}

/* Nothing is built of what a guest sends: no envelope makes this process larger, none is refused
 * for want of memory. */
static bool answer_call(plim_error *err)
{
    static const char text[] =
        "{\"m\\u0065thod\":\"GET\",\"path\":\"/a\",\"body\":[1,{\"k\":\"v\"}]}";
    (void)err;
    assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text) - 1}).status, 503);
    return true;
}

static bool open_disabled(plim_error *err)
{
    plim_local_options options = {.size = sizeof(options), .ignore_environment = true};
    plim_sandbox *sandbox = NULL;
    plim_info *info = NULL;
    plim_status status = plim_sandbox_local(&options, &sandbox, err);
    assert_int_equal(status == PLIM_OK, sandbox != NULL);
    if (status == PLIM_OK)
        status = plim_describe(sandbox, NULL, &info, err);
    if (status == PLIM_OK)
        assert_string_equal(plim_info_provider(info), "disabled");
    else
        assert_int_equal(status, PLIM_E_NOMEM);
    plim_info_free(info);
    plim_sandbox_free(sandbox);
    return status == PLIM_OK;
}

static bool open_and_run_on(const char *fresh, plim_error *err)
{
    const plim_setting settings[] = {
        {PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")},
        {PLIM_LIT("SANDBOX_MAX_CONCURRENT"), PLIM_LIT("1")},
        {PLIM_LIT("SANDBOX_WASM_FRESH_PROCESS"), plim_bytes_of(fresh)}};
    plim_local_options options = {sizeof(options), settings, PLIM_COUNT(settings), true};
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.timeout_ms = HANG_MS},
        .code = PLIM_LIT("console.log(__plimsoll_host_call('x').status)")};
    plim_sandbox *sandbox = NULL;
    plim_status status = plim_sandbox_local(&options, &sandbox, err);
    for (int i = 0; i < 2 && status == PLIM_OK; i++) {
        plim_result *result = NULL;
        status = plim_run_javascript(sandbox, &request, NULL, &result, err);
        assert_int_equal(status == PLIM_OK, result != NULL);
        /* Out of memory in our own parent may cut what it keeps of the output, and says so; or end
         * the run as one whose worker broke off. Never anything else. */
        if (result && plim_result_exit_code(result) == 0)
            assert_true(plim_result_stdout_truncated(result) ||
                        base_bytes_is(plim_result_stdout(result), "400\n"));
        else if (result)
            assert_int_equal(plim_result_exit_code(result), 134);
        plim_result_free(result);
    }
    plim_sandbox_free(sandbox);
    /* One failure is no reason to wait for a worker until the time is up: it is asked for again. */
    assert_null(strstr(plim_error_message(err), "no worker could be had"));
    return status == PLIM_OK;
}

static bool open_and_run(plim_error *err)
{
    return open_and_run_on("0", err);
}

static bool open_and_run_fresh(plim_error *err)
{
    return open_and_run_on("1", err);
}

/* ---- the tests ---- */

static void pure_modules_survive(void **state)
{
    (void)state;
    static const struct {
        bool (*work)(plim_error *err);
        long least; /* allocations, so that the scenario is known to make some */
    } scenarios[] = {
        {use_buffers, 5},      {use_arenas, 10}, {use_results, 3},    {read_settings, 0},
        {name_no_provider, 0}, {validate, 0},    {identify_rules, 1}, {admit, 21},
        {log_line, 2},         {read_frames, 1}, {open_disabled, 5},
    };
    for (size_t i = 0; i < PLIM_COUNT(scenarios); i++)
        if (fail_each(scenarios[i].work) < scenarios[i].least)
            fail_msg("scenario %zu allocates nothing", i);
}

static void host_calls_allocate_nothing(void **state)
{
    (void)state;
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    assert_int_equal(fail_each(answer_call), 0);
    json_set_alloc_funcs(__real_malloc, __real_free);
}

/* With a real worker: the pool's own threads allocate too, so which allocation is the Nth varies.
 */
static void runs_survive(void **state)
{
    (void)state;
    NEEDS_WORKER();
    assert_true(fail_each(open_and_run) > 10);
    assert_true(fail_each(open_and_run_fresh) > 10);
    assert_true(await_children(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pure_modules_survive),
        cmocka_unit_test(host_calls_allocate_nothing),
        cmocka_unit_test(runs_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
