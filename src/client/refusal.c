#include "client/refusal.h"

#include <jansson.h>

enum { DETAILS_BYTES_MAX = 1 << 20 };

/* A daemon's errors stay far below. What is larger is not read: a tree of 32 MiB of the smallest
 * JSON would take gigabytes. */
enum { READ_BYTES_MAX = 1 << 20 };

/* What the details of an answer state, the first of each kind. */
typedef struct claims {
    base_arena *arena;
    bool dispatch_stated, end_stated,
        record_stated; /* a detail of the kind was met, sound or not */
    plim_not_dispatched mark;
    plim_session_end end;
    plim_bytes end_detail;
    plim_record *record;
} claims;

static plim_code code_of_status(int status)
{
    switch (status) {
    case 400:
        return PLIM_CODE_INTERNAL;
    case 401:
        return PLIM_CODE_UNAUTHENTICATED;
    case 403:
        return PLIM_CODE_PERMISSION_DENIED;
    case 404:
        return PLIM_CODE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return PLIM_CODE_UNAVAILABLE;
    default:
        return PLIM_CODE_UNKNOWN;
    }
}

/* ---- details ---- */

static plim_bytes text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return (plim_bytes){json_string_value(value), json_string_length(value)};
}

/* The message of a detail, decoded into the arena; NULL when it is not one. */
static void *decode(claims *into, const json_t *detail, const wire_type *type)
{
    plim_bytes text = text_of(detail, "value");
    size_t length = 0;
    char *bytes = base_arena_alloc(into->arena, text.len / 4 * 3 + 3, 1);
    if (!bytes || !json_is_string(json_object_get(detail, "value")) ||
        !wire_base64_decode(text, bytes, &length))
        return NULL;
    return wire_decode(into->arena, WIRE_PROTO, type, (plim_bytes){bytes, length}, NULL);
}

static void read_not_dispatched(claims *into, const json_t *detail)
{
    const wire_not_dispatched *message = decode(into, detail, WIRE_TYPE(not_dispatched));
    if (!message)
        return;
    int number = (int)message->reason;
    into->mark = number >= PLIM_ND_REQUEST && number <= PLIM_ND_ENVIRONMENT
                     ? (plim_not_dispatched)number
                     : PLIM_ND_UNKNOWN;
}

static void read_session_ended(claims *into, const json_t *detail)
{
    const wire_session_ended *message = decode(into, detail, WIRE_TYPE(session_ended));
    if (!message)
        return;
    into->end = client_session_end((int)message->reason);
    into->end_detail = message->detail;
}

static void read_unanswered(claims *into, const json_t *detail)
{
    const wire_unanswered_call *message = decode(into, detail, WIRE_TYPE(unanswered_call));
    if (message && message->record)
        into->record = wire_read_record(into->arena, message->record);
}

static void read_detail(claims *into, const json_t *detail)
{
    static const struct {
        const char *type;
        size_t stated;
        void (*read)(claims *, const json_t *);
    } kinds[] = {
        {"plimsoll.v1.NotDispatched", offsetof(claims, dispatch_stated), read_not_dispatched},
        {"plimsoll.v1.SessionEnded", offsetof(claims, end_stated), read_session_ended},
        {"plimsoll.v1.UnansweredCall", offsetof(claims, record_stated), read_unanswered},
    };
    plim_bytes type = text_of(detail, "type");
    const char *slash = type.len ? memrchr(type.data, '/', type.len) : NULL;
    if (slash)
        type = (plim_bytes){slash + 1, type.len - (size_t)(slash + 1 - type.data)};
    for (size_t i = 0; i < PLIM_COUNT(kinds); i++) {
        bool *stated = (bool *)((char *)into + kinds[i].stated);
        if (!base_bytes_is(type, kinds[i].type) || *stated)
            continue;
        *stated = true;
        kinds[i].read(into, detail);
    }
}

/* A proxy's or an early refusal's word, in a header, for answers that have no details. */
static plim_not_dispatched mark_of_header(const client_answer *answer)
{
    plim_bytes name;
    if (client_answer_header(answer, "plimsoll-not-dispatched", &name))
        for (int reason = PLIM_ND_REQUEST; reason <= PLIM_ND_ENVIRONMENT; reason++)
            if (base_bytes_is(name, plim_not_dispatched_name((plim_not_dispatched)reason)))
                return (plim_not_dispatched)reason;
    return PLIM_ND_NONE;
}

/* ---- class ---- */

static plim_status class_of_precondition(plim_not_dispatched mark)
{
    switch (mark) {
    case PLIM_ND_ISOLATION:
        return PLIM_E_INSUFFICIENT_ISOLATION;
    case PLIM_ND_ENVIRONMENT:
        return PLIM_E_SOFTWARE_MISMATCH;
    default:
        return PLIM_E_DISABLED;
    }
}

