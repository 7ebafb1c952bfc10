/* Placement over real handles and scripted daemons: who is filtered, in which order, and when a
 * request goes on to the next. */
#include "placement/placement.h"

#include "test_client_server.h"

#include <setjmp.h>

#include <cmocka.h>

enum { DAEMONS = 3, TIMEOUT_MS = 60000 };

/* A scripted daemon of the pool. */
typedef struct daemon_script {
    core_description about;
    server_script *run;  /* NULL: well */
    const char *refusal; /* of refuse_with */
    plim_cancel *cancel; /* fired by refuse_with */
    atomic_int describes, runs;
    atomic_int floor;                         /* the floor that a run stated */
    _Atomic(pthread_mutex_t *) hold_describe; /* taken while a Describe is answered */
} daemon_script;

typedef struct fixture {
    daemon_script scripts[DAEMONS];
    server servers[DAEMONS];
    plim_sandbox *sandboxes[DAEMONS];
    plim_backend backends[DAEMONS];
    plim_pool *pool;
} fixture;

/* Guards what a test changes in a script while its daemon runs. */
static pthread_mutex_t scripting = PTHREAD_MUTEX_INITIALIZER;

#define CHANGE(...)                                                                                \
    do {                                                                                           \
        pthread_mutex_lock(&scripting);                                                            \
        __VA_ARGS__;                                                                               \
        pthread_mutex_unlock(&scripting);                                                          \
    } while (0)

static const char *const names[DAEMONS] = {"first", "second", "third"};

static void note_floor(daemon_script *script, const server_request *request)
{
    base_arena *arena = base_arena_new(1 << 20);
    plim_bytes body = {request->body, request->body_len};
    const wire_run_request *message =
        wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request), body, NULL);
    plim_tier floor = PLIM_TIER_UNKNOWN;
    plim_tier_from_name(message->minimum_isolation, &floor);
    atomic_store(&script->floor, (int)floor);
    base_arena_free(arena);
}

static bool serve(server_conn *conn, server_request *request)
{
    daemon_script *script = (daemon_script *)conn->server->arg;
    if (strstr(request->path, "/Describe")) {
        core_description about; /* as it was when it was asked for */
        CHANGE(about = script->about);
        pthread_mutex_t *hold = atomic_load(&script->hold_describe);
        atomic_fetch_add(&script->describes, 1);
        if (hold) {
            pthread_mutex_lock(hold);
            pthread_mutex_unlock(hold);
        }
        return about.provider ? server_describe(conn, request, &about) : false;
    }
    atomic_fetch_add(&script->runs, 1);
    note_floor(script, request);
    server_script *run;
    CHANGE(run = script->run);
    return run ? run(conn, request) : server_good(conn, request);
}

static int set_up(void **state)
{
    fixture *it = base_new(fixture);
    for (int i = 0; i < DAEMONS; i++) {
        core_description *about = &it->scripts[i].about;
        *about = (core_description){.provider = "wasm", .tier = PLIM_TIER_PROCESS};
        for (int kind = PLIM_KIND_JAVASCRIPT; kind <= PLIM_KIND_MODULE; kind++) {
            about->supports[kind] = true;
            snprintf(about->environment[kind].identity, 160, "quickjs-wasm:sha256:00");
            snprintf(about->environment[kind].software_identity, 320,
                     "oci-manifest:linux/amd64@sha256:aa");
        }
        server_start(&it->servers[i], serve, &it->scripts[i], NULL);
        plim_client_options options = {.size = sizeof(options),
                                       .base_url = plim_bytes_of(it->servers[i].url),
                                       .request_timeout_ms = TIMEOUT_MS};
        assert_int_equal(plim_sandbox_connect(&options, &it->sandboxes[i], NULL), PLIM_OK);
        it->backends[i] = (plim_backend){plim_bytes_of(names[i]), it->sandboxes[i]};
    }
    assert_int_equal(plim_pool_new(it->backends, DAEMONS, 0, &it->pool, NULL), PLIM_OK);
    *state = it;
    return 0;
}

