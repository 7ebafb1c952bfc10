/* What a client believes of an answer: binding, marks, classes, records, results. */
#include "client/answer.h"
#include "client/details.h"

#include "test_client_server.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>

/* One exchange with a scripted server. */
typedef struct outcome {
    plim_status status;
    plim_result *result;
    plim_error err;
    int requests, connections, recorded;
} outcome;

static int count_recorded(void *ctx, plim_bytes request, plim_bytes response)
{
    assert_true(request.len > 0 && response.len > 0);
    ++*(int *)ctx;
    return 0;
}

static outcome exchange_with(server_script *script, const void *arg)
{
    outcome out = {.err = PLIM_ERROR_INIT};
    server served;
    server_start(&served, script, arg, NULL);
    plim_recorder recorder = {
        .size = sizeof(recorder), .ctx = &out.recorded, .record = count_recorded};
    client *made = server_recorded_client(&served, &recorder);
    out.status = run_snippet(made, "console.log(1)", &out.result, &out.err);
    client_free(made);
    server_stop(&served);
    out.requests = atomic_load(&served.requests);
    out.connections = atomic_load(&served.connections);
    return out;
}

static void release(outcome *it)
{
    plim_result_free(it->result);
    plim_error_clear(&it->err);
}

#define expect_outcome(it, wanted, mark)                                                           \
    do {                                                                                           \
        if ((it).status != (wanted))                                                               \
            fail_msg("%s instead of %s: %s", plim_status_name((it).status),                        \
                     plim_status_name(wanted), plim_error_message(&(it).err));                     \
        assert_int_equal(plim_error_not_dispatched(&(it).err), (mark));                            \
        assert_int_equal((it).requests, 1);                                                        \
        assert_int_equal((it).recorded, (wanted) == PLIM_OK); /* nothing that did not check */     \
    } while (0)

static void a_good_answer_is_a_result(void **state)
{
    (void)state;
    outcome it = exchange_with(server_good, NULL);
    expect_outcome(it, PLIM_OK, PLIM_ND_NONE);
    plim_bytes out = plim_result_stdout(it.result);
    assert_int_equal(out.len, 14);
    assert_memory_equal(out.data, "console.log(1)", 14);
    assert_int_equal(plim_result_exit_code(it.result), 7);
    assert_string_equal(plim_result_provider(it.result), "wasm");
    assert_int_equal(plim_result_tier(it.result), PLIM_TIER_PROCESS);
    const plim_record *record = plim_result_record(it.result);
    assert_non_null(record);
    assert_string_equal(plim_record_policy(record), "policy:1");
    release(&it);
}

/* ---- binding ---- */

static bool answer_with_ids(server_conn *conn, server_request *request)
{
    const char *form = conn->server->arg;
    base_buf body;
    server_run_answer(request, NULL, &body);
    server_printf(conn,
                  "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: %zu\r\n",
                  body.len);
    for (const char *c = form; *c; c++)
        server_printf(conn, "plimsoll-request-id: %s\r\n",
                      *c == 'g' ? request->id : "00000000000000000000000000000000");
    server_printf(conn, "\r\n");
    server_write(conn, body.data, body.len);
    base_buf_free(&body);
    return true;
}

static void an_answer_that_is_not_bound_is_not_believed(void **state)
{
    (void)state;
    static char *const forms[] = {"", "b", "gg", "gb"}; /* none, wrong, twice, good and wrong */
    for (size_t i = 0; i < PLIM_COUNT(forms); i++) {
        outcome it = exchange_with(answer_with_ids, forms[i]);
        expect_outcome(it, PLIM_E_ANSWER_NOT_BOUND, PLIM_ND_NONE);
        assert_string_equal(plim_error_code(&it.err), "data_loss");
        assert_non_null(it.result);
        assert_null(plim_result_record(it.result));
        release(&it);
    }
}

