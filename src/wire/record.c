/* Records: what they are over, and their message. */
#include "wire/internal.h"

bool wire_record_request(const wire_run_request *in, const core_request *request,
                         record_request *out)
{
    *out = (record_request){
        .protocol = in->protocol,
        .minimum_isolation = in->minimum_isolation,
        .timeout_ms = in->timeout_ms,
        .software = request->options->software,
        .kind = request->kind,
    };
    switch (request->kind) {
    case PLIM_KIND_JAVASCRIPT:
        out->javascript = request->javascript;
        return true;
    case PLIM_KIND_PROJECT:
        out->project = request->project;
        return true;
    case PLIM_KIND_MODULE:
        out->module = request->module;
        return true;
    default:
        return false;
    }
}

/* X(member): the texts of a record, of one name on both sides. */
#define RECORD_TEXTS(X)                                                                            \
    X(request_sha256)                                                                              \
    X(result_sha256)                                                                               \
    X(provider)                                                                                    \
    X(isolation)                                                                                   \
    X(environment)                                                                                 \
    X(policy)                                                                                      \
    X(session)                                                                                     \
    X(previous_sha256)                                                                             \
    X(record_sha256)                                                                               \
    X(software_identity)                                                                           \
    X(software_rule_id)                                                                            \
    X(unanswered)

wire_run_record *wire_write_record(base_arena *arena, const plim_record *record)
{
    wire_run_record *out = wire_make(arena, run_record);
    if (!out)
        return NULL;
#define X(member) out->member = plim_bytes_of(record->member);
    RECORD_TEXTS(X)
#undef X
    out->version = record->version;
    out->started_unix_ms = record->started_unix_ms;
    out->ended_unix_ms = record->ended_unix_ms;
    out->sequence = record->sequence;
    return out;
}

plim_record *wire_read_record(base_arena *arena, const wire_run_record *in)
{
    plim_record *out = base_arena_alloc(arena, 1, sizeof(*out));
    if (!out)
        return NULL;
    *out = RECORD_INIT;
#define X(member)                                                                                  \
    if (!(out->member = base_arena_text(arena, in->member)))                                       \
        return NULL;
    RECORD_TEXTS(X)
#undef X
    out->version = in->version;
    out->started_unix_ms = in->started_unix_ms;
    out->ended_unix_ms = in->ended_unix_ms;
    out->sequence = in->sequence;
    return out;
}