static int tear_down(void **state)
{
    fixture *it = *state;
    plim_pool_free(it->pool);
    for (int i = 0; i < DAEMONS; i++) {
        plim_sandbox_free(it->sandboxes[i]);
        server_stop(&it->servers[i]);
    }
    base_free(it);
    return 0;
}

/* ---- one placed run ---- */

typedef struct outcome {
    plim_status status;
    plim_result *result;
    plim_choice *choice;
    plim_error err;
} outcome;

static outcome run_with(fixture *it, plim_requirement need, plim_cancel *cancel)
{
    outcome out = {.err = PLIM_ERROR_INIT};
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT("1")};
    need.size = sizeof(need);
    out.status = plim_pool_run_javascript(it->pool, &request, &need, cancel, &out.result,
                                          &out.choice, &out.err);
    assert_int_equal(request.options.minimum_isolation, PLIM_TIER_UNKNOWN);
    return out;
}

static void release(outcome *it)
{
    plim_result_free(it->result);
    plim_choice_free(it->choice);
    plim_error_clear(&it->err);
}

static void expect(outcome *it, plim_status status, plim_not_dispatched mark, const char *backend,
                   size_t retried)
{
    if (it->status != status || plim_error_not_dispatched(&it->err) != mark ||
        strcmp(plim_choice_backend(it->choice), backend) != 0)
        fail_msg("%s %s on \"%s\": %s", plim_status_name(it->status),
                 plim_not_dispatched_name(plim_error_not_dispatched(&it->err)),
                 plim_choice_backend(it->choice), plim_error_message(&it->err));
    assert_int_equal(plim_choice_retried_count(it->choice), retried);
    assert_int_equal(it->result != NULL, status == PLIM_OK ||
                                             status == PLIM_E_ENVIRONMENT_MISMATCH ||
                                             status == PLIM_E_ISOLATION_EVIDENCE);
}

static int runs(const fixture *it)
{
    int sum = 0;
    for (int i = 0; i < DAEMONS; i++)
        sum += atomic_load(&it->scripts[i].runs);
    return sum;
}

/* ---- filters ---- */

static void the_pools_order_decides(void **state)
{
    fixture *it = *state;
    outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "first", 0);
    release(&out);
    out = run_with(it, (plim_requirement){.backend = PLIM_LIT("third")}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "third", 0);
    release(&out);
    assert_int_equal(runs(it), 2);
    assert_int_equal(atomic_load(&it->scripts[0].describes), 1);
    assert_int_equal(atomic_load(&it->scripts[2].describes), 1);
}

static void each_filter_has_its_reason(void **state)
{
    fixture *it = *state;
    static const plim_bytes other = PLIM_LIT("other:1");
    static const struct {
        plim_requirement need;
        const char *reason;
    } rows[] = {
        {{.provider = PLIM_LIT("docker")}, "first: its provider is wasm, not docker; second: "},
        {{.grant_profile = true}, "first: a javascript may not carry a grant there; "},
        {{.minimum_isolation = PLIM_TIER_KERNEL},
         "first: its tier is process, below the floor kernel; "},
        {{.environment = PLIM_LIT("oci:2")}, "first: its environment is another; "},
        {{.software = {PLIM_RULE_EXACT, &other, 1}},
         "first: its software is not what the rule names; "},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        outcome out = run_with(it, rows[i].need, NULL);
        expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
        assert_string_equal(plim_error_code(&out.err), "unimplemented");
        const char *message = plim_error_message(&out.err);
        if (!strstr(message, rows[i].reason) || !strstr(message, "third: "))
            fail_msg("%s", message);
        release(&out);
    }
    assert_int_equal(runs(it), 0);
    /* One that fits is found behind those that do not. */
    CHANGE(it->scripts[1].about.tier = PLIM_TIER_KERNEL);
    assert_int_equal(plim_pool_refresh(it->pool, NULL, NULL), PLIM_OK);
    outcome out = run_with(
        it, (plim_requirement){.backend = PLIM_LIT("first"), .minimum_isolation = PLIM_TIER_KERNEL},
        NULL);
    expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
    release(&out);
    out = run_with(it, (plim_requirement){.backend = PLIM_LIT("fourth")}, NULL);
    expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
    release(&out);
}