static bool captured_refusal(server_conn *conn, server_request *request)
{
    (void)request;
    static const char body[] =
        "{\"code\":\"failed_precondition\",\"message\":\"weak\",\"details\":["
        "{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":\"CAU\"},"
        "{\"type\":\"plimsoll.v1.SessionEnded\",\"value\":\"CAI\"}]}";
    server_printf(
        conn,
        "HTTP/1.1 400 x\r\nContent-Type: application/json\r\nPlimsoll-Not-Dispatched: request\r\n"
        "Plimsoll-Request-Id: ffffffffffffffffffffffffffffffff\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof(body) - 1, body);
    return true;
}

static void a_captured_refusal_does_not_mark(void **state)
{
    (void)state;
    outcome it = exchange_with(captured_refusal, NULL);
    expect_outcome(it, PLIM_E_DISABLED, PLIM_ND_NONE);
    assert_string_equal(plim_error_code(&it.err), "failed_precondition");
    assert_string_equal(plim_error_message(&it.err), "weak");
    assert_true(plim_error_answer_not_bound(&it.err));
    assert_int_equal(plim_error_session_end(&it.err), PLIM_SESSION_OPEN);
    assert_int_equal(plim_error_http_status(&it.err), 400);
    release(&it);
}

/* ---- error answers ---- */

typedef struct refusal {
    int http;
    plim_status status;
    plim_not_dispatched mark;
    const char *code, *more; /* code NULL: `more` is the whole body */
    const char *headers, *error_code;
} refusal;

static bool refuse_as_told(server_conn *conn, server_request *request)
{
    const refusal *row = conn->server->arg;
    char body[2048];
    if (row->code)
        snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"m\"%s}", row->code, row->more);
    server_answer(conn, request, row->http, row->code ? "application/json" : "text/plain",
                  row->headers ? row->headers : "", plim_bytes_of(row->code ? body : row->more));
    return true;
}

#define DETAIL(type, value) "{\"type\":\"plimsoll.v1." type "\",\"value\":\"" value "\"}"
#define DETAILS(list)       ",\"details\":[" list "]"
#define MARK(value)         DETAILS(DETAIL("NotDispatched", value))
#define ENDED               DETAIL("SessionEnded", "CAI")

