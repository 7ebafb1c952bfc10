/* What a recorder and a log get to know, requests that are sent as given, and the record of a call
 * without an answer. */
#include "test_client_server.h"

#include <plimsoll/placement.h>
#include <setjmp.h>

#include <cmocka.h>

#define TOKEN "secret-token-0123"
#define CODE  "console.log('only the guest knows')"

/* ---- a recorder that remembers ---- */

typedef struct journal {
    int calls, refuse; /* `refuse` is what the callback returns */
    base_buf request, response;
} journal;

#define JOURNAL_INIT                                                                               \
    {                                                                                              \
        .request = BASE_BUF_INIT(1 << 20), .response = BASE_BUF_INIT(1 << 20)                      \
    }

static int keep(void *ctx, plim_bytes request, plim_bytes response)
{
    journal *book = ctx;
    book->calls++;
    book->request.len = book->response.len = 0;
    assert_true(base_buf_add(&book->request, request) && base_buf_add(&book->response, response));
    return book->refuse;
}

static int keep_unanswered(void *ctx, plim_bytes request, const plim_record *record)
{
    (void)ctx, (void)request, (void)record;
    return 0;
}

static int keep_close(void *ctx, const char *session, uint64_t calls, const char *last)
{
    (void)ctx, (void)session, (void)calls, (void)last;
    return 0;
}

static void journal_free(journal *book)
{
    base_buf_free(&book->request);
    base_buf_free(&book->response);
}

/* ---- a handle of a scripted daemon ---- */

typedef struct fixture {
    server served;
    plim_sandbox *sandbox;
    plim_result *result;
    plim_error err;
} fixture;

static void open_with(fixture *it, server_script *script, const void *arg,
                      const plim_client_options *more)
{
    *it = (fixture){.err = PLIM_ERROR_INIT};
    server_start(&it->served, script, arg, NULL);
    plim_client_options options = *more;
    options.size = sizeof(options);
    options.base_url = plim_bytes_of(it->served.url);
    options.token = PLIM_LIT(TOKEN);
    options.request_timeout_ms = 60000;
    assert_int_equal(plim_sandbox_connect(&options, &it->sandbox, &it->err), PLIM_OK);
}

static void open_recorded(fixture *it, server_script *script, const void *arg, journal *book)
{
    plim_recorder recorder = {.size = sizeof(recorder), .ctx = book, .record = keep};
    open_with(it, script, arg, &(plim_client_options){.recorder = &recorder});
}

static plim_status run(fixture *it, plim_tier floor)
{
    plim_javascript_request request = {
        .size = sizeof(request), .options.minimum_isolation = floor, .code = PLIM_LIT(CODE)};
    plim_result_free(it->result);
    return plim_run_javascript(it->sandbox, &request, NULL, &it->result, &it->err);
}

static void close_fixture(fixture *it)
{
    plim_result_free(it->result);
    plim_error_clear(&it->err);
    plim_sandbox_free(it->sandbox);
    server_stop(&it->served);
}

static void expect_error(const fixture *it, plim_status status, const char *code,
                         plim_not_dispatched mark)
{
    if (plim_error_status(&it->err) != status || plim_error_not_dispatched(&it->err) != mark ||
        strcmp(plim_error_code(&it->err), code) != 0)
        fail_msg("%s %s \"%s\": %s", plim_status_name(plim_error_status(&it->err)),
                 plim_error_code(&it->err),
                 plim_not_dispatched_name(plim_error_not_dispatched(&it->err)),
                 plim_error_message(&it->err));
}

/* ---- recording ---- */

static void what_was_kept_can_be_checked_again(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    open_recorded(&it, server_good, NULL, &book);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(run(&it, PLIM_TIER_PROCESS), PLIM_OK);
        assert_int_equal(book.calls, i);
    }
    plim_record *record = NULL;
    assert_int_equal(plim_check_exchange(base_buf_bytes(&book.request),
                                         base_buf_bytes(&book.response), &record, NULL),
                     PLIM_OK);
    assert_string_equal(plim_record_record_sha256(record),
                        plim_record_record_sha256(plim_result_record(it.result)));
    plim_record_free(record);
    journal_free(&book);
    close_fixture(&it);
}