static void an_empty_identity_meets_nothing(void **state)
{
    fixture *it = *state;
    for (int i = 0; i < DAEMONS; i++) {
        core_environment *environment = &it->scripts[i].about.environment[PLIM_KIND_JAVASCRIPT];
        CHANGE(environment->identity[0] = environment->software_identity[0] = '\0');
    }
    static const plim_bytes any = PLIM_LIT("a:1");
    outcome out = run_with(it, (plim_requirement){.software = {PLIM_RULE_EXACT, &any, 1}}, NULL);
    expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
    release(&out);
    out = run_with(it, (plim_requirement){.environment = PLIM_LIT("a")}, NULL);
    expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
    release(&out);
}

static void kinds_are_filtered(void **state)
{
    fixture *it = *state;
    CHANGE(it->scripts[0].about.supports[PLIM_KIND_PROJECT] = false);
    CHANGE(it->scripts[1].about.supports[PLIM_KIND_MODULE] = false);
    CHANGE(it->scripts[0].about.supports[PLIM_KIND_MODULE] = false);
    plim_bytes step = PLIM_LIT("true");
    double value = 1;
    plim_project_request project = {.size = sizeof(project), .steps = &step, .step_count = 1};
    plim_module_request module = {.size = sizeof(module),
                                  .model = PLIM_LIT("m"),
                                  .values = &value,
                                  .rows = 1,
                                  .width = 1,
                                  .end_time = 1,
                                  .step = 1};
    outcome out = {.err = PLIM_ERROR_INIT};
    out.status =
        plim_pool_run_project(it->pool, &project, NULL, NULL, &out.result, &out.choice, &out.err);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 0);
    release(&out);
    out.status =
        plim_pool_run_module(it->pool, &module, NULL, NULL, &out.result, &out.choice, &out.err);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "third", 0);
    release(&out);
    plim_requirement grant = {.size = sizeof(grant), .grant_profile = true};
    out.status =
        plim_pool_run_module(it->pool, &module, &grant, NULL, &out.result, &out.choice, &out.err);
    expect(&out, PLIM_E_NO_BACKEND, PLIM_ND_UNSUPPORTED, "", 0);
    release(&out);
}

static void floors_and_rules_are_merged_onto_the_request(void **state)
{
    fixture *it = *state;
    static const plim_bytes ours[] = {PLIM_LIT("b:1"),
                                      PLIM_LIT("oci-manifest:linux/amd64@sha256:aa")};
    static const plim_bytes theirs[] = {PLIM_LIT("oci-manifest:linux/amd64@sha256:aa"),
                                        PLIM_LIT("c:1")};
    plim_requirement need = {.size = sizeof(need),
                             .minimum_isolation = PLIM_TIER_PROCESS,
                             .software = {PLIM_RULE_APPROVED, ours, 2}};
    plim_javascript_request request = {.size = sizeof(request),
                                       .options = {.software = {PLIM_RULE_APPROVED, theirs, 2}},
                                       .code = PLIM_LIT("1")};
    outcome out = {.err = PLIM_ERROR_INIT};
    out.status =
        plim_pool_run_javascript(it->pool, &request, &need, NULL, &out.result, NULL, &out.err);
    assert_int_equal(out.status, PLIM_OK);
    assert_string_equal(plim_record_software_rule_id(plim_result_record(out.result)),
                        "exact:oci-manifest:linux/amd64@sha256:aa");
    assert_int_equal(atomic_load(&it->scripts[0].floor), PLIM_TIER_PROCESS);
    release(&out);

    request.options.software.identities = &theirs[1];
    request.options.software.count = 1;
    out = (outcome){.err = PLIM_ERROR_INIT};
    out.status = plim_pool_run_javascript(it->pool, &request, &need, NULL, &out.result, &out.choice,
                                          &out.err);
    expect(&out, PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST, "", 0);
    release(&out);
    out = run_with(it, (plim_requirement){.minimum_isolation = PLIM_TIER_NONE}, NULL);
    expect(&out, PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST, "", 0);
    release(&out);
    out = run_with(it, (plim_requirement){.minimum_isolation = (plim_tier)77}, NULL);
    expect(&out, PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST, "", 0);
    release(&out);
}

