#include "core/core.h"

const char *plim_kind_name(plim_kind kind)
{
    static const char *const names[] = {"", "javascript", "project", "module", "cell"};
    return (size_t)kind < PLIM_COUNT(names) ? names[kind] : "";
}

const char *plim_outcome_name(plim_outcome outcome)
{
    static const char *const names[] = {"unspecified", "completed", "setup_failed", "timed_out",
                                        "protocol_error"};
    return (size_t)outcome < PLIM_COUNT(names) ? names[outcome] : "unspecified";
}

bool core_read_sized(void *to, size_t size, const void *from, plim_error *err)
{
    size_t stated = from ? *(const size_t *)from : 0;
    if (from && (stated < sizeof(size_t) || stated > size))
        return plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                           "a struct states a size of %zu bytes; this library knows %zu", stated,
                           size);
    if (from)
        memcpy(to, from, stated);
    *(size_t *)to = size;
    return true;
}

plim_bytes core_request_grant_profile(const core_request *request)
{
    switch (request->kind) {
    case PLIM_KIND_JAVASCRIPT:
        return request->javascript->grant_profile;
    case PLIM_KIND_PROJECT:
        return request->project->grant_profile;
    default:
        return (plim_bytes){NULL, 0};
    }
}

plim_result *core_result_new(plim_kind kind)
{
    base_arena *arena = base_arena_new(CORE_RESULT_BYTES_MAX);
    if (!arena)
        return NULL;
    plim_result *result = base_arena_alloc(arena, 1, sizeof(*result));
    if (!result) {
        base_arena_free(arena);
        return NULL;
    }
    result->arena = arena;
    result->kind = kind;
    result->provider = result->isolation = result->environment = result->software_identity = "";
    result->policy = result->limit_reached = "";
    return result;
}

void plim_result_free(plim_result *result)
{
    if (result)
        base_arena_free(result->arena);
}

plim_kind plim_result_kind(const plim_result *result)
{
    return result->kind;
}

const char *plim_result_provider(const plim_result *result)
{
    return result->provider;
}

plim_tier plim_result_tier(const plim_result *result)
{
    return result->tier;
}

const char *plim_result_isolation(const plim_result *result)
{
    return result->isolation;
}

const char *plim_result_environment(const plim_result *result)
{
    return result->environment;
}

const char *plim_result_software_identity(const plim_result *result)
{
    return result->software_identity;
}

int64_t plim_result_duration_ms(const plim_result *result)
{
    return result->duration_ms;
}

int64_t plim_result_duration_ns(const plim_result *result)
{
    return result->duration_ns;
}

plim_bytes plim_result_stdout(const plim_result *result)
{
    return result->out;
}

plim_bytes plim_result_stderr(const plim_result *result)
{
    return result->err;
}

bool plim_result_stdout_truncated(const plim_result *result)
{
    return result->out_truncated;
}

bool plim_result_stderr_truncated(const plim_result *result)
{
    return result->err_truncated;
}

int32_t plim_result_exit_code(const plim_result *result)
{
    return result->exit_code;
}

bool plim_result_timed_out(const plim_result *result)
{
    return result->timed_out;
}

const char *plim_result_limit_reached(const plim_result *result)
{
    return result->limit_reached;
}

plim_outcome plim_result_outcome(const plim_result *result)
{
    return result->outcome;
}

plim_bytes plim_result_outcome_detail(const plim_result *result)
{
    return result->outcome_detail;
}

size_t plim_result_step_count(const plim_result *result)
{
    return result->step_count;
}

plim_step plim_result_step(const plim_result *result, size_t index)
{
    return index < result->step_count ? result->steps[index] : (plim_step){.limit_reached = ""};
}

size_t plim_result_artifact_count(const plim_result *result)
{
    return result->artifact_count;
}

plim_artifact plim_result_artifact(const plim_result *result, size_t index)
{
    return index < result->artifact_count ? result->artifacts[index]
                                          : (plim_artifact){{NULL, 0}, {NULL, 0}};
}

bool plim_result_artifacts_truncated(const plim_result *result)
{
    return result->artifacts_truncated;
}

int32_t plim_result_width(const plim_result *result)
{
    return result->width;
}

size_t plim_result_row_count(const plim_result *result)
{
    return result->row_count;
}

void plim_result_row(const plim_result *result, size_t index, int32_t *status,
                     const double **values, size_t *count)
{
    const core_module_row none = {0, NULL, 0};
    const core_module_row *row = index < result->row_count ? &result->rows[index] : &none;
    *status = row->status;
    *values = row->outputs;
    *count = row->count;
}

bool plim_result_interpreter_started(const plim_result *result)
{
    return result->interpreter_started;
}

bool plim_result_interpreter_ended(const plim_result *result)
{
    return result->interpreter_ended;
}
