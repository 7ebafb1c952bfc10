/* Answers of the daemon itself, outside the procedures; each is bound to its request as those of
 * the procedures are. Any thread. */
#ifndef DAEMON_ANSWER_H
#define DAEMON_ANSWER_H

#include "http/http.h"

/* Answer with this content type and body; both are copied. */
void daemon_answer(http_request *req, int status, const char *content_type, plim_bytes body);

/* The same for a line of plain text. */
void daemon_answer_text(http_request *req, int status, const char *body);

/* The http_handler.on_refusal of every listener. */
size_t daemon_bind_refusal(const http_request *req, int status,
                           http_header out[HTTP_REFUSAL_HEADERS_MAX], void *data);

#endif
