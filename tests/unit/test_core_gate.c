/* The gate in front of a provider, here one that writes down what it was asked: the order of
 * checks, and what each refusal did not touch. */
#include "unit.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "core/core.h"

/* ---- a provider that keeps a diary ---- */

struct recorder {
    core_provider base;
    char diary[128]; /* p preflight, s smoke test, r run, f free */
    plim_tier tier;
    const char *identity;
    bool preflight_fails, smoke_fails, run_fails, run_refuses;
    core_gate *reenter; /* run asks this gate again, as a second caller would */
    plim_status reentered;
};

static void note(core_provider *provider, const char *what)
{
    struct recorder *recorder = (struct recorder *)provider;
    size_t used = strlen(recorder->diary);
    snprintf(recorder->diary + used, sizeof(recorder->diary) - used, "%s", what);
}

static bool record_preflight(core_provider *provider, const run_ctx *ctx, plim_error *err)
{
    (void)ctx;
    note(provider, "p");
    return !((struct recorder *)provider)->preflight_fails || core_refuse_environment(err, "down");
}

static bool record_smoke(core_provider *provider, const run_ctx *ctx, plim_error *err)
{
    (void)ctx;
    note(provider, "s");
    return !((struct recorder *)provider)->smoke_fails || core_refuse_environment(err, "leaky");
}

static void record_describe(core_provider *provider, core_description *out)
{
    struct recorder *recorder = (struct recorder *)provider;
    *out = (core_description){.provider = "recorder", .tier = recorder->tier};
    if (recorder->identity)
        snprintf(out->environment[PLIM_KIND_JAVASCRIPT].software_identity,
                 sizeof(out->environment[0].software_identity), "%s", recorder->identity);
}

static bool record_run(core_provider *provider, const core_request *request, plim_bytes principal,
                       const run_ctx *ctx, plim_result **out, plim_error *err)
{
    struct recorder *recorder = (struct recorder *)provider;
    note(provider, "r");
    if (recorder->reenter) {
        plim_error second = PLIM_ERROR_INIT;
        plim_result *result = NULL;
        core_gate_run(TAKE_PTR(recorder->reenter), request, principal, ctx, &result, &second);
        recorder->reentered = plim_error_status(&second);
        plim_result_free(result);
    }
    if (recorder->run_fails)
        return core_fail_internal(err, "it broke");
    if (recorder->run_refuses)
        return core_refuse_unsupported(err, "not this kind");
    *out = core_result_new(request->kind);
    return *out != NULL;
}

static void record_free(core_provider *provider)
{
    note(provider, "f");
}

static const core_provider_ops recorder_ops = {.name = "recorder",
                                               .on_host = true,
                                               .default_memory_mb = 256,
                                               .free = record_free,
                                               .preflight = record_preflight,
                                               .smoke_test = record_smoke,
                                               .describe = record_describe,
                                               .run = record_run};

static const core_limits one_token = {
    .max_concurrent = 1, .per_key_concurrent = 1, .rate_per_min = 1, .rate_burst = 1};
static const core_limits ample = {.max_concurrent = 8};

static core_gate *gate_on(struct recorder *recorder, core_limits limits, plim_tier least)
{
    recorder->base.ops = &recorder_ops;
    core_gate *gate = core_gate_new(&recorder->base, &limits, least);
    assert_non_null(gate);
    return gate;
}

/* Run a snippet; the class of the error, PLIM_OK for a result. */
static plim_status run(core_gate *gate, plim_tier floor, const plim_software_rule *rule,
                       plim_error *err)
{
    plim_javascript_request request = {.code = PLIM_LIT("1"), .options.minimum_isolation = floor};
    if (rule)
        request.options.software = *rule;
    core_request inner = {PLIM_KIND_JAVASCRIPT, &request.options, .javascript = &request};
    plim_result *result = NULL;
    plim_error unheard = PLIM_ERROR_INIT;
    run_ctx ctx = RUN_CTX_NONE;
    err = err ? err : &unheard;
    bool good = core_gate_run(gate, &inner, PLIM_LIT("caller"), &ctx, &result, err);
    assert_int_equal(good, result != NULL);
    plim_result_free(result);
    return good ? PLIM_OK : plim_error_status(err);
}

/* ---- what a run meets ---- */

static void a_run_reaches_the_provider_once(void **state)
{
    (void)state;
    struct recorder recorder = {.tier = PLIM_TIER_PROCESS};
    core_gate *gate = gate_on(&recorder, ample, PLIM_TIER_UNKNOWN);
    assert_int_equal(run(gate, PLIM_TIER_PROCESS, NULL, NULL), PLIM_OK);
    assert_string_equal(recorder.diary, "r");
    core_gate_free(gate);
    assert_string_equal(recorder.diary, "rf");
    core_gate_free(NULL);
}

/* Floor, then software rule, then admission: each refusal stands whatever the later ones would say,
 * and the provider is not called. */
