#include "daemon/audit.h"

#include <assert.h>
#include <math.h>

static void add(daemon_audit_line *line, base_log_field field)
{
    assert(line->count < DAEMON_AUDIT_FIELDS_MAX);
    line->fields[line->count++] = field;
}

static void add_int(daemon_audit_line *line, const char *key, int64_t value)
{
    add(line, LOG_INT(key, value));
}

/* ---- what was asked ---- */

static void add_javascript(daemon_audit_line *line, const core_request *request)
{
    add_int(line, "code_bytes", (int64_t)request->javascript->code.len);
    add(line, LOG_TEXT("grant_profile", request->javascript->grant_profile));
}

static void add_project(daemon_audit_line *line, const core_request *request)
{
    const plim_project_request *project = request->project;
    size_t total = 0;
    for (size_t i = 0; i < project->file_count; i++)
        total += project->files[i].content.len;
    add_int(line, "files", (int64_t)project->file_count);
    add_int(line, "steps", (int64_t)project->step_count);
    add_int(line, "total_bytes", (int64_t)total);
    add(line, LOG_TEXT("grant_profile", project->grant_profile));
}

/* A validated request: both times are finite and their ratio is bounded. */
static void add_module(daemon_audit_line *line, const core_request *request)
{
    const plim_module_request *module = request->module;
    add(line, LOG_TEXT("model", module->model));
    add_int(line, "rows", (int64_t)module->rows);
    add_int(line, "row_width", (int64_t)module->width);
    add_int(line, "max_steps", (int64_t)floor(module->end_time / module->step) + 2);
}

static void add_request(daemon_audit_line *line, const core_request *request)
{
    if (request->kind == PLIM_KIND_JAVASCRIPT)
        add_javascript(line, request);
    else if (request->kind == PLIM_KIND_PROJECT)
        add_project(line, request);
    else if (request->kind == PLIM_KIND_MODULE)
        add_module(line, request);
}

/* ---- how it ended ---- */

/* What follows the first ": " of a detail can quote a path or a worker's text. */
static plim_bytes public_part(plim_bytes detail)
{
    for (size_t i = 0; i + 1 < detail.len; i++)
        if (detail.data[i] == ':' && detail.data[i + 1] == ' ')
            return (plim_bytes){detail.data, i};
    return detail;
}

static void add_outcome(daemon_audit_line *line, const plim_result *result)
{
    add(line, LOG_STR("outcome", plim_outcome_name(result->outcome)));
    add(line, LOG_TEXT("outcome_detail", public_part(result->outcome_detail)));
}

static void add_exit(daemon_audit_line *line, int32_t exit_code, bool timed_out)
{
    add_int(line, "exit_code", exit_code);
    add(line, LOG_BOOL("timed_out", timed_out));
}

static void add_project_result(daemon_audit_line *line, const plim_result *result)
{
    const core_step_result none = {.exit_code = 0};
    const core_step_result *last =
        result->step_count ? &result->steps[result->step_count - 1] : &none;
    add_outcome(line, result);
    add_int(line, "steps_ran", (int64_t)result->step_count);
    add_exit(line, last->exit_code, last->timed_out);
}

static void add_result(daemon_audit_line *line, const plim_result *result)
{
    if (result->kind == PLIM_KIND_PROJECT) {
        add_project_result(line, result);
    } else if (result->kind == PLIM_KIND_MODULE) {
        add_outcome(line, result);
        add_int(line, "runs", (int64_t)result->row_count);
        add_int(line, "width", result->width);
    } else {
        add_exit(line, result->exit_code, result->timed_out);
    }
    add_int(line, "duration_ms", result->duration_ms);
}

static void add_trace(daemon_audit_line *line, const rpc_dispatched *call)
{
    if (call->trace_id_rejected)
        add(line, LOG_BOOL("trace_id_rejected", true));
    else if (call->trace_id.len)
        add(line, LOG_TEXT("trace_id", call->trace_id));
}

static const char *message_of(plim_kind kind, bool failed)
{
    if (kind == PLIM_KIND_PROJECT)
        return failed ? "project run failed" : "project run";
    if (kind == PLIM_KIND_MODULE)
        return failed ? "module run failed" : "module run";
    return failed ? "code run failed" : "code run";
}

void daemon_audit_build(const rpc_dispatched *call, daemon_audit_line *out)
{
    out->level = call->result ? BASE_LOG_INFO : BASE_LOG_ERROR;
    out->message = message_of(call->request->kind, !call->result);
    out->count = 0;
    add(out, LOG_STR("op", plim_kind_name(call->request->kind)));
    add(out, LOG_TEXT("caller", call->caller));
    add_request(out, call->request);
    add(out, LOG_STR("sandbox", call->sandbox));
    add(out, LOG_STR("isolation", call->isolation));
    if (call->result) {
        add_result(out, call->result);
    } else {
        add_int(out, "duration_ms", call->duration_ms);
        add(out, LOG_STR("error", plim_error_message(call->error)));
    }
    add_trace(out, call);
}
