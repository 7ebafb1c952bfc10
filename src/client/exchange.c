/*
 * Exchanges as bytes: the digests and checks of binary messages, without a network. A stored
 * request may be one that no daemon would serve, so it is described as it stands and not validated
 * first.
 */
#include "client/exchange.h"

enum { EXCHANGE_BYTES_MAX = 160 * 1024 * 1024 };

static bool describe_javascript(base_arena *arena, const wire_java_script_run *in,
                                record_request *out)
{
    plim_javascript_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    if (!made)
        return false;
    made->code = in->code;
    made->grant_profile = in->grant_profile;
    out->kind = PLIM_KIND_JAVASCRIPT;
    out->javascript = made;
    return true;
}

static bool describe_project(base_arena *arena, const wire_project_run *in, record_request *out)
{
    plim_project_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    const plim_file *files = wire_read_files(arena, in->files, in->n_files);
    if (!made || !files)
        return false;
    *made = (plim_project_request){.files = files,
                                   .file_count = in->n_files,
                                   .steps = in->steps,
                                   .step_count = in->n_steps,
                                   .artifacts = in->artifacts,
                                   .artifact_count = in->n_artifacts,
                                   .grant_profile = in->grant_profile};
    out->kind = PLIM_KIND_PROJECT;
    out->project = made;
    return true;
}

static bool describe_cell(base_arena *arena, const wire_cell_run *in, record_request *out)
{
    record_cell *made = base_arena_alloc(arena, 1, sizeof(*made));
    const plim_file *files = wire_read_files(arena, in->files, in->n_files);
    if (!made || !files)
        return false;
    *made = (record_cell){in->language, in->code, files, in->n_files};
    out->kind = PLIM_KIND_CELL;
    out->cell = made;
    return true;
}

static bool describe_module(base_arena *arena, const wire_module_run *in, record_request *out,
                            plim_error *err)
{
    size_t width = 0;
    const double *values = wire_read_rows(arena, in, &width, err);
    if (!values)
        return false;
    plim_module_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    if (!made)
        return plim_refuse_nomem(err);
    *made = (plim_module_request){.model = in->model,
                                  .values = values,
                                  .rows = in->n_rows,
                                  .width = width,
                                  .end_time = in->end_time,
                                  .step = in->step};
    out->kind = PLIM_KIND_MODULE;
    out->module = made;
    return true;
}

/* A mode without a name is outside the enum: record_check then says that the rule is malformed. */
static plim_software_rule rule_of(const wire_software_rule *in)
{
    if (!in)
        return (plim_software_rule){PLIM_RULE_NONE, NULL, 0};
    plim_rule_mode mode = base_bytes_is(in->mode, "exact")      ? PLIM_RULE_EXACT
                          : base_bytes_is(in->mode, "approved") ? PLIM_RULE_APPROVED
                          : in->mode.len == 0                   ? PLIM_RULE_NONE
                                                                : (plim_rule_mode)-1;
    return (plim_software_rule){mode, in->identities, in->n_identities};
}

bool client_describe_request(base_arena *arena, plim_bytes bytes, record_request *out,
                             plim_error *err)
{
    const wire_run_request *in = wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request), bytes, err);
    if (!in)
        return false;
    *out = (record_request){.protocol = in->protocol,
                            .minimum_isolation = in->minimum_isolation,
                            .timeout_ms = in->timeout_ms,
                            .software = rule_of(in->software_rule)};
    bool made = true;
    switch (in->payload_case) {
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT:
        made = describe_javascript(arena, in->javascript, out);
        break;
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_PROJECT:
        made = describe_project(arena, in->project, out);
        break;
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE:
        return describe_module(arena, in->module, out, err);
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_CELL:
        made = describe_cell(arena, in->cell, out);
        break;
    default:
        break;
    }
    return made || plim_refuse_nomem(err);
}

/* The result of an answer and the message it came in; NULL with an error. */
static plim_result *read_response(base_arena *arena, plim_bytes bytes,
                                  const wire_run_response **message, plim_error *err)
{
    *message = wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_response), bytes, err);
    if (!*message)
        return NULL;
    plim_result *result = wire_read_result(*message);
    if (!result)
        plim_refuse_nomem(err);
    return result;
}

