#include "client/answer.h"

static client_answer *self(llhttp_t *parser)
{
    return parser->data;
}

static int stop(client_answer *answer, client_answer_state state)
{
    answer->state = state;
    return HPE_USER;
}

/* Heads are bounded all together, so that interim answers and trailers cannot go on for ever. */
static int count_head(client_answer *answer, size_t length)
{
    answer->head_bytes += length;
    return answer->head_bytes > CLIENT_HEAD_BYTES_MAX ? stop(answer, CLIENT_ANSWER_BAD) : 0;
}

static int add_to_head(client_answer *answer, bool added)
{
    return added ? 0 : stop(answer, CLIENT_ANSWER_NOMEM);
}

/* Once there is a status, a field is a trailer: bounded, and no part of what an answer states. */
static int on_header_field(llhttp_t *parser, const char *at, size_t length)
{
    client_answer *answer = self(parser);
    if (count_head(answer, length))
        return HPE_USER;
    if (answer->status)
        return 0;
    bool begins = answer->field_ended;
    answer->field_ended = false;
    return add_to_head(answer, (!begins || net_head_field_begin(&answer->head)) &&
                                   net_head_field_name(&answer->head, (plim_bytes){at, length}));
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
    client_answer *answer = self(parser);
    if (count_head(answer, length))
        return HPE_USER;
    return answer->status
               ? 0
               : add_to_head(answer, net_head_field_value(&answer->head, (plim_bytes){at, length}));
}

static int on_header_value_complete(llhttp_t *parser)
{
    client_answer *answer = self(parser);
    if (!answer->status) {
        net_head_field_end(&answer->head);
        answer->field_ended = true;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    client_answer *answer = self(parser);
    parser->upgrade = 0;
    if (parser->http_major != 1 || parser->status_code < 100 || parser->status_code == 101)
        return stop(answer, CLIENT_ANSWER_BAD);
    if (parser->status_code < 200) {
        net_head_reset(&answer->head);
        answer->field_ended = true;
        return count_head(answer, 16); /* a bare interim answer costs something too */
    }
    answer->status = parser->status_code;
    if (answer->status >= 300 && answer->status < 400)
        return stop(answer, CLIENT_ANSWER_COMPLETE);
    if ((parser->flags & F_CONTENT_LENGTH) && parser->content_length > CLIENT_BODY_BYTES_MAX)
        return stop(answer, CLIENT_ANSWER_TOO_LARGE);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    client_answer *answer = self(parser);
    if (length > CLIENT_BODY_BYTES_MAX - answer->body.len)
        return stop(answer, CLIENT_ANSWER_TOO_LARGE);
    return base_buf_add(&answer->body, (plim_bytes){at, length})
               ? 0
               : stop(answer, CLIENT_ANSWER_NOMEM);
}

/* Chunk sizes and extensions are cheap to send without end: charge them to the heads. */
static int on_chunk_extension(llhttp_t *parser, const char *at, size_t length)
{
    (void)at;
    return count_head(self(parser), length);
}

static int on_message_complete(llhttp_t *parser)
{
    client_answer *answer = self(parser);
    if (!answer->status)
        return 0;
    answer->keep_alive = llhttp_should_keep_alive(parser);
    answer->state = CLIENT_ANSWER_COMPLETE;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_extension_name = on_chunk_extension,
    .on_chunk_extension_value = on_chunk_extension,
    .on_message_complete = on_message_complete,
};

void client_answer_init(client_answer *answer)
{
    *answer = (client_answer){.field_ended = true, .body = BASE_BUF_INIT(CLIENT_BODY_BYTES_MAX)};
    net_head_init(&answer->head, CLIENT_HEAD_BYTES_MAX);
    llhttp_init(&answer->parser, HTTP_RESPONSE, &settings);
    answer->parser.data = answer;
}

void client_answer_free(client_answer *answer)
{
    net_head_free(&answer->head);
    base_buf_free(&answer->body);
}

client_answer_state client_answer_feed(client_answer *answer, plim_bytes in)
{
    if (answer->state != CLIENT_ANSWER_MORE || in.len == 0)
        return answer->state;
    llhttp_errno_t error = llhttp_execute(&answer->parser, in.data, in.len);
    if (error != HPE_OK && answer->state == CLIENT_ANSWER_MORE)
        answer->state = CLIENT_ANSWER_BAD;
    /* Bytes after the message belong to nobody: the connection is not used again. */
    if (error == HPE_PAUSED && llhttp_get_error_pos(&answer->parser) != in.data + in.len)
        answer->keep_alive = false;
    return answer->state;
}

client_answer_state client_answer_end(client_answer *answer)
{
    if (answer->state != CLIENT_ANSWER_MORE)
        return answer->state;
    llhttp_errno_t error = llhttp_finish(&answer->parser);
    if (answer->state == CLIENT_ANSWER_MORE)
        answer->state = CLIENT_ANSWER_CUT;
    (void)error; /* HPE_PAUSED when the end of input ended the message; then the state says so */
    answer->keep_alive = false;
    return answer->state;
}

bool client_answer_header(const client_answer *answer, const char *name, plim_bytes *value)
{
    size_t count;
    return net_head_find(&answer->head, name, value, &count) && count == 1;
}
