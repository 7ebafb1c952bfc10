/* A guest's host call as text: what may be forwarded to a broker. Pure; every byte is hostile. */
#ifndef PROVIDERS_WASM_ENVELOPE_H
#define PROVIDERS_WASM_ENVELOPE_H

#include "base/base.h"

/* The answer to a host call: a status of 100-599 and a body (static text, ending in a newline). */
typedef struct wasm_reply {
    uint32_t status;
    plim_bytes body;
} wasm_reply;

/*
 * The answer to a host call of a run without a grant: 413 for an envelope of a wrong length, 400
 * for one that is not exactly {"method": string, "path": string, "body"?: any}, else 503: there is
 * no broker to ask.
 */
wasm_reply wasm_answer_without_broker(plim_bytes envelope);

#endif
