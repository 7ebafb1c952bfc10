/*
 * A guest's host call: any bytes get one of three answers, the same each time. One that is accepted
 * stays accepted with white space around it, and is refused with a second value after it or a
 * bracket around it.
 */
#include "providers/wasm/envelope.h"
#include "providers/wasm/protocol.h"

#include "fuzz.h"

static uint32_t status_of(const char *before, plim_bytes envelope, const char *after)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT((size_t)2 * PLIM_WORKER_ENVELOPE_MAX);
    base_buf_add_text(&text, before);
    base_buf_add(&text, envelope);
    base_buf_add_text(&text, after);
    wasm_reply reply = wasm_answer_without_broker(base_buf_bytes(&text));
    if (reply.body.len == 0 || reply.body.data[reply.body.len - 1] != '\n')
        abort();
    return reply.status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plim_bytes envelope = {(const char *)data, size};
    uint32_t status = status_of("", envelope, "");
    bool long_enough = size > 0 && size + 8 <= PLIM_WORKER_ENVELOPE_MAX;
    if (status != 413 && status != 400 && status != 503)
        abort();
    if ((status == 413) != (size == 0 || size > PLIM_WORKER_ENVELOPE_MAX))
        abort();
    if (status != 503 || !long_enough)
        return 0;
    if (!base_utf8_valid(envelope))
        abort();
    if (status_of(" \t", envelope, "\r\n") != 503 || status_of("", envelope, "{}") != 400 ||
        status_of("[", envelope, "]") != 400 || status_of("", envelope, ",") != 400)
        abort();
    return 0;
}