static const refusal refusals[] = {
    {400, PLIM_E_SESSION_ENDED, PLIM_ND_NONE, "failed_precondition", DETAILS(ENDED), NULL, NULL},
    {400, PLIM_E_INSUFFICIENT_ISOLATION, PLIM_ND_ISOLATION, "failed_precondition", MARK("CAU"),
     NULL, NULL},
    {400, PLIM_E_SOFTWARE_MISMATCH, PLIM_ND_ENVIRONMENT, "failed_precondition", MARK("CAc"), NULL,
     NULL},
    {400, PLIM_E_DISABLED, PLIM_ND_UNSUPPORTED, "failed_precondition", MARK("CAQ"), NULL, NULL},
    {400, PLIM_E_DISABLED, PLIM_ND_NONE, "failed_precondition", "", NULL, NULL},
    {501, PLIM_E_PROTOCOL_MISMATCH, PLIM_ND_PROTOCOL, "unimplemented", MARK("CAM"), NULL, NULL},
    {501, PLIM_E_UNSUPPORTED, PLIM_ND_UNSUPPORTED, "unimplemented", MARK("CAQ="), NULL, NULL},
    {501, PLIM_E_UNSUPPORTED, PLIM_ND_NONE, "unimplemented", "", NULL, NULL},
    {429, PLIM_E_AT_CAPACITY, PLIM_ND_CAPACITY, "resource_exhausted", MARK("CAY"), NULL, NULL},
    {400, PLIM_E_INVALID_REQUEST, PLIM_ND_REQUEST, "invalid_argument", MARK("CAE"), NULL, NULL},
    {400, PLIM_E_INVALID_REQUEST, PLIM_ND_NONE, "invalid_argument", "", NULL, NULL},
    {499, PLIM_E_REMOTE, PLIM_ND_CAPACITY, "canceled", MARK("CAY"), NULL, NULL},
    {504, PLIM_E_REMOTE, PLIM_ND_NONE, "deadline_exceeded", "", NULL, NULL},
    {404, PLIM_E_SESSION_ENDED, PLIM_ND_NONE, "not_found", DETAILS(ENDED), NULL, NULL},
    {403, PLIM_E_REMOTE, PLIM_ND_PERMISSION, "permission_denied", MARK("CAI"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal", "", NULL, NULL},
    /* a reason without a name; a type with an address before it; what does not decode */
    {500, PLIM_E_REMOTE, PLIM_ND_UNKNOWN, "internal", MARK("CGM"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_UNKNOWN, "internal", MARK(""), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_CAPACITY, "internal",
     DETAILS("{\"type\":\"a.example/plimsoll.v1.NotDispatched\",\"value\":\"CAY\"}"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal", MARK("CA"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal", MARK("C*Y"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal",
     DETAILS("{\"type\":\"plimsoll.v1.NotDispatched\"}"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal",
     DETAILS("{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":7}"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal", DETAILS("7,[],null,{\"type\":8}"), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal",
     ",\"details\":{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":\"CAY\"}", NULL, NULL},
    /* the first of a kind counts, even when it does not decode */
    {500, PLIM_E_REMOTE, PLIM_ND_PERMISSION, "internal",
     DETAILS(DETAIL("NotDispatched", "CAI") "," DETAIL("NotDispatched", "CAE")), NULL, NULL},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal",
     DETAILS(DETAIL("NotDispatched", "CA") "," DETAIL("NotDispatched", "CAE")), NULL, NULL},
    /* the header speaks where no detail does */
    {404, PLIM_E_UNSUPPORTED, PLIM_ND_UNSUPPORTED, NULL, "404 page not found",
     "Plimsoll-Not-Dispatched: unsupported\r\n", "unimplemented"},
    {404, PLIM_E_UNSUPPORTED, PLIM_ND_NONE, NULL, "", "Plimsoll-Not-Dispatched: unknown\r\n",
     "unimplemented"},
    {404, PLIM_E_UNSUPPORTED, PLIM_ND_NONE, NULL, "", "Plimsoll-Not-Dispatched: bogus\r\n",
     "unimplemented"},
    {404, PLIM_E_UNSUPPORTED, PLIM_ND_NONE, NULL, "",
     "Plimsoll-Not-Dispatched: request\r\nPlimsoll-Not-Dispatched: request\r\n", "unimplemented"},
    {403, PLIM_E_REMOTE, PLIM_ND_PERMISSION, "permission_denied", MARK("CAI"),
     "Plimsoll-Not-Dispatched: request\r\n", NULL},
    {403, PLIM_E_REMOTE, PLIM_ND_NONE, "permission_denied", MARK("CA"),
     "Plimsoll-Not-Dispatched: request\r\n", NULL},
    {403, PLIM_E_SESSION_ENDED, PLIM_ND_REQUEST, "permission_denied", DETAILS(ENDED),
     "Plimsoll-Not-Dispatched: request\r\n", NULL},
    /* bodies that are not ours: the status decides */
    {400, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "<html>", NULL, "internal"},
    {401, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "", NULL, "unauthenticated"},
    {403, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "[]", NULL, "permission_denied"},
    {429, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "{", NULL, "unavailable"},
    {502, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "\"internal\"", NULL, "unavailable"},
    {503, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "{\"code\":7}", NULL, "unavailable"},
    {504, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "{\"code\":\"ok\"}", NULL, "unavailable"},
    {418, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "{\"code\":\"teapot\"}", NULL, "unknown"},
    {500, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "{\"code\":\"internal\",\"code\":\"internal\"}", NULL,
     "unknown"},
    {201, PLIM_E_REMOTE, PLIM_ND_NONE, NULL, "", NULL, "unknown"},
};

static void each_refusal_has_its_class_and_mark(void **state)
{
    (void)state;
    const refusal *rows = refusals;
    for (size_t i = 0; i < PLIM_COUNT(refusals); i++) {
        outcome it = exchange_with(refuse_as_told, &rows[i]);
        if (it.status != rows[i].status || plim_error_not_dispatched(&it.err) != rows[i].mark)
            print_error("row %zu: %s %s\n", i, plim_status_name(it.status),
                        plim_error_message(&it.err));
        expect_outcome(it, rows[i].status, rows[i].mark);
        assert_string_equal(plim_error_code(&it.err),
                            rows[i].error_code ? rows[i].error_code : rows[i].code);
        assert_int_equal(plim_error_http_status(&it.err), rows[i].http);
        assert_null(it.result);
        assert_false(plim_error_answer_not_bound(&it.err));
        release(&it);
    }
}

static void a_message_is_the_daemons_or_the_status(void **state)
{
    (void)state;
    refusal row = {500,
                   PLIM_E_REMOTE,
                   PLIM_ND_NONE,
                   NULL,
                   "{\"code\":\"internal\",\"message\":\"no \\u001b[31m the-token \\n\"}",
                   NULL,
                   "internal"};
    outcome it = exchange_with(refuse_as_told, &row);
    assert_string_equal(plim_error_message(&it.err), "no  [31m ***  ");
    release(&it);
    row.more = "{\"code\":\"internal\"}";
    it = exchange_with(refuse_as_told, &row);
    assert_string_equal(plim_error_message(&it.err),
                        "HTTP 500 and no message; is a daemon at this address?");
    release(&it);
}

/* A mark that might stand in what was not read does not count, and neither does the header's. */
static void of_a_huge_error_only_the_status_is_read(void **state)
{
    (void)state;
    static const char front[] = DETAILS(DETAIL("NotDispatched", "CAU"));
    _cleanup_buf_ base_buf body = BASE_BUF_INIT(2 << 20);
    refusal row = {503,          PLIM_E_REMOTE, PLIM_ND_NONE,
                   NULL,         NULL,          "Plimsoll-Not-Dispatched: capacity\r\n",
                   "unavailable"};
    base_buf_printf(&body, "{\"code\":\"internal\"%s,\"x\":[0", front);
    while (body.len < 1 << 20)
        base_buf_add_text(&body, ",{}");
    base_buf_add_text(&body, "]}");
    row.more = base_buf_text(&body);
    outcome it = exchange_with(refuse_as_told, &row);
    expect_outcome(it, PLIM_E_REMOTE, PLIM_ND_NONE);
    assert_string_equal(plim_error_code(&it.err), "unavailable");
    assert_string_equal(plim_error_message(&it.err),
                        "HTTP 503 and no message; is a daemon at this address?");
    release(&it);
}

static void a_session_end_never_reads_open(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        plim_session_end end;
        const char *detail;
    } rows[] = {
        {DETAILS(DETAIL("SessionEnded", "CAI")), PLIM_SESSION_EXPIRED, ""},
        {DETAILS(DETAIL("SessionEnded", "CAg")), PLIM_SESSION_REPLACED, ""},
        {DETAILS(DETAIL("SessionEnded", "CAo")), PLIM_SESSION_UNCLAIMED, ""},
        {DETAILS(DETAIL("SessionEnded", "CAkSHnNlc3Npb24gdW5rbm93biB0byB0aGlzIGNhbGxlcg")),
         PLIM_SESSION_NOT_FOUND, "session unknown to this caller"},
        /* no secret of ours, whoever repeats it */
        {DETAILS(DETAIL("SessionEnded", "CAISDWVuZCB0aGUtdG9rZW4=")), PLIM_SESSION_EXPIRED,
         "end ***"},
        {DETAILS(DETAIL("SessionEnded", "CCo")), PLIM_SESSION_UNKNOWN, ""},
        {DETAILS(DETAIL("SessionEnded", "")), PLIM_SESSION_UNKNOWN, ""},
        {DETAILS(DETAIL("SessionEnded", "CA")), PLIM_SESSION_OPEN, ""},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        refusal row = {404, PLIM_E_REMOTE, PLIM_ND_NONE, "not_found", rows[i].more, NULL, NULL};
        outcome it = exchange_with(refuse_as_told, &row);
        assert_int_equal(plim_error_session_end(&it.err), rows[i].end);
        assert_string_equal(plim_error_session_end_detail(&it.err), rows[i].detail);
        release(&it);
    }
    assert_string_equal(plim_session_end_name(PLIM_SESSION_DISK_EXCEEDED), "disk_exceeded");
    assert_string_equal(plim_session_end_name(PLIM_SESSION_UNKNOWN), "unknown");
}

/* {1: {1: 3, 4: "wasm"}}: the record of an unanswered call, as far as it goes */
#define UNANSWERED DETAIL("UnansweredCall", "CggIAyIEd2FzbQ==")

static void a_marked_error_has_no_record(void **state)
{
    (void)state;
    refusal row = {500, PLIM_E_REMOTE, PLIM_ND_NONE, "internal", DETAILS(UNANSWERED), NULL, NULL};
    outcome it = exchange_with(refuse_as_told, &row);
    expect_outcome(it, PLIM_E_REMOTE, PLIM_ND_NONE);
    const plim_record *record = client_details_of(&it.err)->unanswered;
    assert_non_null(record);
    assert_int_equal(plim_record_version(record), 3);
    assert_string_equal(plim_record_provider(record), "wasm");
    release(&it);
    row.more = DETAILS(UNANSWERED "," DETAIL("NotDispatched", "CAY"));
    it = exchange_with(refuse_as_told, &row);
    assert_int_equal(plim_error_not_dispatched(&it.err), PLIM_ND_CAPACITY);
    assert_null(client_details_of(&it.err)->unanswered);
    release(&it);
}

/* ---- successes that do not check ---- */

static bool answer_spoiled(server_conn *conn, server_request *request)
{
    base_buf body;
    server_run_answer(request, conn->server->arg, &body);
    server_answer(conn, request, 200, "application/proto; x=y", "", base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

#define SPOIL(name, type, var, ...)                                                                \
    static void name(type *var)                                                                    \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
SPOIL(no_record, wire_run_response, m, m->record = NULL)
SPOIL(version_1, plim_record, r, r->version = 1; r->software_identity = r->software_rule_id = "")
SPOIL(version_3, plim_record, r, r->version = 3)
SPOIL(version_4, plim_record, r, r->version = 4)
SPOIL(unanswered, plim_record, r, r->unanswered = "internal")
SPOIL(other_request, plim_record, r, r->request_sha256 = r->result_sha256)
SPOIL(other_result, plim_record, r, r->result_sha256 = r->request_sha256)
SPOIL(other_output, wire_run_response, m, m->javascript->stdout = PLIM_LIT("x"))
SPOIL(other_exit, wire_run_response, m, m->javascript->exit_code = 0)
SPOIL(other_provider, plim_record, r, r->provider = "docker")
SPOIL(other_tier, plim_record, r, r->isolation = "vm")
SPOIL(answered_tier, wire_run_response, m, m->isolation = PLIM_LIT("vm"))
SPOIL(other_environment, plim_record, r, r->environment = "e")
SPOIL(other_software, plim_record, r, r->software_identity = "s")
SPOIL(other_rule, plim_record, r, r->software_rule_id = "exact:s")
SPOIL(unsealed, plim_record, r, r->started_unix_ms++)
SPOIL(no_digest, plim_record, r, r->record_sha256 = "")
SPOIL(in_session, plim_record, r, r->session = "s")
SPOIL(numbered, plim_record, r, r->sequence = 1)
SPOIL(chained, plim_record, r, r->previous_sha256 = r->request_sha256)
SPOIL(tier_none, plim_result, r, r->isolation = "none")
SPOIL(tier_unknown, plim_result, r, r->isolation = "hypervisor")
SPOIL(tier_nothing, plim_result, r, r->isolation = "")

static void each_line_of_the_check_is_met(void **state)
{
    (void)state;
    static const struct {
        server_spoiler spoiler;
        plim_status status;
    } rows[] = {
        {{.message = no_record}, PLIM_E_NO_RECORD},
        {{.record = version_1}, PLIM_E_RECORD_VERSION},
        {{.record = version_3}, PLIM_E_RECORD_VERSION},
        {{.record = version_4}, PLIM_E_RECORD_VERSION},
        {{.record = unanswered}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_request}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_result}, PLIM_E_RECORD_MISMATCH},
        {{.message = other_output}, PLIM_E_RECORD_MISMATCH},
        {{.message = other_exit}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_provider}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_tier}, PLIM_E_RECORD_MISMATCH},
        {{.message = answered_tier}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_environment}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_software}, PLIM_E_RECORD_MISMATCH},
        {{.record = other_rule}, PLIM_E_RECORD_MISMATCH},
        {{.sealed = unsealed}, PLIM_E_RECORD_MISMATCH},
        {{.sealed = no_digest}, PLIM_E_RECORD_MISMATCH},
        {{.record = in_session}, PLIM_E_RECORD_MISMATCH},
        {{.record = numbered}, PLIM_E_RECORD_MISMATCH},
        {{.record = chained}, PLIM_E_RECORD_MISMATCH},
        {{.result = tier_none}, PLIM_E_ISOLATION_EVIDENCE},
        {{.result = tier_unknown}, PLIM_E_ISOLATION_EVIDENCE},
        {{.result = tier_nothing}, PLIM_E_ISOLATION_EVIDENCE},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        outcome it = exchange_with(answer_spoiled, &rows[i].spoiler);
        if (it.status != rows[i].status)
            print_error("row %zu\n", i);
        expect_outcome(it, rows[i].status, PLIM_ND_NONE);
        assert_string_equal(plim_error_code(&it.err), "data_loss");
        assert_non_null(it.result);
        assert_null(plim_result_record(it.result));
        release(&it);
    }
}

