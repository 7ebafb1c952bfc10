#include "daemon/answer.h"
void daemon_answer_text(http_request *req, int status, const char *body)
{
    http_respond_text(req, status, body);
}
