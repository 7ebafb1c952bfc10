/* The HTTP/1.x parser: what it accepts, every shape it refuses, and that cutting the input anywhere
 * changes nothing. */
#include "unit.h"

#include "net/net.h"

enum { HEAD_MAX = 512 };

/* What a parse reported, as text: "POST /p ?q len=3 h=2 | abc | end | ..." */
static void transcribe_event(net_http1 *http1, net_http1_event event, plim_bytes body,
                             base_buf *out, bool *in_body)
{
    if (event == NET_HTTP1_BODY) {
        base_buf_add_text(out, *in_body ? "" : "body=");
        base_buf_add(out, body);
        *in_body = true;
        return;
    }
    if (event == NET_HTTP1_MORE)
        return;
    base_buf_add_text(out, *in_body ? " " : "");
    *in_body = false;
    plim_bytes method = net_head_bytes(&http1->head, http1->head.method);
    switch (event) {
    case NET_HTTP1_HEAD:
        base_buf_printf(out, "%.*s %.*s ?%.*s len=%" PRId64 " h=%zu%s%s ", (int)method.len,
                        method.data, (int)http1->path.len, http1->path.data, (int)http1->query.len,
                        http1->query.data ? http1->query.data : "", http1->content_length,
                        http1->head.count, http1->keep_alive ? "" : " close",
                        net_http1_expects_continue(http1) ? " expect" : "");
        break;
    case NET_HTTP1_END:
        base_buf_add_text(out, "end ");
        break;
    case NET_HTTP1_BAD:
        base_buf_add_text(out, "BAD");
        break;
    case NET_HTTP1_TOO_LARGE:
        base_buf_add_text(out, "LARGE");
        break;
    case NET_HTTP1_VERSION:
        base_buf_add_text(out, "VERSION");
        break;
    case NET_HTTP1_NOMEM:
        base_buf_add_text(out, "NOMEM");
        break;
    case NET_HTTP1_MORE:
    case NET_HTTP1_BODY:
        break;
    }
}

/* Feed one piece; false once the parser has given up. */
static bool feed(net_http1 *http1, plim_bytes piece, base_buf *out, bool *in_body)
{
    for (;;) {
        plim_bytes body = {NULL, 0};
        net_http1_event event = net_http1_next(http1, &piece, &body);
        transcribe_event(http1, event, body, out, in_body);
        if (event >= NET_HTTP1_BAD)
            return false;
        if (event == NET_HTTP1_MORE) {
            assert_int_equal(piece.len, 0);
            return true;
        }
    }
}

/* Parse `text` cut before every offset in [first, second] and report; the pieces are copied into
 * blocks of their exact size so that a sanitizer sees any read past one. */
static char *transcript(plim_bytes text, size_t step, size_t cut)
{
    net_http1 http1;
    base_buf out = BASE_BUF_INIT(65536);
    bool in_body = false, more = true;
    net_http1_init(&http1, HEAD_MAX);
    for (size_t at = 0; more && at < text.len;) {
        size_t length = step ? step : at < cut ? cut - at : text.len - at;
        if (length > text.len - at)
            length = text.len - at;
        char *piece = base_alloc(length, 1);
        memcpy(piece, text.data + at, length);
        more = feed(&http1, (plim_bytes){piece, length}, &out, &in_body);
        base_free(piece);
        at += length;
    }
    net_http1_free(&http1);
    base_buf_add_byte(&out, '\0');
    return out.data;
}

static void expect(plim_bytes text, const char *expected)
{
    char *whole = transcript(text, 0, 0);
    if (strcmp(whole, expected) != 0)
        fail_msg("%.*s\n  gave     '%s'\n  expected '%s'", (int)text.len, text.data, whole,
                 expected);
    for (size_t cut = 1; cut < text.len; cut++) {
        char *parts = transcript(text, 0, cut);
        if (strcmp(whole, parts) != 0)
            fail_msg("%.*s\n  cut at %zu gave '%s'\n  instead of '%s'", (int)text.len, text.data,
                     cut, parts, whole);
        base_free(parts);
    }
    char *bytes = transcript(text, 1, 0);
    assert_string_equal(whole, bytes);
    base_free(bytes);
    base_free(whole);
}

#define GET       "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST      "POST / HTTP/1.1\r\nHost: a\r\n"
#define OK_GET    "GET / ? len=0 h=1 end "
#define CHUNKED   POST "Transfer-Encoding: chunked\r\n\r\n"
#define OK_CHUNKS "POST / ? len=-1 h=2 "