static void refusals_come_in_order(void **state)
{
    (void)state;
    const plim_bytes identity = PLIM_LIT("img:1");
    const plim_software_rule rule = {PLIM_RULE_EXACT, &identity, 1};
    struct recorder recorder = {.tier = PLIM_TIER_CONTAINER};
    core_gate *gate = gate_on(&recorder, one_token, PLIM_TIER_UNKNOWN);
    plim_error err = PLIM_ERROR_INIT;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(gate, PLIM_TIER_KERNEL, &rule, &err), PLIM_E_INSUFFICIENT_ISOLATION);
        assert_refused(&err, PLIM_E_INSUFFICIENT_ISOLATION, "failed_precondition",
                       PLIM_ND_ISOLATION);
        assert_contains(plim_error_message(&err), "container");
        assert_contains(plim_error_message(&err), "kernel");
        assert_contains(plim_error_message(&err), "recorder");
        assert_int_equal(run(gate, PLIM_TIER_CONTAINER, &rule, &err), PLIM_E_SOFTWARE_MISMATCH);
        assert_refused(&err, PLIM_E_SOFTWARE_MISMATCH, "failed_precondition", PLIM_ND_ENVIRONMENT);
    }
    assert_string_equal(recorder.diary, "");
    /* None of the six refusals took the one token there is. */
    assert_int_equal(run(gate, PLIM_TIER_CONTAINER, NULL, &err), PLIM_OK);
    assert_int_equal(run(gate, PLIM_TIER_CONTAINER, NULL, &err), PLIM_E_AT_CAPACITY);
    assert_refused(&err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    /* With the rate exhausted, a floor that is too high is still said to be too high. */
    assert_int_equal(run(gate, PLIM_TIER_VM, NULL, &err), PLIM_E_INSUFFICIENT_ISOLATION);
    assert_string_equal(recorder.diary, "r");
    core_admission_counts counts;
    core_gate_counts(gate, &counts);
    assert_int_equal(counts.in_flight, 0);
    assert_int_equal(counts.shed[CORE_SHED_RATE], 1);
    core_gate_free(gate);
}

static void rules_are_compared_with_the_stated_identity(void **state)
{
    (void)state;
    const plim_bytes identities[] = {PLIM_LIT("img:1"), PLIM_LIT("img:2")};
    const plim_software_rule exact = {PLIM_RULE_EXACT, identities, 1},
                             approved = {PLIM_RULE_APPROVED, identities, 2};
    static const struct {
        const char *identity;
        bool exact, approved;
    } cases[] = {{NULL, false, false},
                 {"img:1", true, true},
                 {"img:2", false, true},
                 {"img:3", false, false}};
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct recorder recorder = {.tier = PLIM_TIER_PROCESS, .identity = cases[i].identity};
        core_gate *gate = gate_on(&recorder, ample, PLIM_TIER_UNKNOWN);
        assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, &exact, NULL) == PLIM_OK, cases[i].exact);
        assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, &approved, NULL) == PLIM_OK,
                         cases[i].approved);
        core_gate_free(gate);
    }
}

/* The floor is compared with what the provider says now, not with what it said before. */
static void evidence_that_falls_is_seen(void **state)
{
    (void)state;
    struct recorder recorder = {.tier = PLIM_TIER_KERNEL};
    core_gate *gate = gate_on(&recorder, ample, PLIM_TIER_UNKNOWN);
    assert_int_equal(run(gate, PLIM_TIER_KERNEL, NULL, NULL), PLIM_OK);
    recorder.tier = PLIM_TIER_UNKNOWN;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(run(gate, PLIM_TIER_PROCESS, NULL, &err), PLIM_E_INSUFFICIENT_ISOLATION);
    assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, NULL, &err), PLIM_OK);
    recorder.tier = PLIM_TIER_NONE;
    assert_int_equal(run(gate, PLIM_TIER_PROCESS, NULL, &err), PLIM_E_INSUFFICIENT_ISOLATION);
    recorder.tier = PLIM_TIER_KERNEL;
    assert_int_equal(run(gate, PLIM_TIER_KERNEL, NULL, &err), PLIM_OK);
    core_gate_free(gate);
}

/* A slot is held while the provider runs and returned whatever became of the run. */
static void a_slot_is_held_for_the_run(void **state)
{
    (void)state;
    struct recorder recorder = {.tier = PLIM_TIER_PROCESS};
    core_gate *gate = gate_on(&recorder, (core_limits){.max_concurrent = 1}, PLIM_TIER_UNKNOWN);
    recorder.reenter = gate;
    assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, NULL, NULL), PLIM_OK);
    assert_int_equal(recorder.reentered, PLIM_E_AT_CAPACITY);
    assert_string_equal(recorder.diary, "r");

    plim_error err = PLIM_ERROR_INIT;
    recorder.run_fails = true;
    assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, NULL, &err), PLIM_E_REMOTE);
    assert_failed(&err, PLIM_E_REMOTE, "internal");
    recorder.run_fails = false;
    recorder.run_refuses = true;
    assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, NULL, &err), PLIM_E_UNSUPPORTED);
    assert_refused(&err, PLIM_E_UNSUPPORTED, "unimplemented", PLIM_ND_UNSUPPORTED);
    recorder.run_refuses = false;
    assert_int_equal(run(gate, PLIM_TIER_UNKNOWN, NULL, NULL), PLIM_OK);
    core_admission_counts counts;
    core_gate_counts(gate, &counts);
    assert_int_equal(counts.in_flight, 0);
    core_gate_free(gate);
}

