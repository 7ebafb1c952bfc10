/* Tiers and their order, reasons, kinds, outcomes; results and what their accessors give. */
#include "unit.h"

#include "core/core.h"

static const plim_tier tiers[] = {PLIM_TIER_UNKNOWN,   PLIM_TIER_NONE,   PLIM_TIER_PROCESS,
                                  PLIM_TIER_CONTAINER, PLIM_TIER_KERNEL, PLIM_TIER_VM};

/* The contract's table of who meets what, all pairs written out: rows have, columns floor. */
static void every_pair_of_tiers_compares(void **state)
{
    (void)state;
    static const char meets[PLIM_COUNT(tiers)][PLIM_COUNT(tiers) + 1] = {
        /*               unknown none process container kernel vm */
        /* unknown   */ "y.....",
        /* none      */ "y.....",
        /* process   */ "y.y...",
        /* container */ "y.yy..",
        /* kernel    */ "y.yyy.",
        /* vm        */ "y.yyyy",
    };
    for (size_t have = 0; have < PLIM_COUNT(tiers); have++)
        for (size_t floor = 0; floor < PLIM_COUNT(tiers); floor++)
            if (plim_tier_meets(tiers[have], tiers[floor]) != (meets[have][floor] == 'y'))
                fail_msg("evidence %s against the floor %s", plim_tier_name(tiers[have]),
                         plim_tier_name(tiers[floor]));
}

/* What a total order of walls implies, for values inside and outside the enum. */
static void tier_order_has_its_properties(void **state)
{
    (void)state;
    for (int have = -2; have <= PLIM_TIER_VM + 2; have++)
        for (int floor = -2; floor <= PLIM_TIER_VM + 2; floor++) {
            bool meets = plim_tier_meets((plim_tier)have, (plim_tier)floor);
            bool known = have >= PLIM_TIER_UNKNOWN && have <= PLIM_TIER_VM;
            if (floor == PLIM_TIER_UNKNOWN)
                assert_true(meets); /* none asked */
            else if (have < PLIM_TIER_PROCESS || !known)
                assert_false(meets); /* no wall, or no evidence, meets nothing */
            else if (floor < PLIM_TIER_PROCESS || floor > PLIM_TIER_VM)
                assert_false(meets); /* no such floor */
            else
                assert_int_equal(meets, have >= floor);
            /* A stronger wall meets whatever a weaker one meets. */
            if (meets && known && have < PLIM_TIER_VM)
                assert_true(plim_tier_meets((plim_tier)(have + 1), (plim_tier)floor));
        }
}

static void tiers_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"unknown", "none", "process", "container", "kernel", "vm"};
    for (size_t i = 0; i < PLIM_COUNT(tiers); i++) {
        assert_string_equal(plim_tier_name(tiers[i]), names[i]);
        plim_tier tier = PLIM_TIER_NONE;
        bool is_floor = plim_tier_from_name(plim_bytes_of(names[i]), &tier);
        assert_int_equal(is_floor, tiers[i] >= PLIM_TIER_PROCESS);
        assert_int_equal(tier, is_floor ? tiers[i] : PLIM_TIER_NONE);
    }
    assert_string_equal(plim_tier_name((plim_tier)6), "unknown");
    assert_string_equal(plim_tier_name((plim_tier)-1), "unknown");
}

static void floors_are_read_exactly(void **state)
{
    (void)state;
    static const plim_bytes bad[] = {
        {NULL, 0},           PLIM_LIT("fortress"), PLIM_LIT("VM"), PLIM_LIT(" vm"),
        PLIM_LIT("vm "),     PLIM_LIT("vm\0"),     PLIM_LIT("v"),  PLIM_LIT("none"),
        PLIM_LIT("unknown"), PLIM_LIT("Process"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        plim_tier tier = PLIM_TIER_KERNEL;
        assert_false(plim_tier_from_name(bad[i], &tier));
        assert_int_equal(tier, PLIM_TIER_KERNEL);
    }
}

static void reasons_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"",         "request",     "permission",
                                        "protocol", "unsupported", "isolation",
                                        "capacity", "environment"};
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        assert_string_equal(plim_not_dispatched_name((plim_not_dispatched)i), names[i]);
    assert_string_equal(plim_not_dispatched_name(PLIM_ND_UNKNOWN), "unknown");
    assert_string_equal(plim_not_dispatched_name((plim_not_dispatched)8), "unknown");
    assert_string_equal(plim_not_dispatched_name((plim_not_dispatched)-1), "unknown");
}

static void kinds_and_outcomes_have_names(void **state)
{
    (void)state;
    static const char *const kinds[] = {"", "javascript", "project", "module", "cell"};
    for (size_t i = 0; i < PLIM_COUNT(kinds); i++)
        assert_string_equal(plim_kind_name((plim_kind)i), kinds[i]);
    assert_string_equal(plim_kind_name((plim_kind)5), "");
    static const char *const outcomes[] = {"unspecified", "completed", "setup_failed", "timed_out",
                                           "protocol_error"};
    for (size_t i = 0; i < PLIM_COUNT(outcomes); i++)
        assert_string_equal(plim_outcome_name((plim_outcome)i), outcomes[i]);
    assert_string_equal(plim_outcome_name((plim_outcome)5), "unspecified");
}

static void a_new_result_states_nothing(void **state)
{
    (void)state;
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(PLIM_KIND_JAVASCRIPT);
    assert_non_null(result);
    assert_int_equal(plim_result_kind(result), PLIM_KIND_JAVASCRIPT);
    assert_int_equal(plim_result_tier(result), PLIM_TIER_UNKNOWN);
    assert_string_equal(plim_result_provider(result), "");
    assert_string_equal(plim_result_isolation(result), "");
    assert_string_equal(plim_result_environment(result), "");
    assert_string_equal(plim_result_software_identity(result), "");
    assert_string_equal(plim_result_limit_reached(result), "");
    assert_int_equal(plim_result_stdout(result).len, 0);
    assert_int_equal(plim_result_stderr(result).len, 0);
    assert_false(plim_result_stdout_truncated(result));
    assert_false(plim_result_stderr_truncated(result));
    assert_false(plim_result_timed_out(result));
    assert_int_equal(plim_result_exit_code(result), 0);
    assert_int_equal(plim_result_duration_ms(result), 0);
    assert_int_equal(plim_result_duration_ns(result), 0);
    plim_result_free(NULL);
}

static void a_result_holds_any_bytes(void **state)
{
    (void)state;
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(PLIM_KIND_JAVASCRIPT);
    assert_true(base_arena_dup(result->arena, PLIM_LIT("a\0\xFF\n"), &result->out));
    assert_bytes(plim_result_stdout(result), "a\0\xFF\n");
    /* A result has a bound, whatever its parts add up to. */
    assert_null(base_arena_alloc(result->arena, CORE_RESULT_BYTES_MAX, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_tiers_compares),
        cmocka_unit_test(tier_order_has_its_properties),
        cmocka_unit_test(tiers_have_names),
        cmocka_unit_test(floors_are_read_exactly),
        cmocka_unit_test(reasons_have_names),
        cmocka_unit_test(kinds_and_outcomes_have_names),
        cmocka_unit_test(a_new_result_states_nothing),
        cmocka_unit_test(a_result_holds_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
