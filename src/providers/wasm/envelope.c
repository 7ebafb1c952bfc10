#include "providers/wasm/envelope.h"

#include "providers/wasm/protocol.h"

#include <jansson.h>

/* One object with string members method and path, perhaps body, and nothing else; no duplicate,
 * nothing after it. */
static bool well_formed(plim_bytes envelope)
{
    /* Integers as reals: a number too large for 64 bits is still a JSON value. */
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    json_t *object = json_loadb(envelope.data, envelope.len, flags, NULL);
    size_t known = 2 + (json_object_get(object, "body") != NULL);
    bool good = json_is_object(object) && json_is_string(json_object_get(object, "method")) &&
                json_is_string(json_object_get(object, "path")) &&
                json_object_size(object) == known;
    json_decref(object);
    return good;
}

wasm_reply wasm_answer_without_broker(plim_bytes envelope)
{
    if (envelope.len == 0 || envelope.len > PLIM_WORKER_ENVELOPE_MAX)
        return (wasm_reply){413, PLIM_LIT("host api request envelope too large\n")};
    if (!well_formed(envelope))
        return (wasm_reply){400, PLIM_LIT("invalid host api request envelope\n")};
    return (wasm_reply){503, PLIM_LIT("host api broker unavailable\n")};
}
