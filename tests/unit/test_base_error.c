/* The error contract: filled once, wrapped, moved, cut at a character; codes and names. */
#include "unit.h"

#include "base/base.h"

static bool is_clear(const plim_error *err)
{
    static const plim_error clear = PLIM_ERROR_INIT;
    return err->status == clear.status && err->code == clear.code && !err->more &&
           err->not_dispatched == clear.not_dispatched && err->http_status == 0 &&
           err->message[0] == '\0';
}

static void a_clear_error_promises_nothing(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_error_status(&err), PLIM_OK);
    assert_string_equal(plim_error_code(&err), "ok");
    assert_string_equal(plim_error_message(&err), "");
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_NONE);
    assert_int_equal(plim_error_http_status(&err), 0);
    assert_true(plim_may_have_run(&err));
    plim_error_clear(NULL);
    plim_error_clear(&err);
    assert_true(is_clear(&err));
}

static void a_failure_is_unmarked_and_a_refusal_is_marked(void **state)
{
    (void)state;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    assert_false(plim_fail(&err, PLIM_E_TRANSPORT, PLIM_CODE_UNAVAILABLE, "cut after %d", 3));
    assert_failed(&err, PLIM_E_TRANSPORT, "unavailable");
    assert_string_equal(plim_error_message(&err), "cut after 3");
    assert_false(plim_refuse(&err, PLIM_E_AT_CAPACITY, PLIM_CODE_RESOURCE_EXHAUSTED,
                             PLIM_ND_CAPACITY, "%s", "full"));
    assert_refused(&err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    assert_string_equal(plim_error_message(&err), "full");
    /* Filling again leaves nothing of before. */
    assert_false(plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, "x"));
    assert_failed(&err, PLIM_E_REMOTE, "internal");
    assert_false(plim_refuse_nomem(&err));
    assert_refused(&err, PLIM_E_NOMEM, "resource_exhausted", PLIM_ND_REQUEST);
}

static void nobody_need_listen(void **state)
{
    (void)state;
    assert_false(plim_fail(NULL, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, "x"));
    assert_false(plim_refuse(NULL, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, PLIM_ND_REQUEST, "x"));
    assert_false(plim_refuse_nomem(NULL));
    assert_false(plim_error_wrap(NULL, "x"));
    plim_error err = PLIM_ERROR_INIT;
    plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, "x");
    assert_false(plim_error_move(NULL, &err));
    assert_true(is_clear(&err));
}

static void wrapping_puts_context_in_front(void **state)
{
    (void)state;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    plim_refuse(&err, PLIM_E_IO, PLIM_CODE_INTERNAL, PLIM_ND_ENVIRONMENT, "no such file");
    assert_false(plim_error_wrap(&err, "line %d", 7));
    assert_false(plim_error_wrap(&err, "%s", "callers.json"));
    assert_string_equal(plim_error_message(&err), "callers.json: line 7: no such file");
    assert_refused(&err, PLIM_E_IO, "internal", PLIM_ND_ENVIRONMENT);
}

static void moving_leaves_nothing_behind(void **state)
{
    (void)state;
    plim_error from = PLIM_ERROR_INIT, to = PLIM_ERROR_INIT;
    plim_fail(&to, PLIM_E_IO, PLIM_CODE_INTERNAL, "old");
    plim_refuse(&from, PLIM_E_AT_CAPACITY, PLIM_CODE_RESOURCE_EXHAUSTED, PLIM_ND_CAPACITY, "new");
    assert_false(plim_error_move(&to, &from));
    assert_refused(&to, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    assert_string_equal(plim_error_message(&to), "new");
    assert_true(is_clear(&from));
    assert_false(plim_error_move(&to, &from));
    assert_true(is_clear(&to));
}

/* A message that is too long ends at a character, wherever the cut falls in it. */
static void long_messages_are_cut_at_a_character(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t i = 0; i < PLIM_COUNT(characters); i++)
        for (size_t shift = 0; shift < 8; shift++) {
            char text[2 * PLIM_ERROR_MESSAGE_MAX] = {0};
            size_t width = strlen(characters[i]), length = shift;
            memset(text, 'x', shift);
            for (; length + width < sizeof(text); length += width)
                memcpy(text + length, characters[i], width);
            plim_error err = PLIM_ERROR_INIT;
            plim_fail(&err, PLIM_E_IO, PLIM_CODE_INTERNAL, "%s", text);
            size_t kept = strlen(plim_error_message(&err));
            assert_true(base_utf8_valid(plim_bytes_of(plim_error_message(&err))));
            assert_in_range(kept, PLIM_ERROR_MESSAGE_MAX - 5, PLIM_ERROR_MESSAGE_MAX - 1);
            plim_error_wrap(&err, "context");
            assert_true(base_utf8_valid(plim_bytes_of(plim_error_message(&err))));
            assert_true(strlen(plim_error_message(&err)) < PLIM_ERROR_MESSAGE_MAX);
            plim_error_wrap(&err, "%s", text);
            assert_true(base_utf8_valid(plim_bytes_of(plim_error_message(&err))));
        }
}