static void no_result(wire_run_response *m)
{
    m->result_case = 0;
    m->record = NULL; /* the kind is reported, though the record is missing too */
}

static wire_cell_result cell = {.base = WIRE_BASE(cell_result)};

static void a_cell(wire_run_response *m)
{
    m->result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_CELL;
    m->cell = &cell;
}

static void an_answer_of_another_kind_has_no_result(void **state)
{
    (void)state;
    static const server_spoiler spoilers[] = {{.message = no_result}, {.message = a_cell}};
    for (size_t i = 0; i < PLIM_COUNT(spoilers); i++) {
        outcome it = exchange_with(answer_spoiled, &spoilers[i]);
        expect_outcome(it, PLIM_E_RESULT_KIND, PLIM_ND_NONE);
        assert_string_equal(plim_error_code(&it.err), "data_loss");
        assert_null(it.result);
        release(&it);
    }
}

/* ---- answers that cannot be read ---- */

typedef struct raw_answer {
    const char *type;
    plim_bytes body;
} raw_answer;

static bool answer_raw(server_conn *conn, server_request *request)
{
    const raw_answer *raw = conn->server->arg;
    server_answer(conn, request, 200, raw->type, "", raw->body);
    return true;
}

static void what_does_not_decode_is_malformed(void **state)
{
    (void)state;
    static char deep[200000]; /* start-group of an unknown field, without end */
    memset(deep, 0x7B, sizeof(deep));
    static const raw_answer rows[] = {
        {"application/json", PLIM_LIT("{}")},
        {"text/html", PLIM_LIT("<html>")},
        {"application/proto", PLIM_LIT("\x0A\x05"
                                       "ab")},           /* shorter than it says */
        {"application/proto", PLIM_LIT("\x0A\x01\xFF")}, /* a string that is not UTF-8 */
        {"application/proto", PLIM_LIT("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")},
        {"application/proto", {deep, sizeof(deep)}},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        outcome it = exchange_with(answer_raw, &rows[i]);
        if (it.status != PLIM_E_MALFORMED)
            print_error("row %zu: %s\n", i, plim_error_message(&it.err));
        expect_outcome(it, PLIM_E_MALFORMED, PLIM_ND_NONE);
        assert_string_equal(plim_error_code(&it.err), "internal");
        assert_null(it.result);
        release(&it);
    }
}

