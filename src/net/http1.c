#include "net/net.h"

/* Where in a message the next byte falls. */
enum { AT_START, AT_START_LF, IN_HEAD, IN_BODY, AT_FAULT };

/*
 * What chunked coding may cost beside the data: 16 bytes a data byte covers one-byte chunks with
 * room to spare; the constant covers trailers and the last chunk. Without it, chunk extensions make
 * a server read without end for a body of a few bytes.
 */
enum { OVERHEAD_PER_BYTE = 16, OVERHEAD_AT_FIRST = 16384 };

/* An idle connection keeps the memory of a usual head, not of the largest it ever saw. */
enum { RETURNED_HEAD_MAX = 2048 };

static net_http1 *self(llhttp_t *parser)
{
    return parser->data;
}

/* ---- what llhttp calls ---- */

static int add(net_http1 *http1, bool added)
{
    if (!added)
        http1->pending = NET_HTTP1_NOMEM;
    return added ? 0 : HPE_USER;
}

static int on_protocol(llhttp_t *parser, const char *at, size_t length)
{
    static const char expected[] = "HTTP";
    net_http1 *http1 = self(parser);
    for (size_t i = 0; i < length; i++) {
        size_t index = http1->protocol_bytes++;
        if (index >= sizeof(expected) - 1 || at[i] != expected[index]) {
            http1->reason = "not HTTP";
            return HPE_USER;
        }
    }
    return 0;
}

static int on_method(llhttp_t *parser, const char *at, size_t length)
{
    net_http1 *http1 = self(parser);
    return add(http1, net_head_extend(&http1->head, &http1->head.method, (plim_bytes){at, length}));
}

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    net_http1 *http1 = self(parser);
    return add(http1, net_head_extend(&http1->head, &http1->head.target, (plim_bytes){at, length}));
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length)
{
    net_http1 *http1 = self(parser);
    net_head *head = &http1->head;
    if (http1->phase == IN_BODY) /* a trailer: bounded as overhead, not kept */
        return 0;
    /* A field that has a value, or was ended without one, is over. */
    bool begins = http1->field_ended;
    http1->field_ended = false;
    return add(http1, (!begins || net_head_field_begin(head)) &&
                          net_head_field_name(head, (plim_bytes){at, length}));
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
    net_http1 *http1 = self(parser);
    if (http1->phase == IN_BODY)
        return 0;
    return add(http1, net_head_field_value(&http1->head, (plim_bytes){at, length}));
}