static void a_recorder_that_fails_does_not_lose_the_result(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    book.refuse = -1;
    open_recorded(&it, server_good, NULL, &book);
    assert_int_equal(run(&it, PLIM_TIER_PROCESS), PLIM_E_NOT_RECORDED);
    expect_error(&it, PLIM_E_NOT_RECORDED, "internal", PLIM_ND_NONE);
    assert_true(plim_may_have_run(&it.err));
    assert_non_null(it.result);
    assert_non_null(plim_result_record(it.result));
    assert_int_equal(plim_result_stdout(it.result).len, strlen(CODE));
    assert_int_equal(book.calls, 1);
    assert_int_equal(atomic_load(&it.served.requests), 1);
    /* The next call is not held up by it. */
    book.refuse = 0;
    assert_int_equal(run(&it, PLIM_TIER_PROCESS), PLIM_OK);
    journal_free(&book);
    close_fixture(&it);
}

static void weaken(plim_result *result)
{
    result->isolation = "none";
}

static bool answer_spoiled(server_conn *conn, server_request *request)
{
    base_buf body;
    server_run_answer(request, conn->server->arg, &body);
    server_answer(conn, request, 200, "application/proto", "", base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

static void a_recorder_that_fails_hides_no_evidence(void **state)
{
    (void)state;
    static const server_spoiler spoiler = {.result = weaken};
    fixture it;
    journal book = JOURNAL_INIT;
    book.refuse = -1;
    open_recorded(&it, answer_spoiled, &spoiler, &book);
    assert_int_equal(run(&it, PLIM_TIER_PROCESS), PLIM_E_ISOLATION_EVIDENCE);
    assert_null(plim_result_record(it.result));
    assert_int_equal(book.calls, 0);
    journal_free(&book);
    close_fixture(&it);
}

static void a_recorder_needs_its_first_callback(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    plim_recorder recorder = {.size = sizeof(recorder),
                              .record = keep,
                              .record_unanswered = keep_unanswered,
                              .record_close = keep_close};
    plim_client_options options = {
        .size = sizeof(options), .base_url = PLIM_LIT("http://localhost:1"), .recorder = &recorder};
    plim_sandbox *sandbox = NULL;
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, &err), PLIM_OK);
    plim_sandbox_free(sandbox);
    recorder.record = NULL;
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, &err), PLIM_E_INVALID_OPTION);
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_REQUEST);
    recorder.record = keep;
    recorder.size = sizeof(recorder) + 8;
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, &err), PLIM_E_INVALID_OPTION);
    /* An older program knows neither the callbacks for sessions nor these options. */
    recorder.size = offsetof(plim_recorder, record_unanswered);
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, &err), PLIM_OK);
    plim_sandbox_free(sandbox);
    recorder.size = 0;
    options.size = offsetof(plim_client_options, recorder);
    assert_int_equal(plim_sandbox_connect(&options, &sandbox, &err), PLIM_OK);
    plim_sandbox_free(sandbox);
}

/* A pool believes the handles' own recorders; what was not kept ran, so it goes nowhere else. */
static void a_placed_run_that_was_not_kept_is_not_sent_on(void **state)
{
    (void)state;
    fixture it[2];
    journal books[2] = {JOURNAL_INIT, JOURNAL_INIT};
    plim_backend backends[2] = {{.name = PLIM_LIT("first")}, {.name = PLIM_LIT("second")}};
    for (int i = 0; i < 2; i++) {
        open_recorded(&it[i], server_good, NULL, &books[i]);
        backends[i].sandbox = it[i].sandbox;
    }
    plim_pool *pool = NULL;
    plim_choice *choice = NULL;
    plim_error err = PLIM_ERROR_INIT;
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT(CODE)};
    plim_requirement need = {.size = sizeof(need)};
    assert_int_equal(plim_pool_new(backends, 2, 0, &pool, NULL), PLIM_OK);
    books[0].refuse = 1;
    assert_int_equal(
        plim_pool_run_javascript(pool, &request, &need, NULL, &it[0].result, &choice, &err),
        PLIM_E_NOT_RECORDED);
    assert_string_equal(plim_choice_backend(choice), "first");
    assert_int_equal(plim_choice_retried_count(choice), 0);
    assert_non_null(it[0].result);
    assert_int_equal(books[0].calls + books[1].calls, 1);
    plim_choice_free(choice);
    journal_free(&books[0]);
    journal_free(&books[1]);
    plim_pool_free(pool);
    plim_error_clear(&err);
    close_fixture(&it[0]);
    close_fixture(&it[1]);
}