/* ---- rank ---- */

static int stronger_first(const plim_candidate *a, const plim_candidate *b, void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    return (int)plim_info_tier(b->info) - (int)plim_info_tier(a->info);
}

static void prefer_ranks_and_keeps_order_among_equals(void **state)
{
    fixture *it = *state;
    atomic_int calls = 0;
    plim_requirement need = {.prefer = stronger_first, .prefer_ctx = &calls};
    CHANGE(it->scripts[1].about.tier = it->scripts[2].about.tier = PLIM_TIER_KERNEL);
    outcome out = run_with(it, need, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 0);
    assert_true(atomic_load(&calls) > 0);
    release(&out);
}

/* ---- retry ---- */

static bool refuse_with(server_conn *conn, server_request *request)
{
    daemon_script *script = (daemon_script *)conn->server->arg;
    char body[256];
    const char *refusal;
    CHANGE({
        refusal = script->refusal;
        if (script->cancel)
            plim_cancel_fire(script->cancel);
    });
    if (refusal[0] == '-')
        snprintf(body, sizeof(body), "{\"code\":\"internal\"}");
    else
        snprintf(body, sizeof(body),
                 "{\"code\":\"internal\",\"details\":[{\"type\":\"plimsoll.v1.NotDispatched\","
                 "\"value\":\"%s\"}]}",
                 refusal);
    server_answer(conn, request, 500, "application/json", "", plim_bytes_of(body));
    return true;
}

static void refuse_at(fixture *it, int daemon, const char *refusal)
{
    CHANGE(it->scripts[daemon].run = refuse_with, it->scripts[daemon].refusal = refusal);
}

static void a_refusal_goes_on_only_for_four_reasons(void **state)
{
    fixture *it = *state;
    static const struct {
        const char *value;
        plim_not_dispatched reason;
        bool goes_on;
    } rows[] = {
        {"CAQ", PLIM_ND_UNSUPPORTED, true}, {"CAU", PLIM_ND_ISOLATION, true},
        {"CAc", PLIM_ND_ENVIRONMENT, true}, {"CAY", PLIM_ND_CAPACITY, true},
        {"CAE", PLIM_ND_REQUEST, false},    {"CAI", PLIM_ND_PERMISSION, false},
        {"CAM", PLIM_ND_PROTOCOL, false},   {"CGM", PLIM_ND_UNKNOWN, false},
        {"-", PLIM_ND_NONE, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        refuse_at(it, 0, rows[i].value);
        outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
        if (rows[i].goes_on) {
            expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 1);
            plim_retried refused = plim_choice_retried(out.choice, 0);
            assert_string_equal(refused.backend, "first");
            assert_int_equal(refused.reason, rows[i].reason);
            assert_int_equal(plim_error_not_dispatched(refused.error), rows[i].reason);
            assert_null(plim_choice_retried(out.choice, 1).backend);
        } else {
            expect(&out, PLIM_E_REMOTE, rows[i].reason, "first", 0);
        }
        release(&out);
    }
}

static void the_last_refusal_is_returned(void **state)
{
    fixture *it = *state;
    refuse_at(it, 0, "CAY");
    refuse_at(it, 1, "CAU");
    refuse_at(it, 2, "CAQ");
    outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_E_REMOTE, PLIM_ND_UNSUPPORTED, "third", 2);
    assert_int_equal(plim_choice_retried(out.choice, 0).reason, PLIM_ND_CAPACITY);
    assert_int_equal(plim_choice_retried(out.choice, 1).reason, PLIM_ND_ISOLATION);
    release(&out);
}