static plim_status class_of(plim_code code, plim_not_dispatched mark, bool session_ended)
{
    switch (code) {
    case PLIM_CODE_FAILED_PRECONDITION:
        return session_ended ? PLIM_E_SESSION_ENDED : class_of_precondition(mark);
    case PLIM_CODE_UNIMPLEMENTED:
        return mark == PLIM_ND_PROTOCOL ? PLIM_E_PROTOCOL_MISMATCH : PLIM_E_UNSUPPORTED;
    case PLIM_CODE_RESOURCE_EXHAUSTED:
        return PLIM_E_AT_CAPACITY;
    case PLIM_CODE_INVALID_ARGUMENT:
        return PLIM_E_INVALID_REQUEST;
    case PLIM_CODE_CANCELED:
    case PLIM_CODE_DEADLINE_EXCEEDED:
        return PLIM_E_REMOTE;
    default:
        return session_ended ? PLIM_E_SESSION_ENDED : PLIM_E_REMOTE;
    }
}

/* ---- message ---- */

/* Room for a little more than an error keeps, so that the error cuts it, at a character. */
enum { MESSAGE_ROOM = PLIM_ERROR_MESSAGE_MAX + 8 };

/* The daemon's words, fit to be printed: no control characters, and no secret of ours. */
static void clean_message(plim_bytes text, plim_bytes secret, char out[MESSAGE_ROOM])
{
    size_t length = 0;
    while (text.len && length < PLIM_ERROR_MESSAGE_MAX) {
        if (secret.len && text.len >= secret.len &&
            memcmp(text.data, secret.data, secret.len) == 0) {
            memcpy(out + length, "***", 3);
            length += 3;
            text = (plim_bytes){text.data + secret.len, text.len - secret.len};
            continue;
        }
        unsigned char c = (unsigned char)*text.data;
        out[length] = *text.data;
        if (c < 0x20 || c == 0x7F)
            out[length] = ' ';
        length++;
        text = (plim_bytes){text.data + 1, text.len - 1};
    }
    out[length] = '\0';
}

/* ---- the whole ---- */

/* Keep what the claims add; too little memory loses details, never a mark's absence. */
static void attach(plim_error *err, const claims *stated, bool bound, plim_bytes secret)
{
    if (bound && !stated->end && !stated->record)
        return;
    client_details *details = client_details_of(err);
    if (!details)
        return;
    details->answer_not_bound = !bound;
    details->session_end = stated->end;
    char detail[MESSAGE_ROOM];
    clean_message(stated->end_detail, secret, detail);
    details->session_end_detail = detail[0] ? base_strdup(detail) : NULL;
    base_arena *arena = stated->record ? base_arena_new(DETAILS_BYTES_MAX) : NULL;
    details->unanswered = arena ? record_dup(arena, stated->record) : NULL;
    if (details->unanswered)
        details->unanswered->arena = arena;
    else
        base_arena_free(arena);
}

static void read_details(claims *into, const json_t *body)
{
    const json_t *details = json_object_get(body, "details");
    for (size_t i = 0; into->arena && i < json_array_size(details); i++)
        read_detail(into, json_array_get(details, i));
}

bool client_read_refusal(const client_answer *answer, bool bound, plim_bytes secret,
                         plim_error *err)
{
    /* One mark too many is a defect, one too few is not: of details that cannot be read, none
     * counts. */
    bool readable = answer->body.len <= READ_BYTES_MAX;
    _cleanup_(base_arena_freep)
    base_arena *arena = readable ? base_arena_new(DETAILS_BYTES_MAX) : NULL;
    claims stated = {.arena = arena};
    json_t *body = readable ? json_loadb(answer->body.len ? answer->body.data : "",
                                         answer->body.len, JSON_REJECT_DUPLICATES, NULL)
                            : NULL;
    if (bound)
        read_details(&stated, body);
    if (bound && arena && !stated.dispatch_stated)
        stated.mark = mark_of_header(answer);
    if (stated.mark)
        stated.record = NULL;
    plim_code code = plim_code_from_name(text_of(body, "code"));
    if (code == PLIM_CODE_OK)
        code = code_of_status(answer->status);
    char message[MESSAGE_ROOM];
    clean_message(text_of(body, "message"), secret, message);
    if (!message[0])
        snprintf(message, sizeof(message), "HTTP %d and no message; is a daemon at this address?",
                 answer->status);
    json_decref(body);

    plim_status status = class_of(code, stated.mark, stated.end != PLIM_SESSION_OPEN);
    if (stated.mark)
        plim_refuse(err, status, code, stated.mark, "%s", message);
    else
        plim_fail(err, status, code, "%s", message);
    if (err)
        err->http_status = answer->status;
    attach(err, &stated, bound, secret);
    return false;
}