static void move(plim_result *result)
{
    result->environment = "quickjs-wasm:sha256:11";
}

static bool answer_elsewhere(server_conn *conn, server_request *request)
{
    static const server_spoiler spoiler = {.result = move};
    if (strstr(request->path, "/Describe"))
        return server_good(conn, request);
    base_buf body;
    server_run_answer(request, &spoiler, &body);
    server_answer(conn, request, 200, "application/proto", "", base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

static void a_stale_environment_keeps_the_recorders_error(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    book.refuse = 1;
    open_recorded(&it, answer_elsewhere, NULL, &book);
    plim_backend backend = {PLIM_LIT("only"), it.sandbox};
    plim_pool *pool = NULL;
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT(CODE)};
    plim_requirement need = {.size = sizeof(need),
                             .environment = PLIM_LIT("quickjs-wasm:sha256:00")};
    assert_int_equal(plim_pool_new(&backend, 1, 0, &pool, NULL), PLIM_OK);
    assert_int_equal(
        plim_pool_run_javascript(pool, &request, &need, NULL, &it.result, NULL, &it.err),
        PLIM_E_ENVIRONMENT_MISMATCH);
    assert_non_null(it.result);
    assert_true(plim_may_have_run(&it.err));
    assert_int_equal(plim_error_status(plim_error_cause(&it.err)), PLIM_E_NOT_RECORDED);
    assert_int_equal(book.calls, 1);
    journal_free(&book);
    plim_pool_free(pool);
    close_fixture(&it);
}

/* ---- the log ---- */

static void note(void *ctx, const char *text)
{
    base_buf *log = ctx;
    assert_null(strchr(text, '\n'));
    base_buf_printf(log, "%s\n", text);
}

static void the_log_tells_how_each_call_went(void **state)
{
    (void)state;
    fixture it;
    base_buf log = BASE_BUF_INIT(1 << 16);
    open_with(&it, server_good, NULL, &(plim_client_options){.log = note, .log_ctx = &log});
    assert_int_equal(run(&it, PLIM_TIER_PROCESS), PLIM_OK);
    assert_int_equal(run(&it, PLIM_TIER_KERNEL), PLIM_E_ISOLATION_EVIDENCE);
    assert_int_equal(plim_sandbox_ready(it.sandbox, NULL, &it.err), PLIM_OK);
    const char *text = base_buf_text(&log);
    assert_non_null(strstr(text, "Run: answered after "));
    assert_non_null(strstr(text, "Run: isolation_evidence after "));
    assert_non_null(strstr(text, "Describe: answered after "));
    assert_null(strstr(text, TOKEN));
    assert_null(strstr(text, "guest knows"));
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 3);
    base_buf_free(&log);
    close_fixture(&it);
}

/* ---- requests that are sent as given ---- */

static plim_bytes encode(base_buf *out, const void *message)
{
    base_buf_free(out);
    out->max = 1 << 20;
    assert_true(wire_encode(WIRE_PROTO, message, out));
    return base_buf_bytes(out);
}