/* ---- readiness ---- */

/* What a caller's leaving broke off is no fault of the provider; a mark is worth more. */
static void a_caller_that_left_is_told_so(void **state)
{
    (void)state;
    int gone = eventfd(1, EFD_CLOEXEC), here = eventfd(0, EFD_CLOEXEC);
    assert_true(gone >= 0 && here >= 0);
    const struct {
        run_ctx ctx;
        bool marked;
        plim_status status;
        const char *code;
    } cases[] = {
        {{BASE_NEVER, gone}, false, PLIM_E_CANCELED, "canceled"},
        {{base_monotonic_ns() - 1, here}, false, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded"},
        {{BASE_NEVER, here}, false, PLIM_E_REMOTE, "internal"},
        {{BASE_NEVER, gone}, true, PLIM_E_UNSUPPORTED, "unimplemented"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct recorder recorder = {.tier = PLIM_TIER_PROCESS,
                                    .run_fails = !cases[i].marked,
                                    .run_refuses = cases[i].marked};
        core_gate *gate = gate_on(&recorder, ample, PLIM_TIER_UNKNOWN);
        plim_javascript_request request = {.code = PLIM_LIT("1")};
        core_request inner = {PLIM_KIND_JAVASCRIPT, &request.options, .javascript = &request};
        plim_result *result = NULL;
        plim_error err = PLIM_ERROR_INIT;
        assert_false(core_gate_run(gate, &inner, PLIM_LIT("a"), &cases[i].ctx, &result, &err));
        assert_int_equal(plim_error_status(&err), cases[i].status);
        assert_string_equal(plim_error_code(&err), cases[i].code);
        assert_int_equal(plim_may_have_run(&err), !cases[i].marked);
        core_gate_free(gate);
    }
    close(gone);
    close(here);
}

static void readiness_stops_at_the_first_fault(void **state)
{
    (void)state;
    static const struct {
        bool preflight_fails, smoke_fails;
        plim_tier least;
        plim_status expected;
        const char *diary;
    } cases[] = {
        {false, false, PLIM_TIER_UNKNOWN, PLIM_OK, "ps"},
        {false, false, PLIM_TIER_PROCESS, PLIM_OK, "ps"},
        {true, true, PLIM_TIER_VM, PLIM_E_REMOTE, "p"},
        {false, true, PLIM_TIER_VM, PLIM_E_REMOTE, "ps"},
        {false, false, PLIM_TIER_CONTAINER, PLIM_E_INSUFFICIENT_ISOLATION, "ps"},
        {false, false, PLIM_TIER_VM, PLIM_E_INSUFFICIENT_ISOLATION, "ps"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct recorder recorder = {.tier = PLIM_TIER_PROCESS,
                                    .preflight_fails = cases[i].preflight_fails,
                                    .smoke_fails = cases[i].smoke_fails};
        core_gate *gate = gate_on(&recorder, ample, cases[i].least);
        plim_error err = PLIM_ERROR_INIT;
        run_ctx ctx = RUN_CTX_NONE;
        bool good = core_gate_ready(gate, &ctx, &err);
        assert_int_equal(good, cases[i].expected == PLIM_OK);
        assert_int_equal(plim_error_status(&err), cases[i].expected);
        assert_string_equal(recorder.diary, cases[i].diary);
        assert_int_equal(plim_may_have_run(&err), good); /* a fault of readiness is marked */
        if (cases[i].expected == PLIM_E_INSUFFICIENT_ISOLATION)
            assert_contains(plim_error_message(&err), "SANDBOX_MIN_ISOLATION");
        core_gate_free(gate);
    }
}

static void a_provider_may_have_no_smoke_test(void **state)
{
    (void)state;
    core_provider_ops ops = recorder_ops;
    ops.smoke_test = NULL;
    struct recorder recorder = {.tier = PLIM_TIER_PROCESS};
    core_gate *gate = gate_on(&recorder, ample, PLIM_TIER_UNKNOWN);
    recorder.base.ops = &ops;
    run_ctx ctx = RUN_CTX_NONE;
    assert_true(core_gate_ready(gate, &ctx, NULL));
    assert_string_equal(recorder.diary, "p");
    core_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_reaches_the_provider_once),
        cmocka_unit_test(refusals_come_in_order),
        cmocka_unit_test(rules_are_compared_with_the_stated_identity),
        cmocka_unit_test(evidence_that_falls_is_seen),
        cmocka_unit_test(a_slot_is_held_for_the_run),
        cmocka_unit_test(a_caller_that_left_is_told_so),
        cmocka_unit_test(readiness_stops_at_the_first_fault),
        cmocka_unit_test(a_provider_may_have_no_smoke_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