static void a_cancelled_call_does_not_go_on(void **state)
{
    fixture *it = *state;
    plim_cancel *cancel = plim_cancel_new();
    outcome out = run_with(it, (plim_requirement){.size = 0}, cancel); /* describes all */
    release(&out);
    assert_false(plim_cancel_fired(cancel));
    plim_cancel_fire(cancel);
    assert_true(plim_cancel_fired(cancel));
    out = run_with(it, (plim_requirement){.size = 0}, cancel);
    expect(&out, PLIM_E_CANCELED, PLIM_ND_REQUEST, "first", 0);
    release(&out);
    plim_cancel_free(cancel);
    assert_int_equal(runs(it), 1);

    /* Fired while the refusal is on its way: the call is over, whichever of the two it sees. */
    cancel = plim_cancel_new();
    refuse_at(it, 0, "CAY");
    CHANGE(it->scripts[0].cancel = cancel);
    out = run_with(it, (plim_requirement){.size = 0}, cancel);
    assert_string_equal(plim_choice_backend(out.choice), "first");
    assert_int_equal(plim_choice_retried_count(out.choice), 0);
    release(&out);
    assert_int_equal(runs(it), 2);
    CHANGE(it->scripts[0].cancel = NULL);
    plim_cancel_free(cancel);
}

static void a_cancel_while_describing_is_marked(void **state)
{
    fixture *it = *state;
    plim_cancel *cancel = plim_cancel_new();
    plim_cancel_fire(cancel);
    outcome out = run_with(it, (plim_requirement){.size = 0}, cancel);
    expect(&out, PLIM_E_CANCELED, PLIM_ND_REQUEST, "", 0);
    release(&out);
    plim_cancel_free(cancel);
    assert_int_equal(runs(it), 0);
}

static void a_dead_daemon_is_passed_over_and_comes_back(void **state)
{
    fixture *it = *state;
    outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
    release(&out);
    server_stop(&it->servers[0]);
    /* Its description is still young: the request finds out. */
    out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 1);
    assert_int_equal(plim_choice_retried(out.choice, 0).reason, PLIM_ND_ENVIRONMENT);
    release(&out);
    assert_int_equal(plim_pool_refresh(it->pool, NULL, NULL), PLIM_E_TRANSPORT);
    out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 0);
    release(&out);
    server_start(&it->servers[0], serve, &it->scripts[0], NULL); /* for tear_down */
}

static bool break_off(server_conn *conn, server_request *request)
{
    (void)conn, (void)request;
    return false;
}

static void a_lost_answer_is_not_sent_elsewhere(void **state)
{
    fixture *it = *state;
    CHANGE(it->scripts[0].run = break_off);
    outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_E_TRANSPORT, PLIM_ND_NONE, "first", 0);
    release(&out);
    assert_int_equal(runs(it), 1);
}

/* ---- stale descriptions ---- */

static bool refuse_a_floor(server_conn *conn, server_request *request)
{
    daemon_script *script = (daemon_script *)conn->server->arg;
    assert_int_equal(atomic_load(&script->floor), PLIM_TIER_KERNEL);
    CHANGE(script->refusal = "CAU");
    return refuse_with(conn, request);
}

static void set_tier(plim_result *result)
{
    result->isolation = "kernel";
}