plim_status plim_request_digest(plim_bytes request, char out[PLIM_DIGEST_HEX_SIZE])
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(EXCHANGE_BYTES_MAX);
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    record_request facts;
    out[0] = '\0';
    if (!arena)
        return PLIM_E_NOMEM;
    if (!client_describe_request(arena, request, &facts, &err))
        return plim_error_status(&err);
    return record_request_digest(&facts, out) ? PLIM_OK : PLIM_E_NOMEM;
}

plim_status plim_result_digest(plim_bytes response, char out[PLIM_DIGEST_HEX_SIZE])
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(EXCHANGE_BYTES_MAX);
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    const wire_run_response *message;
    out[0] = '\0';
    if (!arena)
        return PLIM_E_NOMEM;
    _cleanup_(core_result_freep)
    plim_result *result = read_response(arena, response, &message, &err);
    if (!result)
        return plim_error_status(&err);
    return record_result_digest(result, out) ? PLIM_OK : PLIM_E_NOMEM;
}

/* A record of its own, for the caller to keep. */
static bool hand_over(const plim_record *record, plim_record **out, plim_error *err)
{
    base_arena *arena = base_arena_new(EXCHANGE_BYTES_MAX);
    plim_record *copy = arena ? record_dup(arena, record) : NULL;
    if (!copy) {
        base_arena_free(arena);
        return plim_refuse_nomem(err);
    }
    copy->arena = arena;
    *out = copy;
    return true;
}

static bool check_exchange(plim_bytes request, plim_bytes response, plim_record **out,
                           plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(EXCHANGE_BYTES_MAX);
    record_request facts;
    const wire_run_response *message;
    char sha256[BASE_SHA256_HEX + 1];
    if (!arena)
        return plim_refuse_nomem(err);
    if (!client_describe_request(arena, request, &facts, err))
        return false;
    _cleanup_(core_result_freep)
    plim_result *result = read_response(arena, response, &message, err);
    if (!result)
        return false;
    if (result->kind != facts.kind || !result->kind)
        return plim_fail(err, PLIM_E_RESULT_KIND, PLIM_CODE_DATA_LOSS,
                         "the answer holds no result of the request's kind");
    plim_record *record = message->record ? wire_read_record(arena, message->record) : NULL;
    if ((message->record && !record) || !record_request_digest(&facts, sha256))
        return plim_refuse_nomem(err);
    return record_check(&facts, sha256, result, record, NULL, err) && hand_over(record, out, err);
}

/* The place in a chain is not for this check, but there must be one. */
static bool check_unanswered(plim_bytes request, plim_bytes bytes, plim_record **out,
                             plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(EXCHANGE_BYTES_MAX);
    record_request facts;
    char sha256[BASE_SHA256_HEX + 1];
    if (!arena)
        return plim_refuse_nomem(err);
    if (!client_describe_request(arena, request, &facts, err))
        return false;
    const wire_run_record *message =
        wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_record), bytes, err);
    if (!message)
        return false;
    const plim_record *record = wire_read_record(arena, message);
    if (!record || !record_request_digest(&facts, sha256))
        return plim_refuse_nomem(err);
    record_chain own = {record->session, record->sequence - 1, record->previous_sha256};
    if (!record_check_unanswered(&facts, sha256, record, &own, err))
        return false;
    if (!record->session[0] || record->sequence == 0)
        return plim_fail(err, PLIM_E_CHAIN, PLIM_CODE_DATA_LOSS,
                         "the record of an unanswered call names no call of a session");
    return hand_over(record, out, err);
}

/* Whatever failed here, the exchange has been: no mark of a decoder or an allocation counts. */
static plim_status unmarked(bool good, plim_error *local, plim_error *err)
{
    plim_status status = good ? PLIM_OK : plim_error_status(local);
    if (good)
        plim_error_clear(err);
    else
        plim_fail(err, status, (plim_code)local->code, "%s", plim_error_message(local));
    plim_error_clear(local);
    return status;
}

plim_status plim_check_exchange(plim_bytes request, plim_bytes response, plim_record **out,
                                plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    *out = NULL;
    return unmarked(check_exchange(request, response, out, &local), &local, err);
}

plim_status plim_check_unanswered(plim_bytes request, plim_bytes record, plim_record **out,
                                  plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    *out = NULL;
    return unmarked(check_unanswered(request, record, out, &local), &local, err);
}
