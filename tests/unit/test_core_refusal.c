/* Refusals: the class, code and reason of each, and that only what cannot have run is marked. */
#include "unit.h"

#include "core/core.h"

static void each_refusal_has_its_class_code_and_reason(void **state)
{
    (void)state;
    static const struct {
        bool (*refuse)(plim_error *err, const char *format, ...);
        const char *code;
        plim_status class;
        plim_not_dispatched reason;
    } refusals[] = {
        {core_refuse_request, "invalid_argument", PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST},
        {core_refuse_permission, "permission_denied", PLIM_E_REMOTE, PLIM_ND_PERMISSION},
        {core_refuse_isolation, "failed_precondition", PLIM_E_INSUFFICIENT_ISOLATION,
         PLIM_ND_ISOLATION},
        {core_refuse_software, "failed_precondition", PLIM_E_SOFTWARE_MISMATCH,
         PLIM_ND_ENVIRONMENT},
        {core_refuse_environment, "internal", PLIM_E_REMOTE, PLIM_ND_ENVIRONMENT},
        {core_refuse_configuration, "failed_precondition", PLIM_E_INVALID_OPTION,
         PLIM_ND_ENVIRONMENT},
        {core_refuse_disabled, "failed_precondition", PLIM_E_DISABLED, PLIM_ND_UNSUPPORTED},
        {core_refuse_unsupported, "unimplemented", PLIM_E_UNSUPPORTED, PLIM_ND_UNSUPPORTED},
        {core_refuse_capacity, "resource_exhausted", PLIM_E_AT_CAPACITY, PLIM_ND_CAPACITY},
    };
    for (size_t i = 0; i < PLIM_COUNT(refusals); i++) {
        plim_error err = PLIM_ERROR_INIT;
        assert_false(refusals[i].refuse(&err, "%s %d%%", "because", 7));
        assert_refused(&err, refusals[i].class, refusals[i].code, refusals[i].reason);
        assert_string_equal(plim_error_message(&err), "because 7%");
        assert_false(refusals[i].refuse(NULL, "nobody listens"));
    }
}

static void faults_after_dispatch_are_unmarked(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    assert_false(core_fail_internal(&err, "lost %s", "it"));
    assert_failed(&err, PLIM_E_REMOTE, "internal");
    assert_string_equal(plim_error_message(&err), "lost it");
    assert_false(core_fail_gone(&err, RUN_CANCELED));
    assert_failed(&err, PLIM_E_CANCELED, "canceled");
    assert_false(core_fail_gone(&err, RUN_DEADLINE));
    assert_failed(&err, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded");
}

static void a_caller_gone_before_dispatch_is_marked(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    assert_false(core_refuse_gone(&err, RUN_CANCELED));
    assert_refused(&err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
    assert_false(core_refuse_gone(&err, RUN_DEADLINE));
    assert_refused(&err, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded", PLIM_ND_CAPACITY);
}

/* Text of a guest or a caller in a refusal is text, not a format, and is cut at a character. */
static void refusals_do_not_interpret_their_text(void **state)
{
    (void)state;
    char text[2 * PLIM_ERROR_MESSAGE_MAX] = {0};
    for (size_t i = 0; i + 3 < sizeof(text); i += 3)
        memcpy(text + i, "\xE2\x82\xAC", 3);
    plim_error err = PLIM_ERROR_INIT;
    core_refuse_request(&err, "%s", "%n%s%d");
    assert_string_equal(plim_error_message(&err), "%n%s%d");
    core_refuse_request(&err, "x%s", text);
    assert_true(base_utf8_valid(plim_bytes_of(plim_error_message(&err))));
    assert_true(strlen(plim_error_message(&err)) > PLIM_ERROR_MESSAGE_MAX - 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_has_its_class_code_and_reason),
        cmocka_unit_test(faults_after_dispatch_are_unmarked),
        cmocka_unit_test(a_caller_gone_before_dispatch_is_marked),
        cmocka_unit_test(refusals_do_not_interpret_their_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