static bool run_at_kernel(server_conn *conn, server_request *request)
{
    static const server_spoiler spoiler = {.result = set_tier};
    base_buf body;
    server_run_answer(request, &spoiler, &body);
    server_answer(conn, request, 200, "application/proto", "", base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

static void a_tier_that_dropped_is_met_by_the_floor_on_the_request(void **state)
{
    fixture *it = *state;
    CHANGE(it->scripts[0].about.tier = it->scripts[1].about.tier = PLIM_TIER_KERNEL);
    CHANGE(it->scripts[0].run = refuse_a_floor);
    CHANGE(it->scripts[1].run = run_at_kernel);
    plim_requirement need = {.minimum_isolation = PLIM_TIER_KERNEL};
    outcome out = run_with(it, need, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 1);
    release(&out);
    /* A daemon that ran it all the same. */
    CHANGE(it->scripts[0].run = NULL);
    out = run_with(it, need, NULL);
    expect(&out, PLIM_E_ISOLATION_EVIDENCE, PLIM_ND_NONE, "first", 0);
    release(&out);
    assert_int_equal(runs(it), 3);
}

static void a_stale_environment_is_found_out_afterwards(void **state)
{
    fixture *it = *state;
    for (int i = 0; i < DAEMONS; i++)
        CHANGE(snprintf(it->scripts[i].about.environment[PLIM_KIND_JAVASCRIPT].identity, 160,
                        "oci:2"));
    outcome out = run_with(it, (plim_requirement){.environment = PLIM_LIT("oci:2")}, NULL);
    expect(&out, PLIM_E_ENVIRONMENT_MISMATCH, PLIM_ND_NONE, "first", 0);
    assert_null(plim_error_cause(&out.err));
    release(&out);
    assert_int_equal(runs(it), 1);
}

typedef struct describing {
    fixture *fixture;
    plim_status status;
} describing;

static void *refresh_in_thread(void *arg)
{
    describing *it = arg;
    it->status = plim_pool_refresh(it->fixture->pool, NULL, NULL);
    return NULL;
}

static void a_slow_older_answer_does_not_replace_a_newer_one(void **state)
{
    fixture *it = *state;
    pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&hold);
    atomic_store(&it->scripts[0].hold_describe, &hold);
    describing old = {it, PLIM_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, refresh_in_thread, &old), 0);
    while (atomic_load(&it->scripts[0].describes) == 0)
        sched_yield();
    atomic_store(&it->scripts[0].hold_describe, NULL);
    CHANGE(it->scripts[0].about.tier = PLIM_TIER_VM);
    assert_int_equal(plim_pool_refresh(it->pool, NULL, NULL), PLIM_OK);
    pthread_mutex_unlock(&hold);
    pthread_join(thread, NULL);
    assert_int_equal(old.status, PLIM_OK);
    plim_info *info;
    assert_int_equal(plim_pool_describe(it->pool, PLIM_LIT("first"), NULL, &info, NULL), PLIM_OK);
    assert_int_equal(plim_info_tier(info), PLIM_TIER_VM);
    plim_info_free(info);
    assert_int_equal(atomic_load(&it->scripts[0].describes), 2);
}

/* Description of a daemon of protocol 2. */
static bool describe_old(server_conn *conn, server_request *request)
{
    static const char body[] = "\x0A\x04wasm\x12\x07process\x48\x02";
    server_answer(conn, request, 200, "application/proto", "",
                  (plim_bytes){body, sizeof(body) - 1});
    return true;
}

static void a_daemon_of_another_protocol_is_described_and_passed_over(void **state)
{
    fixture *it = *state;
    server old;
    server_start(&old, describe_old, NULL, NULL);
    plim_client_options options = {.size = sizeof(options), .base_url = plim_bytes_of(old.url)};
    plim_sandbox *sandbox;
    plim_info *info;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, NULL), PLIM_OK);
    assert_int_equal(plim_describe(sandbox, NULL, &info, &err), PLIM_E_PROTOCOL_MISMATCH);
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_PROTOCOL);
    assert_non_null(info);
    assert_string_equal(plim_info_provider(info), "wasm");
    plim_info_free(info);
    plim_error_clear(&err);

    plim_backend backends[] = {{PLIM_LIT("old"), sandbox}, it->backends[1]};
    plim_pool *pool;
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT("1")};
    plim_result *result;
    plim_choice *choice;
    assert_int_equal(plim_pool_new(backends, 2, 0, &pool, NULL), PLIM_OK);
    assert_int_equal(plim_pool_run_javascript(pool, &request, NULL, NULL, &result, &choice, NULL),
                     PLIM_OK);
    assert_string_equal(plim_choice_backend(choice), "second");
    assert_int_equal(plim_choice_retried_count(choice), 0);
    plim_result_free(result);
    plim_choice_free(choice);
    plim_pool_free(pool);
    plim_sandbox_free(sandbox);
    server_stop(&old);
}