/* A request to be sent, with a trace ID that a run would refuse and a field that nobody knows. */
static plim_bytes stored_request(base_buf *out, uint32_t protocol)
{
    wire_java_script_run snippet = {.base = WIRE_BASE(java_script_run), .code = PLIM_LIT(CODE)};
    wire_run_request message = {.base = WIRE_BASE(run_request),
                                .protocol = protocol,
                                .minimum_isolation = PLIM_LIT("process"),
                                .trace_id = PLIM_LIT("not a trace id"),
                                .timeout_ms = -5,
                                .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT,
                                .javascript = &snippet};
    encode(out, &message);
    assert_true(base_buf_add(out, PLIM_LIT("\xF8\x07\x01"))); /* field 127, varint 1 */
    return base_buf_bytes(out);
}

static plim_status exchange(fixture *it, plim_bytes request)
{
    plim_result_free(it->result);
    return plim_exchange(it->sandbox, request, NULL, &it->result, &it->err);
}

static bool answer_if_as_given(server_conn *conn, server_request *request)
{
    const base_buf *expected = conn->server->arg;
    if (!base_bytes_equal((plim_bytes){request->body, request->body_len}, base_buf_bytes(expected)))
        return false;
    return server_good(conn, request);
}

static void an_exchange_sends_exactly_what_it_is_given(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    base_buf request = BASE_BUF_INIT(0);
    stored_request(&request, 3);
    open_recorded(&it, answer_if_as_given, &request, &book);
    if (exchange(&it, base_buf_bytes(&request)) != PLIM_OK)
        fail_msg("%s", plim_error_message(&it.err));
    assert_non_null(plim_result_record(it.result));
    char digest[PLIM_DIGEST_HEX_SIZE];
    assert_int_equal(plim_request_digest(base_buf_bytes(&request), digest), PLIM_OK);
    assert_string_equal(plim_record_request_sha256(plim_result_record(it.result)), digest);
    assert_int_equal(book.calls, 1);
    assert_true(base_bytes_equal(base_buf_bytes(&book.request), base_buf_bytes(&request)));
    base_buf_free(&request);
    journal_free(&book);
    close_fixture(&it);
}

static bool refuse_protocol(server_conn *conn, server_request *request)
{
    base_arena *arena = base_arena_new(1 << 20);
    const wire_run_request *message =
        wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request),
                    (plim_bytes){request->body, request->body_len}, NULL);
    bool as_given = message && message->protocol == 99;
    base_arena_free(arena);
    server_answer(conn, request, as_given ? 501 : 500, "application/json", "",
                  PLIM_LIT("{\"code\":\"unimplemented\",\"message\":\"m\",\"details\":[{\"type\":"
                           "\"plimsoll.v1.NotDispatched\",\"value\":\"CAM\"}]}"));
    return true;
}

static void an_exchange_stamps_no_protocol(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    base_buf request = BASE_BUF_INIT(0);
    open_recorded(&it, refuse_protocol, NULL, &book);
    assert_int_equal(exchange(&it, stored_request(&request, 99)), PLIM_E_PROTOCOL_MISMATCH);
    expect_error(&it, PLIM_E_PROTOCOL_MISMATCH, "unimplemented", PLIM_ND_PROTOCOL);
    assert_int_equal(plim_error_http_status(&it.err), 501);
    assert_int_equal(book.calls, 0);
    base_buf_free(&request);
    journal_free(&book);
    close_fixture(&it);
}

static void an_exchange_is_checked_and_recorded_like_a_run(void **state)
{
    (void)state;
    static const server_spoiler spoiler = {.result = weaken};
    fixture it;
    journal book = JOURNAL_INIT;
    base_buf request = BASE_BUF_INIT(0);
    open_recorded(&it, answer_spoiled, &spoiler, &book);
    assert_int_equal(exchange(&it, stored_request(&request, 3)), PLIM_E_ISOLATION_EVIDENCE);
    assert_non_null(it.result);
    assert_int_equal(book.calls, 0);
    close_fixture(&it);

    book.refuse = 1;
    open_recorded(&it, server_good, NULL, &book);
    assert_int_equal(exchange(&it, base_buf_bytes(&request)), PLIM_E_NOT_RECORDED);
    assert_non_null(it.result);
    base_buf_free(&request);
    journal_free(&book);
    close_fixture(&it);
}