/* ---- module ---- */

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void special_outputs(plim_result *result)
{
    static double outputs[5];
    static core_module_row row = {5, outputs, 5};
    outputs[0] = from_bits(UINT64_C(0xfff8000000000001));
    outputs[1] = INFINITY;
    outputs[2] = -INFINITY;
    outputs[3] = -0.0;
    outputs[4] = 1;
    result->rows = &row;
    result->row_count = result->width = 1;
}

static void special_numbers_check(void **state)
{
    (void)state;
    server_spoiler spoiler = {.result = special_outputs};
    server served;
    server_start(&served, answer_spoiled, &spoiler, NULL);
    client *made = server_client(&served, 20000, NULL);
    double value = 1;
    plim_module_request module = {
        .model = PLIM_LIT("m"), .values = &value, .rows = 1, .width = 1, .end_time = 5, .step = 1};
    core_request request = {
        .kind = PLIM_KIND_MODULE, .options = &module.options, .module = &module};
    run_ctx ctx = RUN_CTX_NONE;
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    assert_true(client_run(made, &request, &ctx, &result, &err));
    int32_t status;
    const double *values;
    size_t count;
    assert_int_equal(plim_result_row_count(result), 1);
    assert_int_equal(plim_result_width(result), 1);
    assert_int_equal(plim_result_outcome(result), PLIM_OUTCOME_COMPLETED);
    plim_result_row(result, 0, &status, &values, &count);
    assert_int_equal(status, 5);
    assert_int_equal(count, 5);
    assert_true(isnan(values[0]));
    assert_true(signbit(values[3]));
    plim_result_row(result, 1, &status, &values, &count);
    assert_true(status == 0 && !values && count == 0);
    assert_int_equal(plim_result_step_count(result), 0);
    plim_result_free(result);
    client_free(made);
    server_stop(&served);
}

