/* Answers: what may be sent, copies for another thread's queue, and http_respond. */
#include "http/conn.h"

/* What the server sets itself: a second opinion about where an answer ends is response splitting.
 */
static bool reserved(plim_bytes name)
{
    static const char *const names[] = {"connection", "content-length",    "date",   "keep-alive",
                                        "trailer",    "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        if (base_bytes_is(name, names[i]))
            return true;
    return false;
}

static bool headers_valid(const http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!net_lower_token_valid(headers[i].name) || !net_value_valid(headers[i].value) ||
            reserved(headers[i].name))
            return false;
    return true;
}

bool http_answer_valid(const http_answer *answer)
{
    if (answer->status < 200 || answer->status > 599)
        return false;
    bool bodiless = answer->status == 204 || answer->status == 304;
    return (!bodiless || (answer->body.len == 0 && answer->trailer_count == 0)) &&
           headers_valid(answer->headers, answer->header_count) &&
           headers_valid(answer->trailers, answer->trailer_count);
}

void http_answer_drop_body(const http_answer *answer)
{
    if (answer->body_free)
        answer->body_free(answer->body_data);
}

/* ---- copies ---- */

struct http_reply {
    http_answer answer;
    void (*body_free)(void *body_data); /* the original's */
    void *body_data;
    http_header headers[]; /* headers, trailers; then their bytes */
};

static void reply_free(void *data)
{
    http_reply *reply = data;
    if (reply->body_free)
        reply->body_free(reply->body_data);
    base_free(reply);
}

static bool headers_size(const http_header *headers, size_t count, size_t *total)
{
    bool fits = true;
    for (size_t i = 0; i < count; i++)
        fits = fits && base_size_add(*total, sizeof(http_header), total) &&
               base_size_add(*total, headers[i].name.len, total) &&
               base_size_add(*total, headers[i].value.len, total);
    return fits;
}

static plim_bytes copy_bytes(char **at, plim_bytes bytes)
{
    plim_bytes copy = {*at, bytes.len};
    if (bytes.len)
        memcpy(*at, bytes.data, bytes.len);
    *at += bytes.len;
    return copy;
}

static void copy_headers(http_header *to, const http_header *from, size_t count, char **at)
{
    for (size_t i = 0; i < count; i++) {
        to[i].name = copy_bytes(at, from[i].name);
        to[i].value = copy_bytes(at, from[i].value);
    }
}

http_reply *http_reply_copy(const http_answer *answer)
{
    size_t size = sizeof(http_reply), count = answer->header_count + answer->trailer_count;
    bool fits = headers_size(answer->headers, answer->header_count, &size) &&
                headers_size(answer->trailers, answer->trailer_count, &size) &&
                (answer->body_free || base_size_add(size, answer->body.len, &size));
    http_reply *reply = fits ? base_alloc(1, size) : NULL;
    if (!reply) {
        http_answer_drop_body(answer);
        return NULL;
    }
    char *at = (char *)(reply->headers + count);
    copy_headers(reply->headers, answer->headers, answer->header_count, &at);
    copy_headers(reply->headers + answer->header_count, answer->trailers, answer->trailer_count,
                 &at);
    reply->body_free = answer->body_free;
    reply->body_data = answer->body_data;
    reply->answer = *answer;
    reply->answer.headers = reply->headers;
    reply->answer.trailers = reply->headers + answer->header_count;
    if (!answer->body_free)
        reply->answer.body = copy_bytes(&at, answer->body);
    reply->answer.body_free = reply_free;
    reply->answer.body_data = reply;
    return reply;
}

const http_answer *http_reply_answer(const http_reply *reply)
{
    return &reply->answer;
}

/* ---- responding ---- */

/* On the loop thread, with a valid answer or with none: hand it to the protocol, which frees `req`.
 */
static void take_over(http_request *req, const http_answer *answer)
{
    http_conn *conn = req->conn;
    if (!conn || conn->closing || (req->version == HTTP_VERSION_2 && !req->stream)) {
        if (answer)
            http_answer_drop_body(answer);
        http_request_free(req);
    } else if (answer) {
        conn->proto->answer(conn, req, answer);
    } else {
        http_conn_refuse(conn, req, 500, conn->proto->answer);
    }
}

bool http_respond(http_request *req, const http_answer *answer)
{
    bool valid = http_answer_valid(answer);
    if (!valid)
        http_answer_drop_body(answer);
    if (http_gate_is_current(req->gate, req)) {
        req->gate->current = NULL;
        req->on_body = NULL;
        take_over(req, valid ? answer : NULL);
        return valid;
    }
    req->reply = valid ? http_reply_copy(answer) : NULL;
    valid = req->reply != NULL;
    if (!http_gate_push(req->gate, req)) {
        if (req->reply)
            http_answer_drop_body(http_reply_answer(req->reply));
        http_request_free(req);
    }
    return valid;
}

bool http_respond_text(http_request *req, int status, const char *body)
{
    const http_header type = {PLIM_LIT("content-type"), PLIM_LIT("text/plain; charset=utf-8")};
    return http_respond(req, &(http_answer){.status = status,
                                            .headers = &type,
                                            .header_count = body ? 1 : 0,
                                            .body = plim_bytes_of(body)});
}

void http_requests_answered(http_request *first)
{
    while (first) {
        http_request *req = first;
        http_conn *conn = req->conn;
        first = req->next;
        req->on_body = NULL;
        take_over(req, req->reply ? http_reply_answer(req->reply) : NULL);
        /* Answers that came together for one connection leave together. */
        if (conn && !(first && first->conn == conn && conn->proto == &http_proto_h2))
            http_conn_settle(conn);
    }
}
