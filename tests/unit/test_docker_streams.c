/* The attached stream and what is kept of it, cut at every byte offset; and the responses that
 * carry it. */
#include "unit.h"

#include "net/net.h"
#include "providers/docker/capture.h"
#include "providers/docker/demux.h"

#define HEADER(stream, length) stream "\0\0\0\0\0\0" length

struct heard {
    base_buf out, err;
    bool bad;
};

static void hear(docker_demux *demux, plim_bytes input, struct heard *heard)
{
    plim_bytes piece;
    for (;;)
        switch (docker_demux_next(demux, &input, &piece)) {
        case DOCKER_FRAME_STDOUT:
            base_buf_add(&heard->out, piece);
            break;
        case DOCKER_FRAME_STDERR:
            base_buf_add(&heard->err, piece);
            break;
        case DOCKER_FRAME_BAD:
            heard->bad = true;
            return;
        case DOCKER_FRAME_MORE:
            assert_int_equal(input.len, 0);
            return;
        }
}

static void frames_are_told_apart_at_every_cut(void **state)
{
    (void)state;
    static const plim_bytes all = PLIM_LIT(HEADER("\1", "\5") "hello" HEADER(
        "\2", "\3") "e\0r" HEADER("\1", "\0") HEADER("\1", "\1") "!");
    for (size_t first = 0; first <= all.len; first++)
        for (size_t second = first; second <= all.len; second++) {
            docker_demux demux = {.have = 0};
            struct heard heard = {BASE_BUF_INIT(64), BASE_BUF_INIT(64), false};
            hear(&demux, (plim_bytes){all.data, first}, &heard);
            hear(&demux, (plim_bytes){all.data + first, second - first}, &heard);
            hear(&demux, (plim_bytes){all.data + second, all.len - second}, &heard);
            assert_false(heard.bad);
            assert_true(docker_demux_at_rest(&demux));
            assert_bytes(base_buf_bytes(&heard.out), "hello!");
            assert_bytes(base_buf_bytes(&heard.err), "e\0r");
            base_buf_free(&heard.out);
            base_buf_free(&heard.err);
        }
}