/* ---- project ---- */

static void bring_back(plim_result *result)
{
    static const core_artifact artifacts[] = {{PLIM_LIT("a/b"), PLIM_LIT("1\0002")}};
    static const core_step_result step = {.command = PLIM_LIT("true"),
                                          .out = PLIM_LIT("out"),
                                          .err = PLIM_LIT("err"),
                                          .exit_code = 124,
                                          .timed_out = true,
                                          .err_truncated = true,
                                          .duration_ms = 7,
                                          .limit_reached = "memory"};
    result->outcome = PLIM_OUTCOME_TIMED_OUT;
    result->outcome_detail = PLIM_LIT("why");
    result->steps = &step;
    result->step_count = 1;
    result->artifacts = artifacts;
    result->artifact_count = 1;
    result->artifacts_truncated = true;
}

static void a_project_can_be_read(void **state)
{
    (void)state;
    server_spoiler spoiler = {.result = bring_back};
    server served;
    server_start(&served, answer_spoiled, &spoiler, NULL);
    client *made = server_client(&served, 20000, NULL);
    plim_bytes step = PLIM_LIT("true");
    plim_project_request project = {.steps = &step, .step_count = 1};
    core_request request = {
        .kind = PLIM_KIND_PROJECT, .options = &project.options, .project = &project};
    run_ctx ctx = RUN_CTX_NONE;
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    assert_true(client_run(made, &request, &ctx, &result, &err));
    assert_int_equal(plim_result_outcome(result), PLIM_OUTCOME_TIMED_OUT);
    assert_true(base_bytes_is(plim_result_outcome_detail(result), "why"));
    assert_int_equal(plim_result_step_count(result), 1);
    plim_step ran = plim_result_step(result, 0);
    assert_true(base_bytes_is(ran.command, "true") && base_bytes_is(ran.out, "out") &&
                base_bytes_is(ran.err, "err"));
    assert_int_equal(ran.exit_code, 124);
    assert_true(ran.timed_out && !ran.out_truncated && ran.err_truncated);
    assert_int_equal(ran.duration_ms, 7);
    assert_string_equal(ran.limit_reached, "memory");
    assert_string_equal(plim_result_step(result, 1).limit_reached, "");
    assert_int_equal(plim_result_artifact_count(result), 1);
    plim_artifact file = plim_result_artifact(result, 0);
    assert_true(base_bytes_is(file.path, "a/b"));
    assert_int_equal(file.content.len, 3);
    assert_memory_equal(file.content.data, "1\0002", 3);
    assert_null(plim_result_artifact(result, 1).path.data);
    assert_true(plim_result_artifacts_truncated(result));
    assert_false(plim_result_interpreter_started(result) || plim_result_interpreter_ended(result));
    plim_result_free(result);
    client_free(made);
    server_stop(&served);
}

