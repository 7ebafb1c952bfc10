#include "net/net.h"

/* As for requests: what chunked coding may cost beside the data. */
enum { OVERHEAD_PER_BYTE = 16, OVERHEAD_AT_FIRST = 16384 };

enum { STATUS_SWITCHING = 101, STATUS_LEAST = 200 };

static net_response *self(llhttp_t *parser)
{
    return parser->data;
}

static int stop(net_response *response, net_response_event event)
{
    response->pending = (unsigned char)event;
    return HPE_PAUSED;
}

static int add(net_response *response, bool added)
{
    if (!added)
        response->reason = "response head too large";
    return added ? 0 : HPE_USER;
}

static int on_message_begin(llhttp_t *parser)
{
    net_response *response = self(parser);
    net_head_reset(&response->head);
    response->head_bytes = 0;
    response->in_body = false;
    response->field_ended = true;
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length)
{
    net_response *response = self(parser);
    net_head *head = &response->head;
    if (response->in_body) /* a trailer: bounded as overhead, not kept */
        return 0;
    bool begins = response->field_ended;
    response->field_ended = false;
    return add(response, (!begins || net_head_field_begin(head)) &&
                             net_head_field_name(head, (plim_bytes){at, length}));
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
    net_response *response = self(parser);
    if (response->in_body)
        return 0;
    return add(response, net_head_field_value(&response->head, (plim_bytes){at, length}));
}

static int on_header_value_complete(llhttp_t *parser)
{
    net_response *response = self(parser);
    if (!response->in_body) {
        net_head_field_end(&response->head);
        response->field_ended = true;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    return stop(self(parser), NET_RESPONSE_HEAD);
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    net_response *response = self(parser);
    if (length == 0)
        return 0;
    response->piece = (plim_bytes){at, length};
    return stop(response, NET_RESPONSE_BODY);
}

static int on_message_complete(llhttp_t *parser)
{
    return stop(self(parser), NET_RESPONSE_END);
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void net_response_init(net_response *response, size_t head_bytes_max)
{
    *response = (net_response){.head_bytes_max = head_bytes_max, .field_ended = true};
    net_head_init(&response->head, head_bytes_max);
    llhttp_init(&response->parser, HTTP_RESPONSE, &settings);
    response->parser.data = response;
}

void net_response_free(net_response *response)
{
    net_head_free(&response->head);
}

static net_response_event fault(net_response *response, const char *reason)
{
    response->is_over = true;
    response->pending = NET_RESPONSE_BAD;
    if (!response->reason)
        response->reason = reason;
    return NET_RESPONSE_BAD;
}

/* Exactly one meaning of the length, and llhttp must share it. */
static const char *check_framing(const net_response *response)
{
    plim_bytes length, coding;
    size_t lengths, codings;
    int64_t number = 0;
    net_head_find(&response->head, "content-length", &length, &lengths);
    net_head_find(&response->head, "transfer-encoding", &coding, &codings);
    if (lengths > 1 || codings > 1)
        return "repeated message length";
    if (lengths && codings)
        return "both Content-Length and Transfer-Encoding";
    if (lengths && !net_length_parse(length, &number))
        return "Content-Length is not a decimal number";
    if (codings && !base_ascii_equal_ignore_case(coding, "chunked"))
        return "Transfer-Encoding is not chunked alone";
    return NULL;
}

static net_response_event check_head(net_response *response)
{
    llhttp_t *parser = &response->parser;
    response->status = parser->status_code;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return fault(response, "unsupported HTTP version");
    if (response->status == STATUS_SWITCHING) {
        response->is_over = true;
        response->pending = NET_RESPONSE_UPGRADED;
        return NET_RESPONSE_UPGRADED;
    }
    if (response->status < STATUS_LEAST)
        return fault(response, "an interim response that was not asked for");
    const char *reason = check_framing(response);
    if (reason)
        return fault(response, reason);
    parser->upgrade = 0; /* without 101 an Upgrade field changes nothing */
    response->keep_alive = llhttp_should_keep_alive(parser);
    response->in_body = true;
    response->overhead_bytes = 0;
    response->overhead_bytes_max = OVERHEAD_AT_FIRST;
    return NET_RESPONSE_HEAD;
}

static size_t run(net_response *response, plim_bytes *input)
{
    size_t allowed = input->len;
    if (!response->in_body && allowed > response->head_bytes_max - response->head_bytes)
        allowed = response->head_bytes_max - response->head_bytes;
    response->pending = NET_RESPONSE_MORE;
    response->piece = (plim_bytes){NULL, 0};
    size_t used = allowed;
    if (llhttp_execute(&response->parser, input->data, allowed) != HPE_OK) {
        const char *at = llhttp_get_error_pos(&response->parser);
        used = at >= input->data ? (size_t)(at - input->data) : 0;
    }
    *input = (plim_bytes){input->data + used, input->len - used};
    return used;
}

/* Is what came beside the data within its bound? */
static bool account(net_response *response, size_t used)
{
    if (!response->in_body) {
        response->head_bytes += used;
        return response->pending != NET_RESPONSE_MORE ||
               response->head_bytes < response->head_bytes_max;
    }
    response->overhead_bytes += used - response->piece.len;
    response->overhead_bytes_max += response->piece.len * OVERHEAD_PER_BYTE;
    return response->overhead_bytes <= response->overhead_bytes_max;
}

net_response_event net_response_next(net_response *response, plim_bytes *input, plim_bytes *body)
{
    *body = (plim_bytes){NULL, 0};
    if (response->is_over)
        return (net_response_event)response->pending;
    if (llhttp_get_errno(&response->parser) == HPE_PAUSED)
        llhttp_resume(&response->parser);
    /* Resuming may have something to report before the next byte. */
    size_t used = run(response, input);
    llhttp_errno_t error = llhttp_get_errno(&response->parser);
    if (error != HPE_OK && error != HPE_PAUSED)
        return fault(response, llhttp_get_error_reason(&response->parser));
    if (!account(response, used))
        return fault(response, "response head or framing too large");
    if (response->pending == NET_RESPONSE_HEAD)
        return check_head(response);
    if (response->pending == NET_RESPONSE_END)
        response->in_body = false;
    *body = response->piece;
    return (net_response_event)response->pending;
}

net_response_event net_response_closed(net_response *response)
{
    if (response->is_over)
        return (net_response_event)response->pending;
    response->pending = NET_RESPONSE_MORE;
    if (llhttp_get_errno(&response->parser) == HPE_PAUSED)
        llhttp_resume(&response->parser);
    llhttp_errno_t error = llhttp_finish(&response->parser);
    bool ended = response->pending == NET_RESPONSE_END;
    if (ended && (error == HPE_OK || error == HPE_PAUSED)) {
        response->is_over = true;
        return NET_RESPONSE_END;
    }
    return fault(response, "the peer closed in the middle of a response");
}
