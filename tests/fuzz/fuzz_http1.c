/*
 * The HTTP/1.x parser over arbitrary bytes. Beside not crashing: where the input is cut must not
 * matter, body bytes come from the input, and a message never has two lengths.
 */
#include "net/net.h"

#include "fuzz.h"

enum { HEAD_MAX = 256, TRACE_MAX = 1 << 20 };

/* What a parse reported, with consecutive pieces of a body joined. */
static void trace_event(base_buf *trace, const net_http1 *http1, net_http1_event event,
                        plim_bytes body, net_http1_event before)
{
    if (event == NET_HTTP1_MORE)
        return;
    if (event != NET_HTTP1_BODY || before != NET_HTTP1_BODY)
        base_buf_printf(trace, "\n%d ", event);
    if (event == NET_HTTP1_BODY)
        base_buf_add(trace, body);
    if (event != NET_HTTP1_HEAD)
        return;
    plim_bytes length, coding;
    bool has_length = net_head_find(&http1->head, "content-length", &length, NULL);
    bool has_coding = net_head_find(&http1->head, "transfer-encoding", &coding, NULL);
    CHECK(!has_length || !has_coding);
    CHECK(has_coding == (http1->content_length == -1));
    base_buf_printf(trace, "%" PRId64 " %zu %d ", http1->content_length, http1->head.count,
                    http1->keep_alive);
    base_buf_add(trace, http1->path);
    base_buf_add_byte(trace, '?');
    base_buf_add(trace, http1->query);
    for (size_t i = 0; i < http1->head.count; i++) {
        plim_bytes name = net_head_bytes(&http1->head, http1->head.fields[i].name);
        plim_bytes value = net_head_bytes(&http1->head, http1->head.fields[i].value);
        CHECK(net_lower_token_valid(name) && net_value_valid(value));
        base_buf_add(trace, name);
        base_buf_add_byte(trace, '=');
        base_buf_add(trace, value);
    }
}

/* Parse in pieces of `step` bytes. */
static void parse(base_buf *trace, const uint8_t *data, size_t size, size_t step)
{
    net_http1 http1;
    net_http1_event event = NET_HTTP1_MORE, before = NET_HTTP1_MORE;
    net_http1_init(&http1, HEAD_MAX);
    for (size_t at = 0; at < size && event < NET_HTTP1_BAD; at += step) {
        size_t length = size - at < step ? size - at : step;
        plim_bytes piece = {(const char *)data + at, length};
        do {
            plim_bytes body = {NULL, 0};
            const char *front = piece.data;
            event = net_http1_next(&http1, &piece, &body);
            if (event == NET_HTTP1_BODY)
                CHECK(body.len && body.data >= front && body.data + body.len <= piece.data);
            trace_event(trace, &http1, event, body, before);
            before = event == NET_HTTP1_MORE ? before : event;
        } while (event != NET_HTTP1_MORE && event < NET_HTTP1_BAD);
    }
    net_http1_free(&http1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t step = 1 + data[0];
    base_buf whole = BASE_BUF_INIT(TRACE_MAX), parts = BASE_BUF_INIT(TRACE_MAX);
    parse(&whole, data + 1, size - 1, size);
    parse(&parts, data + 1, size - 1, step);
    CHECK(base_bytes_equal(base_buf_bytes(&whole), base_buf_bytes(&parts)));
    base_buf_free(&whole);
    base_buf_free(&parts);
    return 0;
}