static void messages_that_just_fit_stay_whole(void **state)
{
    (void)state;
    char text[PLIM_ERROR_MESSAGE_MAX];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    plim_error err = PLIM_ERROR_INIT;
    plim_fail(&err, PLIM_E_IO, PLIM_CODE_INTERNAL, "%s", text);
    assert_string_equal(plim_error_message(&err), text);
}

static void codes_have_names_and_statuses(void **state)
{
    (void)state;
    static const struct {
        int code, http;
        const char *name;
    } codes[] = {
        {0, 200, "ok"},
        {1, 499, "canceled"},
        {2, 500, "unknown"},
        {3, 400, "invalid_argument"},
        {4, 504, "deadline_exceeded"},
        {5, 404, "not_found"},
        {6, 409, "already_exists"},
        {7, 403, "permission_denied"},
        {8, 429, "resource_exhausted"},
        {9, 400, "failed_precondition"},
        {10, 409, "aborted"},
        {11, 400, "out_of_range"},
        {12, 501, "unimplemented"},
        {13, 500, "internal"},
        {14, 503, "unavailable"},
        {15, 500, "data_loss"},
        {16, 401, "unauthenticated"},
    };
    for (size_t i = 0; i < PLIM_COUNT(codes); i++) {
        assert_string_equal(plim_code_name(codes[i].code), codes[i].name);
        assert_int_equal(plim_code_http_status((plim_code)codes[i].code), codes[i].http);
        assert_int_equal(plim_code_from_name(plim_bytes_of(codes[i].name)), codes[i].code);
    }
    assert_string_equal(plim_code_name(17), "unknown");
    assert_string_equal(plim_code_name(-1), "unknown");
    assert_int_equal(plim_code_http_status((plim_code)99), 500);
    assert_int_equal(plim_code_from_name(PLIM_LIT("Internal")), PLIM_CODE_OK);
    assert_int_equal(plim_code_from_name(PLIM_LIT("internal\0")), PLIM_CODE_OK);
    assert_int_equal(plim_code_from_name((plim_bytes){NULL, 0}), PLIM_CODE_OK);
}

/* Every status has a name of its own. */
static void statuses_have_names(void **state)
{
    (void)state;
    for (int i = PLIM_OK; i <= PLIM_E_IO; i++) {
        assert_string_not_equal(plim_status_name((plim_status)i), "unknown");
        for (int j = PLIM_OK; j < i; j++)
            assert_string_not_equal(plim_status_name((plim_status)i),
                                    plim_status_name((plim_status)j));
    }
    assert_string_equal(plim_status_name(PLIM_OK), "ok");
    assert_string_equal(plim_status_name(PLIM_E_INSUFFICIENT_ISOLATION), "insufficient_isolation");
    assert_string_equal(plim_status_name((plim_status)(PLIM_E_IO + 1)), "unknown");
    assert_string_equal(plim_status_name((plim_status)-1), "unknown");
}

static void errno_has_text(void **state)
{
    (void)state;
    assert_string_equal(base_errno_text(ENOENT), "No such file or directory");
    assert_string_equal(base_errno_text(99999), "unknown error");
    assert_string_equal(base_errno_text(-1), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clear_error_promises_nothing),
        cmocka_unit_test(a_failure_is_unmarked_and_a_refusal_is_marked),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(wrapping_puts_context_in_front),
        cmocka_unit_test(moving_leaves_nothing_behind),
        cmocka_unit_test(long_messages_are_cut_at_a_character),
        cmocka_unit_test(messages_that_just_fit_stay_whole),
        cmocka_unit_test(codes_have_names_and_statuses),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(errno_has_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