static void what_is_no_frame_ends_the_belief(void **state)
{
    (void)state;
    static const plim_bytes bad[] = {
        PLIM_LIT("\0\0\0\0\0\0\0\1x"), PLIM_LIT("\3\0\0\0\0\0\0\1x"), PLIM_LIT("\1\1\0\0\0\0\0\1x"),
        PLIM_LIT("\1\0\0\1\0\0\0\1x"), PLIM_LIT("\1\0\0\0\1\0\0\1x"), PLIM_LIT("HTTP/1.1 200"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        docker_demux demux = {.have = 0};
        struct heard heard = {BASE_BUF_INIT(64), BASE_BUF_INIT(64), false};
        hear(&demux, bad[i], &heard);
        assert_true(heard.bad);
        assert_false(docker_demux_at_rest(&demux));
        heard.bad = false;
        hear(&demux, PLIM_LIT(HEADER("\1", "\1") "x"), &heard);
        assert_true(heard.bad);
        assert_int_equal(heard.out.len, 0);
    }
}

static void a_cut_is_not_rest(void **state)
{
    (void)state;
    static const plim_bytes cut[] = {PLIM_LIT("\1"), PLIM_LIT(HEADER("\1", "\5")),
                                     PLIM_LIT(HEADER("\1", "\5") "hell")};
    for (size_t i = 0; i < PLIM_COUNT(cut); i++) {
        docker_demux demux = {.have = 0};
        struct heard heard = {BASE_BUF_INIT(64), BASE_BUF_INIT(64), false};
        hear(&demux, cut[i], &heard);
        assert_false(heard.bad);
        assert_false(docker_demux_at_rest(&demux));
        base_buf_free(&heard.out);
    }
}

static void the_marker_is_found_at_every_cut(void **state)
{
    (void)state;
    docker_capture fresh;
    assert_true(docker_capture_init(&fresh, 16, 16));
    for (size_t cut = 0; cut < CTL_MARKER_BYTES + 20; cut++) {
        docker_capture capture = fresh;
        char text[128];
        /* A beginning of the marker before it, and the same marker again after it. */
        int length = snprintf(text, sizeof(text), "plimsoll-startplims%safter", fresh.marker);
        plim_bytes all = {text, (size_t)length};
        size_t first = cut < all.len ? cut : all.len;
        docker_capture_err(&capture, (plim_bytes){all.data, first});
        docker_capture_err(&capture, (plim_bytes){all.data + first, all.len - first});
        assert_true(capture.started);
        assert_bytes(docker_stream_output(&capture.err), "after");
        assert_false(docker_stream_truncated(&capture.err));
        docker_capture_free(&capture);
    }
}

static void another_marker_starts_nothing(void **state)
{
    (void)state;
    docker_capture capture;
    assert_true(docker_capture_init(&capture, 16, 16));
    docker_capture_err(&capture, PLIM_LIT("plimsoll-started:0000000000000000\n"));
    assert_false(capture.started);
    assert_int_equal(capture.err.kept.len, 0);
    docker_capture_free(&capture);
}

static void caps_keep_the_exact_prefix(void **state)
{
    (void)state;
    for (size_t size = 14; size <= 18; size++) {
        docker_capture capture;
        assert_true(docker_capture_init(&capture, 16, 16));
        for (size_t i = 0; i < size; i++)
            docker_capture_out(&capture, (plim_bytes){"\xFF", 1});
        assert_int_equal(docker_stream_output(&capture.out).len, size < 16 ? size : 16);
        assert_int_equal(docker_stream_truncated(&capture.out), size > 16);
        docker_capture_free(&capture);
    }
    docker_capture capture;
    assert_true(docker_capture_init(&capture, 16, 16));
    docker_capture_out(&capture, PLIM_LIT("01234567890123456789"));
    assert_bytes(docker_stream_output(&capture.out), "0123456789012345");
    assert_true(docker_stream_truncated(&capture.out));
    docker_capture_free(&capture);
}

/* ---- responses ---- */

struct answer {
    int status;
    base_buf body;
    net_response_event last;
    plim_bytes rest;
};

/* Feed in pieces of `step`; stops at the end of the first message. */
static void respond(plim_bytes input, size_t step, bool closed, struct answer *answer)
{
    net_response response;
    net_response_init(&response, 1024);
    *answer = (struct answer){.body = BASE_BUF_INIT(4096), .last = NET_RESPONSE_MORE};
    while (input.len && answer->last == NET_RESPONSE_MORE) {
        plim_bytes part = {input.data, input.len < step ? input.len : step}, body;
        size_t given = part.len;
        do {
            answer->last = net_response_next(&response, &part, &body);
            if (answer->last == NET_RESPONSE_HEAD)
                answer->status = response.status;
            base_buf_add(&answer->body, body);
        } while (answer->last == NET_RESPONSE_HEAD || answer->last == NET_RESPONSE_BODY);
        input = (plim_bytes){input.data + given - part.len, input.len - (given - part.len)};
    }
    if (answer->last == NET_RESPONSE_UPGRADED)
        answer->status = response.status;
    if (closed && answer->last == NET_RESPONSE_MORE)
        answer->last = net_response_closed(&response);
    answer->rest = input;
    net_response_free(&response);
}

static void responses_are_read_whole(void **state)
{
    (void)state;
    static const struct {
        plim_bytes input;
        const char *body;
        int status;
        bool closed;
    } rows[] = {
        {PLIM_LIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloREST"), "hello", 200, false},
        {PLIM_LIT(
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n"
             "\r\nREST"),
         "hello", 200, false},
        {PLIM_LIT("HTTP/1.1 204 No Content\r\n\r\nREST"), "", 204, false},
        {PLIM_LIT("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\nREST"), "", 500, false},
        {PLIM_LIT("HTTP/1.1 200 OK\r\n\r\nuntil the end"), "until the end", 200, true},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++)
        for (size_t step = 1; step <= rows[i].input.len; step++) {
            struct answer answer;
            respond(rows[i].input, step, rows[i].closed, &answer);
            assert_int_equal(answer.last, NET_RESPONSE_END);
            assert_int_equal(answer.status, rows[i].status);
            assert_string_equal(base_buf_text(&answer.body), rows[i].body);
            if (!rows[i].closed)
                assert_bytes(answer.rest, "REST");
            base_buf_free(&answer.body);
        }
}

static void an_upgrade_leaves_what_follows(void **state)
{
    (void)state;
    static const plim_bytes input =
        PLIM_LIT("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n\1\0\0\0raw");
    for (size_t step = 1; step <= input.len; step++) {
        struct answer answer;
        respond(input, step, false, &answer);
        assert_int_equal(answer.last, NET_RESPONSE_UPGRADED);
        assert_int_equal(answer.status, 101);
        assert_bytes(answer.rest, "\1\0\0\0raw");
        base_buf_free(&answer.body);
    }
}

static void bad_responses_are_refused(void **state)
{
    (void)state;
    static const plim_bytes bad[] = {
        PLIM_LIT("hello\r\n\r\n"),
        PLIM_LIT("HTTP/2.0 200 OK\r\n\r\n"),
        PLIM_LIT("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        PLIM_LIT(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        PLIM_LIT("HTTP/1.1 200 OK\r\nContent-Le"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        struct answer answer;
        respond(bad[i], bad[i].len, true, &answer);
        if (answer.last != NET_RESPONSE_BAD)
            fail_msg("row %zu was read", i);
        base_buf_free(&answer.body);
    }
}

static void a_head_is_bounded(void **state)
{
    (void)state;
    char text[3000];
    int length = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nx: %0*d", 2000, 0);
    struct answer answer;
    respond((plim_bytes){text, (size_t)length}, 100, false, &answer);
    assert_int_equal(answer.last, NET_RESPONSE_BAD);
    base_buf_free(&answer.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_told_apart_at_every_cut),
        cmocka_unit_test(what_is_no_frame_ends_the_belief),
        cmocka_unit_test(a_cut_is_not_rest),
        cmocka_unit_test(the_marker_is_found_at_every_cut),
        cmocka_unit_test(another_marker_starts_nothing),
        cmocka_unit_test(caps_keep_the_exact_prefix),
        cmocka_unit_test(responses_are_read_whole),
        cmocka_unit_test(an_upgrade_leaves_what_follows),
        cmocka_unit_test(bad_responses_are_refused),
        cmocka_unit_test(a_head_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