static int on_header_value_complete(llhttp_t *parser)
{
    net_http1 *http1 = self(parser);
    if (http1->phase != IN_BODY) {
        net_head_field_end(&http1->head);
        http1->field_ended = true;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    parser->upgrade = 0; /* no upgrade is honoured, and CONNECT is answered like any method */
    self(parser)->pending = NET_HTTP1_HEAD;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    net_http1 *http1 = self(parser);
    if (length == 0)
        return 0;
    http1->piece = (plim_bytes){at, length};
    http1->pending = NET_HTTP1_BODY;
    return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *parser)
{
    self(parser)->pending = NET_HTTP1_END;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_protocol = on_protocol,
    .on_method = on_method,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void net_http1_init(net_http1 *http1, size_t head_bytes_max)
{
    *http1 = (net_http1){.head_bytes_max = head_bytes_max, .field_ended = true};
    net_head_init(&http1->head, head_bytes_max);
    llhttp_init(&http1->parser, HTTP_REQUEST, &settings);
    llhttp_set_lenient_version(&http1->parser, 1); /* check_head tells versions from garbage */
    http1->parser.data = http1;
}

void net_http1_free(net_http1 *http1)
{
    net_head_free(&http1->head);
}

/* ---- the rules on top ---- */

static net_http1_event fault(net_http1 *http1, net_http1_event event, const char *reason)
{
    http1->phase = AT_FAULT;
    http1->pending = (unsigned char)event;
    if (reason)
        http1->reason = reason;
    return event;
}

/* Content-Length and Transfer-Encoding: exactly one meaning, and llhttp must share it. */
static const char *check_framing(net_http1 *http1)
{
    plim_bytes length, coding;
    size_t lengths, codings;
    net_head_find(&http1->head, "content-length", &length, &lengths);
    net_head_find(&http1->head, "transfer-encoding", &coding, &codings);
    if (lengths > 1 || codings > 1)
        return "repeated message length";
    if (lengths && codings)
        return "both Content-Length and Transfer-Encoding";
    http1->content_length = 0;
    if (lengths && !net_length_parse(length, &http1->content_length))
        return "Content-Length is not a decimal number";
    if (codings) {
        if (!base_ascii_equal_ignore_case(coding, "chunked") || !net_http1_is_1_1(http1))
            return "Transfer-Encoding is not chunked alone";
        http1->content_length = -1;
    }
    bool chunked = http1->parser.flags & F_CHUNKED;
    if (chunked != (codings > 0) ||
        (!chunked && http1->parser.content_length != (uint64_t)http1->content_length))
        return "ambiguous message length";
    return NULL;
}

static const char *check_host(net_http1 *http1)
{
    plim_bytes host;
    size_t hosts;
    net_head_find(&http1->head, "host", &host, &hosts);
    if (hosts > 1)
        return "repeated Host";
    if (hosts == 0 && net_http1_is_1_1(http1))
        return "missing Host";
    return net_host_valid(host) ? NULL : "malformed Host";
}

static net_http1_event check_head(net_http1 *http1)
{
    const net_head *head = &http1->head;
    http1->head_complete = true;
    if (http1->parser.http_major != 1 || http1->parser.http_minor > 1)
        return fault(http1, NET_HTTP1_VERSION, "unsupported HTTP version");
    const char *reason = check_framing(http1);
    if (!reason)
        reason = check_host(http1);
    if (!reason &&
        !net_target_split(net_head_bytes(head, head->method), net_head_bytes(head, head->target),
                          &http1->path, &http1->query))
        reason = "malformed request target";
    if (reason)
        return fault(http1, NET_HTTP1_BAD, reason);
    http1->keep_alive =
        llhttp_should_keep_alive(&http1->parser) && http1->parser.method != HTTP_CONNECT;
    http1->phase = IN_BODY;
    http1->overhead_bytes = 0;
    http1->overhead_bytes_max = OVERHEAD_AT_FIRST;
    return NET_HTTP1_HEAD;
}

/* Empty lines before a request are skipped (RFC 9112 2.2), if they are whole: llhttp would skip a
 * bare CR or LF there too. */
static net_http1_event skip_empty_lines(net_http1 *http1, plim_bytes *input)
{
    while (input->len && (http1->phase == AT_START || http1->phase == AT_START_LF)) {
        char byte = input->data[0];
        if (http1->phase == AT_START_LF && byte != '\n')
            return fault(http1, NET_HTTP1_BAD, "bare CR");
        if (http1->phase == AT_START && byte == '\n')
            return fault(http1, NET_HTTP1_BAD, "bare LF");
        if (byte != '\r' && byte != '\n') {
            http1->phase = IN_HEAD;
            break;
        }
        http1->phase = byte == '\r' ? AT_START_LF : AT_START;
        *input = (plim_bytes){input->data + 1, input->len - 1};
        if (++http1->head_bytes > http1->head_bytes_max)
            return fault(http1, NET_HTTP1_TOO_LARGE, "header block too large");
    }
    return NET_HTTP1_MORE;
}

/* Run llhttp over at most what the phase allows, take what it consumed off `*input`. */
static size_t run(net_http1 *http1, plim_bytes *input)
{
    size_t allowed = input->len;
    if (http1->phase == IN_HEAD && allowed > http1->head_bytes_max - http1->head_bytes)
        allowed = http1->head_bytes_max - http1->head_bytes;
    http1->pending = NET_HTTP1_MORE;
    http1->piece = (plim_bytes){NULL, 0};
    size_t used = allowed;
    if (llhttp_execute(&http1->parser, input->data, allowed) != HPE_OK) {
        const char *stop = llhttp_get_error_pos(&http1->parser);
        used = stop >= input->data ? (size_t)(stop - input->data) : 0;
    }
    *input = (plim_bytes){input->data + used, input->len - used};
    return used;
}

static net_http1_event account(net_http1 *http1, size_t used)
{
    if (http1->phase == IN_HEAD) {
        http1->head_bytes += used;
        if (http1->pending == NET_HTTP1_MORE && http1->head_bytes >= http1->head_bytes_max)
            return fault(http1, NET_HTTP1_TOO_LARGE, "header block too large");
        return NET_HTTP1_MORE;
    }
    http1->overhead_bytes += used - http1->piece.len;
    http1->overhead_bytes_max += http1->piece.len * OVERHEAD_PER_BYTE;
    if (http1->overhead_bytes > http1->overhead_bytes_max)
        return fault(http1, NET_HTTP1_BAD, "too much chunk framing");
    return NET_HTTP1_MORE;
}

net_http1_event net_http1_next(net_http1 *http1, plim_bytes *input, plim_bytes *body)
{
    if (http1->phase == AT_FAULT)
        return (net_http1_event)http1->pending;
    if (http1->ended) { /* the head was readable until now */
        http1->ended = http1->head_complete = false;
        http1->path = http1->query = (plim_bytes){NULL, 0};
        net_head_reset(&http1->head);
        http1->head_bytes = http1->protocol_bytes = 0;
        http1->phase = AT_START;
    }
    if (skip_empty_lines(http1, input) != NET_HTTP1_MORE)
        return (net_http1_event)http1->pending;
    if (llhttp_get_errno(&http1->parser) == HPE_PAUSED)
        llhttp_resume(&http1->parser);
    else if (input->len == 0)
        return NET_HTTP1_MORE;

    size_t used = run(http1, input);
    if (account(http1, used) != NET_HTTP1_MORE)
        return (net_http1_event)http1->pending;
    llhttp_errno_t error = llhttp_get_errno(&http1->parser);
    if (error == HPE_USER && http1->pending == NET_HTTP1_NOMEM)
        return fault(http1, NET_HTTP1_NOMEM, "out of memory");
    if (error == HPE_USER)
        return fault(http1, NET_HTTP1_BAD, NULL);
    http1->unknown_method = error == HPE_INVALID_METHOD;
    if (error != HPE_OK && error != HPE_PAUSED)
        return fault(http1, NET_HTTP1_BAD, llhttp_get_error_reason(&http1->parser));
    if (http1->pending == NET_HTTP1_HEAD)
        return check_head(http1);
    if (http1->pending == NET_HTTP1_END)
        http1->ended = true;
    *body = http1->piece;
    return (net_http1_event)http1->pending;
}

bool net_http1_in_message(const net_http1 *http1)
{
    return (http1->phase == IN_HEAD || http1->phase == IN_BODY) && !http1->ended;
}

bool net_http1_is_1_1(const net_http1 *http1)
{
    return http1->parser.http_major == 1 && http1->parser.http_minor == 1;
}

bool net_http1_expects_continue(const net_http1 *http1)
{
    plim_bytes expect;
    return net_http1_is_1_1(http1) && net_head_find(&http1->head, "expect", &expect, NULL) &&
           base_ascii_equal_ignore_case(expect, "100-continue");
}

net_head net_http1_take_head(net_http1 *http1)
{
    net_head head = http1->head;
    net_head_init(&http1->head, head.text.max);
    return head;
}

void net_http1_return_head(net_http1 *http1, net_head *head)
{
    if (http1->head.text.data || http1->head.fields || head->text.capacity > RETURNED_HEAD_MAX) {
        net_head_free(head);
        return;
    }
    http1->head = *head;
    net_head_reset(&http1->head);
    net_head_init(head, http1->head.text.max);
}