/* An answer without a result to a request without a payload is no answer. */
static bool answer_nothing(server_conn *conn, server_request *request)
{
    server_answer(conn, request, 200, "application/proto", "", PLIM_LIT(""));
    return true;
}

static void what_cannot_be_checked_is_not_sent(void **state)
{
    (void)state;
    fixture it;
    journal book = JOURNAL_INIT;
    base_buf request = BASE_BUF_INIT(0);
    double values[] = {1, 2, 3};
    wire_module_row first = {.base = WIRE_BASE(module_row), .n_values = 2, .values = values};
    wire_module_row second = {.base = WIRE_BASE(module_row), .n_values = 1, .values = values + 2};
    wire_module_row *rows[] = {&first, &second};
    wire_module_run module = {.base = WIRE_BASE(module_run), .n_rows = 2, .rows = rows};
    wire_run_request ragged = {.base = WIRE_BASE(run_request),
                               .protocol = 3,
                               .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE,
                               .module = &module};
    open_recorded(&it, answer_nothing, NULL, &book);
    const plim_bytes unfit[] = {PLIM_LIT("\x0A\x05x"), PLIM_LIT("\xFF"), encode(&request, &ragged)};
    for (size_t i = 0; i < PLIM_COUNT(unfit); i++) {
        assert_int_equal(exchange(&it, unfit[i]), PLIM_E_INVALID_REQUEST);
        expect_error(&it, PLIM_E_INVALID_REQUEST, "invalid_argument", PLIM_ND_REQUEST);
    }
    assert_int_equal(atomic_load(&it.served.connections), 0);
    assert_int_equal(exchange(&it, PLIM_LIT("")), PLIM_E_RESULT_KIND);
    expect_error(&it, PLIM_E_RESULT_KIND, "data_loss", PLIM_ND_NONE);
    assert_int_equal(book.calls, 0);
    base_buf_free(&request);
    journal_free(&book);
    close_fixture(&it);
}

static void a_provider_of_the_process_takes_no_messages(void **state)
{
    (void)state;
    fixture it = {.err = PLIM_ERROR_INIT};
    plim_local_options options = {.size = sizeof(options), .ignore_environment = true};
    assert_int_equal(plim_sandbox_local(&options, &it.sandbox, &it.err), PLIM_OK);
    assert_int_equal(exchange(&it, PLIM_LIT("")), PLIM_E_UNSUPPORTED);
    expect_error(&it, PLIM_E_UNSUPPORTED, "unimplemented", PLIM_ND_UNSUPPORTED);
    plim_error_clear(&it.err);
    plim_sandbox_free(it.sandbox);
}

/* ---- the record of a call without an answer ---- */

static plim_status check_spoiled(const wire_run_request *call, void (*spoil)(plim_record *),
                                 plim_record **out)
{
    base_arena *arena = base_arena_new(1 << 20);
    base_buf request = BASE_BUF_INIT(0), bytes = BASE_BUF_INIT(0);
    char sha256[PLIM_DIGEST_HEX_SIZE], own[PLIM_DIGEST_HEX_SIZE], session[PLIM_DIGEST_HEX_SIZE];
    plim_bytes sent = encode(&request, call);
    assert_int_equal(plim_request_digest(sent, sha256), PLIM_OK);
    assert_int_equal(
        plim_session_fingerprint_of(PLIM_LIT("00112233445566778899aabbccddeeff"), session),
        PLIM_OK);
    plim_record record = RECORD_INIT;
    record.version = 3;
    record.request_sha256 = sha256;
    record.provider = "docker";
    record.isolation = "kernel";
    record.session = session;
    record.sequence = 2;
    record.previous_sha256 = sha256;
    record.unanswered = "deadline_exceeded";
    if (spoil)
        spoil(&record);
    assert_true(record_digest(&record, own));
    if (!record.record_sha256[0])
        record.record_sha256 = own;
    plim_error err = PLIM_ERROR_INIT;
    const wire_run_record *message = wire_write_record(arena, &record);
    plim_status status = plim_check_unanswered(sent, encode(&bytes, message), out, &err);
    assert_int_equal(status, plim_error_status(&err));
    assert_true(plim_may_have_run(&err));
    plim_error_clear(&err);
    base_buf_free(&request);
    base_buf_free(&bytes);
    base_arena_free(arena);
    return status;
}