/* ---- describe ---- */

static bool describe_protocol_2(server_conn *conn, server_request *request)
{
    static const char body[] = "\x0A\x06"
                               "docker"
                               "\x12\x06"
                               "kernel"
                               "\x18\x01\x48\x02";
    server_answer(conn, request, 200, "application/proto", "",
                  (plim_bytes){body, sizeof(body) - 1});
    return true;
}

static void a_daemon_of_another_number_is_described_and_refused(void **state)
{
    (void)state;
    server served;
    server_start(&served, describe_protocol_2, NULL, NULL);
    client *made = server_client(&served, 20000, NULL);
    core_description about = {.provider = NULL};
    plim_error err = PLIM_ERROR_INIT;
    run_ctx ctx = RUN_CTX_NONE;
    assert_false(client_describe(made, &ctx, &about, &err));
    assert_int_equal(plim_error_status(&err), PLIM_E_PROTOCOL_MISMATCH);
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_PROTOCOL);
    assert_string_equal(about.provider, "docker");
    assert_int_equal(about.tier, PLIM_TIER_KERNEL);
    assert_true(about.supports[PLIM_KIND_PROJECT]);
    client_free(made);
    server_stop(&served);

    server_start(&served, server_good, NULL, NULL);
    made = server_client(&served, 20000, NULL);
    assert_true(client_describe(made, &ctx, &about, &err));
    assert_string_equal(about.provider, "wasm");
    assert_string_equal(about.environment[PLIM_KIND_JAVASCRIPT].identity, "quickjs-wasm:sha256:00");
    assert_int_equal(about.memory_mb, 256);
    assert_false(about.supports[PLIM_KIND_PROJECT]);
    client_free(made);
    server_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_answer_is_a_result),
        cmocka_unit_test(an_answer_that_is_not_bound_is_not_believed),
        cmocka_unit_test(a_captured_refusal_does_not_mark),
        cmocka_unit_test(each_refusal_has_its_class_and_mark),
        cmocka_unit_test(a_message_is_the_daemons_or_the_status),
        cmocka_unit_test(of_a_huge_error_only_the_status_is_read),
        cmocka_unit_test(a_session_end_never_reads_open),
        cmocka_unit_test(a_marked_error_has_no_record),
        cmocka_unit_test(each_line_of_the_check_is_met),
        cmocka_unit_test(an_answer_of_another_kind_has_no_result),
        cmocka_unit_test(what_does_not_decode_is_malformed),
        cmocka_unit_test(special_numbers_check),
        cmocka_unit_test(a_project_can_be_read),
        cmocka_unit_test(a_daemon_of_another_number_is_described_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