struct shape {
    const char *text, *expected;
};

static void run_shapes(const struct shape *shapes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(plim_bytes_of(shapes[i].text), shapes[i].expected);
}

static const struct shape accepted[] = {
    {GET "\r\n", OK_GET},
    {GET "\r\n" GET "\r\n", OK_GET OK_GET},
    {"\r\n\r\n" GET "\r\n", OK_GET},
    {"GET /p/a?x=1?2 HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET /p/a ?x=1?2 len=0 h=1 end "},
    {"GET http://h/p?q HTTP/1.1\r\nHost: a\r\n\r\n", "GET /p ?q len=0 h=1 end "},
    {"GET HTTP://h HTTP/1.1\r\nHost: a\r\n\r\n", OK_GET},
    {"GET http://h?q HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ?q len=0 h=1 end "},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * ? len=0 h=1 end "},
    {"GET / HTTP/1.0\r\n\r\n", "GET / ? len=0 h=0 close end "},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / ? len=0 h=1 end "},
    {GET "Connection: close\r\n\r\n", "GET / ? len=0 h=2 close end "},
    {GET "Connection: x, close\r\n\r\n", "GET / ? len=0 h=2 close end "},
    {POST "Content-Length: 3\r\n\r\nabc" GET "\r\n", "POST / ? len=3 h=2 body=abc end " OK_GET},
    {POST "Content-Length: 0\r\n\r\n" GET "\r\n", "POST / ? len=0 h=2 end " OK_GET},
    {POST "Content-Length:   3  \r\n\r\nabc", "POST / ? len=3 h=2 body=abc end "},
    {CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" GET "\r\n", OK_CHUNKS "body=abcde end " OK_GET},
    {CHUNKED "3;x=y\r\nabc\r\n0\r\nTrail: er\r\n\r\n" GET "\r\n", OK_CHUNKS "body=abc end " OK_GET},
    {CHUNKED "0\r\n\r\n", OK_CHUNKS "end "},
    {POST "tRANSFER-eNCODING: CHUNKED\r\n\r\n0\r\n\r\n", OK_CHUNKS "end "},
    {POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
     "POST / ? len=1 h=3 expect body=x end "},
    /* no upgrade is honoured: what follows is the next request, not another protocol */
    {GET "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n" GET
         "\r\n",
     "GET / ? len=0 h=4 end " OK_GET},
    {POST "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nab" GET "\r\n",
     "POST / ? len=2 h=4 body=ab end " OK_GET},
    {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a:1 ? len=0 h=1 close end "},
};

static void test_accepted(void **state)
{
    (void)state;
    run_shapes(accepted, PLIM_COUNT(accepted));
}

static const struct shape smuggling[] = {
    {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "BAD"},
    {POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "BAD"},
    {POST "Content-Length: 3, 3\r\n\r\nabc", "BAD"},
    {POST "Content-Length: +3\r\n\r\nabc", "BAD"},
    {POST "Content-Length: -3\r\n\r\nabc", "BAD"},
    {POST "Content-Length: 0x3\r\n\r\nabc", "BAD"},
    {POST "Content-Length: 3 4\r\n\r\nabc", "BAD"},
    {POST "Content-Length: 3.0\r\n\r\nabc", "BAD"},
    {POST "Content-Length:\r\n\r\n", "BAD"},
    {POST "Content-Length: 99999999999999999999\r\n\r\n", "BAD"},
    {POST "Content-Length: 18446744073709551617\r\n\r\n", "BAD"},
    {POST "Content-Length: 9223372036854775808\r\n\r\n", "BAD"},
    {POST "Content-Length : 3\r\n\r\nabc", "BAD"},
    {POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: identity\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n0\r\n\r\n",
     "BAD"},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding:\r\n\r\n", "BAD"},
    {POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "BAD"},
    {GET "X: a\r\n b\r\n\r\n", "BAD"},
    {GET "X: a\r\n\tb\r\n\r\n", "BAD"},
    {GET " X: a\r\n\r\n", "BAD"},
    {GET "X : a\r\n\r\n", "BAD"},
    {GET "X\t: a\r\n\r\n", "BAD"},
    {GET "X\r\n\r\n", "BAD"},
    {GET ": a\r\n\r\n", "BAD"},
    {GET "X Y: a\r\n\r\n", "BAD"},
    {GET "X: a\nY: b\r\n\r\n", "BAD"},
    {GET "X: a\rY: b\r\n\r\n", "BAD"},
    {GET "X: a\r\r\n\r\n", "BAD"},
    {GET "X: a\r\n\n", "BAD"},
    {GET "X: a\n\n", "BAD"},
    {GET "\n", "BAD"},
    {GET "\r\r\n", "BAD"},
    {GET "X: \x01\r\n\r\n", "BAD"},
    {GET "X: \x7f\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\nHost: a\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\rHost: a\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "BAD"},
    {"\n" GET "\r\n", "BAD"},
    {"\r" GET "\r\n", "BAD"},
    {"GET / HTTP/1.1\r\n\r\n", "BAD"},
    {GET "Host: a\r\n\r\n", "BAD"},
    {GET "host: b\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "BAD"},
    {"GET / HTTP/1.1\r\nHost: u@b\r\n\r\n", "BAD"},
    {"GET p HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET ?q HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET ftp://h/ HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET  HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"GET / RTSP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"OPTIONS * RTSP/1.0\r\nHost: a\r\n\r\n", "BAD"},
    {"SOURCE / ICE/1.0\r\nHost: a\r\n\r\n", "BAD"},
    {"GET / http/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"get / HTTP/1.1\r\nHost: a\r\n\r\n", "BAD"},
    {"HTTP/1.1 200 OK\r\n\r\n", "BAD"},
    {"\x16\x03\x01\x02", "BAD"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "BAD"},
};

static void test_smuggling_refused(void **state)
{
    (void)state;
    run_shapes(smuggling, PLIM_COUNT(smuggling));
    /* a NUL is not a C string's to hold */
    expect(PLIM_LIT(GET "X: a\0b\r\n\r\n"), "BAD");
    expect(PLIM_LIT(GET "X\0: a\r\n\r\n"), "BAD");
    expect(PLIM_LIT("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), "BAD");
}

static const struct shape chunk_shapes[] = {
    {CHUNKED "g\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "-1\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "+1\r\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "0x1\r\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED " 1\r\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1 \r\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1\ra\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1;\na\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1;a\nb\r\nx\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1;a=b\nb\r\nx\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1;a=\"\n\"\r\nx\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "10000000000000000\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "fffffffffffffffff\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "1\r\nab\r\n", OK_CHUNKS "body=a BAD"},
    {CHUNKED "1\r\na\n", OK_CHUNKS "body=a BAD"},
    {CHUNKED "1\r\na\r0", OK_CHUNKS "body=a BAD"},
    {CHUNKED "1\r\na0\r\n\r\n", OK_CHUNKS "body=a BAD"},
    {CHUNKED "0\r\n\n", OK_CHUNKS "BAD"},
    {CHUNKED "0\n\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "0\r\nX : y\r\n\r\n", OK_CHUNKS "BAD"},
    {CHUNKED "0\r\nX: y\nZ: y\r\n\r\n", OK_CHUNKS "BAD"},
};

static void test_chunk_shapes_refused(void **state)
{
    (void)state;
    run_shapes(chunk_shapes, PLIM_COUNT(chunk_shapes));
}

static void test_versions(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "VERSION"},
        {"GET /\r\n\r\n", "VERSION"},
        {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", "VERSION"},
        {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "VERSION"},
        {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "VERSION"},
    };
    run_shapes(shapes, PLIM_COUNT(shapes));
}

/* The header limit counts every byte up to the end of the block, exactly. */
static void test_header_limit(void **state)
{
    (void)state;
    const size_t fixed = strlen(GET "X: \r\n\r\n");
    for (int past = 0; past < 2; past++) {
        base_buf text = BASE_BUF_INIT(4096);
        base_buf_add_text(&text, GET "X: ");
        for (size_t i = fixed; i < HEAD_MAX + (size_t)past; i++)
            base_buf_add_byte(&text, 'v');
        base_buf_add_text(&text, "\r\n\r\n");
        base_buf_add_text(&text, past ? "" : GET "\r\n");
        expect(base_buf_bytes(&text), past ? "LARGE" : "GET / ? len=0 h=2 end " OK_GET);
        base_buf_free(&text);
    }
    base_buf lines = BASE_BUF_INIT(4096);
    for (size_t i = 0; i < HEAD_MAX; i++)
        base_buf_add_text(&lines, "\r\n");
    expect(base_buf_bytes(&lines), "LARGE");
    base_buf_free(&lines);
}

/* Chunk extensions and trailers may not outweigh the data without bound; honest small chunks may.
 */
static void test_chunk_overhead(void **state)
{
    (void)state;
    base_buf text = BASE_BUF_INIT(1 << 20);
    base_buf_add_text(&text, CHUNKED);
    for (int i = 0; i < 20000; i++)
        base_buf_add_text(&text, "1\r\na\r\n");
    base_buf_add_text(&text, "0\r\n\r\n");
    char *result = transcript(base_buf_bytes(&text), 4096, 0);
    assert_non_null(strstr(result, "aaaa end "));
    base_free(result);

    base_buf_clear(&text);
    base_buf_add_text(&text, CHUNKED "1;");
    for (int i = 0; i < 20000; i++)
        base_buf_add_byte(&text, 'e');
    result = transcript(base_buf_bytes(&text), 4096, 0);
    assert_string_equal(result, OK_CHUNKS "BAD");
    base_free(result);

    base_buf_clear(&text);
    base_buf_add_text(&text, CHUNKED "0\r\n");
    for (int i = 0; i < 4000; i++)
        base_buf_add_text(&text, "X: y\r\n");
    result = transcript(base_buf_bytes(&text), 4096, 0);
    assert_string_equal(result, OK_CHUNKS "BAD");
    base_free(result);
    base_buf_free(&text);
}

static void test_fields(void **state)
{
    (void)state;
    plim_bytes input =
                   PLIM_LIT("GET / HTTP/1.1\r\nHost: a\r\nX-One:  1 \t\r\nEMPTY:\r\nx-one: \t2\r\n"
                            "High: \xc3\xa9\r\n\r\n"),
               body, value;
    net_http1 http1;
    net_http1_init(&http1, HEAD_MAX);
    assert_int_equal(net_http1_next(&http1, &input, &body), NET_HTTP1_HEAD);
    size_t count;
    assert_true(net_head_find(&http1.head, "x-one", &value, &count));
    assert_true(base_bytes_is(value, "1"));
    assert_int_equal(count, 2);
    assert_true(net_head_find(&http1.head, "empty", &value, NULL));
    assert_int_equal(value.len, 0);
    assert_true(net_head_find(&http1.head, "high", &value, NULL));
    assert_true(base_bytes_is(value, "\xc3\xa9"));
    assert_false(net_head_find(&http1.head, "absent", &value, &count));
    assert_int_equal(count, 0);

    net_head taken = net_http1_take_head(&http1);
    assert_true(net_head_find(&taken, "host", &value, NULL));
    assert_true(base_bytes_is(http1.path, "/"));
    assert_int_equal(net_http1_next(&http1, &input, &body), NET_HTTP1_END);
    assert_false(net_http1_in_message(&http1));
    input = PLIM_LIT(GET "\r\n");
    assert_int_equal(net_http1_next(&http1, &input, &body), NET_HTTP1_HEAD);
    assert_true(net_http1_in_message(&http1));
    net_head_free(&taken);
    net_http1_free(&http1);
}

static void test_syntax(void **state)
{
    (void)state;
    assert_true(net_lower_token_valid(PLIM_LIT("x-a_1~")));
    assert_false(net_lower_token_valid(PLIM_LIT("")));
    assert_false(net_lower_token_valid(PLIM_LIT("X")));
    assert_false(net_lower_token_valid(PLIM_LIT("a b")));
    assert_false(net_lower_token_valid(PLIM_LIT("a:")));
    assert_false(net_lower_token_valid(PLIM_LIT("a\0")));
    assert_true(net_value_valid(PLIM_LIT("")));
    assert_true(net_value_valid(PLIM_LIT("a\tb \xff")));
    assert_false(net_value_valid(PLIM_LIT(" a")));
    assert_false(net_value_valid(PLIM_LIT("a\r\nb")));
    assert_false(net_value_valid(PLIM_LIT("a\nb")));
    assert_false(net_value_valid(PLIM_LIT("a\0b")));
    assert_false(net_value_valid(PLIM_LIT("a\x7f")));
    int64_t length;
    assert_true(net_length_parse(PLIM_LIT("9223372036854775807"), &length));
    assert_false(net_length_parse(PLIM_LIT("9223372036854775808"), &length));
    assert_false(net_length_parse(PLIM_LIT("+1"), &length));
    assert_false(net_length_parse(PLIM_LIT(""), &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_smuggling_refused),
        cmocka_unit_test(test_chunk_shapes_refused),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_header_limit),
        cmocka_unit_test(test_chunk_overhead),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_syntax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