#define SPOIL(name, ...)                                                                           \
    static void name(plim_record *r)                                                               \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
SPOIL(answered, r->version = 2; r->unanswered = "")
SPOIL(with_result, r->result_sha256 = r->request_sha256)
SPOIL(no_code, r->unanswered = "")
SPOIL(bad_code, r->unanswered = "ok")
SPOIL(other_request, r->request_sha256 = r->session)
SPOIL(other_rule, r->software_rule_id = "exact:a")
SPOIL(bad_digest, r->record_sha256 = r->session)
SPOIL(weak, r->isolation = "process")
SPOIL(no_session, r->session = "")
SPOIL(no_number, r->sequence = 0)

static void the_record_of_an_unanswered_call_is_checked(void **state)
{
    (void)state;
    wire_cell_run cell = {
        .base = WIRE_BASE(cell_run), .language = PLIM_LIT("python"), .code = PLIM_LIT("1")};
    wire_run_request call = {.base = WIRE_BASE(run_request),
                             .protocol = 3,
                             .minimum_isolation = PLIM_LIT("kernel"),
                             .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_CELL,
                             .cell = &cell};
    static const struct {
        void (*spoil)(plim_record *record);
        plim_status status;
    } rows[] = {
        {answered, PLIM_E_RECORD_VERSION},
        {with_result, PLIM_E_RECORD_MISMATCH},
        {no_code, PLIM_E_RECORD_MISMATCH},
        {bad_code, PLIM_E_RECORD_MISMATCH},
        {other_request, PLIM_E_RECORD_MISMATCH},
        {other_rule, PLIM_E_RECORD_MISMATCH},
        {bad_digest, PLIM_E_RECORD_MISMATCH},
        {weak, PLIM_E_ISOLATION_EVIDENCE},
        {no_session, PLIM_E_CHAIN},
        {no_number, PLIM_E_CHAIN},
    };
    plim_record *record = NULL;
    assert_int_equal(check_spoiled(&call, NULL, &record), PLIM_OK);
    assert_int_equal(plim_record_version(record), 3);
    assert_int_equal(plim_record_sequence(record), 2);
    assert_string_equal(plim_record_unanswered(record), "deadline_exceeded");
    plim_record_free(record);
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        plim_status status = check_spoiled(&call, rows[i].spoil, &record);
        if (status != rows[i].status)
            fail_msg("row %zu: %s", i, plim_status_name(status));
        assert_null(record);
    }
    assert_int_equal(plim_check_unanswered(PLIM_LIT(""), PLIM_LIT("\xFF"), &record, NULL),
                     PLIM_E_MALFORMED);
    assert_null(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_kept_can_be_checked_again),
        cmocka_unit_test(a_recorder_that_fails_does_not_lose_the_result),
        cmocka_unit_test(a_recorder_that_fails_hides_no_evidence),
        cmocka_unit_test(a_recorder_needs_its_first_callback),
        cmocka_unit_test(a_placed_run_that_was_not_kept_is_not_sent_on),
        cmocka_unit_test(a_stale_environment_keeps_the_recorders_error),
        cmocka_unit_test(the_log_tells_how_each_call_went),
        cmocka_unit_test(an_exchange_sends_exactly_what_it_is_given),
        cmocka_unit_test(an_exchange_stamps_no_protocol),
        cmocka_unit_test(an_exchange_is_checked_and_recorded_like_a_run),
        cmocka_unit_test(what_cannot_be_checked_is_not_sent),
        cmocka_unit_test(a_provider_of_the_process_takes_no_messages),
        cmocka_unit_test(the_record_of_an_unanswered_call_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