static void a_failed_description_is_asked_again(void **state)
{
    fixture *it = *state;
    CHANGE(it->scripts[0].about.provider = NULL); /* hangs up on Describe */
    outcome out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "second", 0);
    release(&out);
    CHANGE(it->scripts[0].about.provider = "wasm");
    out = run_with(it, (plim_requirement){.size = 0}, NULL);
    expect(&out, PLIM_OK, PLIM_ND_NONE, "first", 0);
    release(&out);
    for (int i = 0; i < 3; i++) {
        out = run_with(it, (plim_requirement){.size = 0}, NULL);
        release(&out);
    }
    assert_int_equal(atomic_load(&it->scripts[0].describes), 2);
    assert_int_equal(atomic_load(&it->scripts[1].describes), 1);
}

static void an_old_description_is_asked_again(void **state)
{
    fixture *it = *state;
    plim_pool *pool;
    assert_int_equal(plim_pool_new(it->backends, 1, 1, &pool, NULL), PLIM_OK);
    plim_info *info;
    struct timespec pause = {0, 5000000L};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(plim_pool_describe(pool, PLIM_LIT("first"), NULL, &info, NULL), PLIM_OK);
        assert_string_equal(plim_info_provider(info), "wasm");
        plim_info_free(info);
        nanosleep(&pause, NULL);
    }
    assert_int_equal(atomic_load(&it->scripts[0].describes), 2);
    plim_pool_free(pool);
}

/* ---- making one ---- */

static void a_pool_is_checked(void **state)
{
    fixture *it = *state;
    plim_pool *pool;
    plim_backend bad[2] = {it->backends[0], it->backends[0]};
    assert_int_equal(plim_pool_new(bad, 0, 0, &pool, NULL), PLIM_E_INVALID_OPTION);
    assert_int_equal(plim_pool_new(bad, 2, 0, &pool, NULL), PLIM_E_INVALID_OPTION);
    bad[0].name = PLIM_LIT(" \t");
    assert_int_equal(plim_pool_new(bad, 1, 0, &pool, NULL), PLIM_E_INVALID_OPTION);
    bad[0].name = PLIM_LIT("a");
    bad[0].sandbox = NULL;
    assert_int_equal(plim_pool_new(bad, 1, 0, &pool, NULL), PLIM_E_INVALID_OPTION);
    assert_null(pool);
    plim_info *info;
    assert_int_equal(plim_pool_describe(it->pool, PLIM_LIT("x"), NULL, &info, NULL),
                     PLIM_E_INVALID_OPTION);
    assert_null(info);
    plim_javascript_request request = {.size = sizeof(request) + 1};
    plim_result *result;
    assert_int_equal(plim_pool_run_javascript(it->pool, &request, NULL, NULL, &result, NULL, NULL),
                     PLIM_E_INVALID_OPTION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_pools_order_decides),
        TEST(each_filter_has_its_reason),
        TEST(an_empty_identity_meets_nothing),
        TEST(kinds_are_filtered),
        TEST(floors_and_rules_are_merged_onto_the_request),
        TEST(prefer_ranks_and_keeps_order_among_equals),
        TEST(a_refusal_goes_on_only_for_four_reasons),
        TEST(the_last_refusal_is_returned),
        TEST(a_cancelled_call_does_not_go_on),
        TEST(a_cancel_while_describing_is_marked),
        TEST(a_dead_daemon_is_passed_over_and_comes_back),
        TEST(a_lost_answer_is_not_sent_elsewhere),
        TEST(a_tier_that_dropped_is_met_by_the_floor_on_the_request),
        TEST(a_stale_environment_is_found_out_afterwards),
        TEST(a_slow_older_answer_does_not_replace_a_newer_one),
        TEST(a_daemon_of_another_protocol_is_described_and_passed_over),
        TEST(a_failed_description_is_asked_again),
        TEST(an_old_description_is_asked_again),
        TEST(a_pool_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
