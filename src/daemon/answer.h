/* Plain text answers of the daemon itself, outside the procedures. */
#ifndef DAEMON_ANSWER_H
#define DAEMON_ANSWER_H

#include "http/http.h"

/* Answer with a status and a text/plain body, bound to the request as every answer is. */
void daemon_answer_text(http_request *req, int status, const char *body);

#endif
