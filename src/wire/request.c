/* Requests: from messages to the core's structs, checked in the contract's order, and back. */
#include "wire/internal.h"

static bool read_floor(plim_bytes name, plim_tier *out, plim_error *err)
{
    *out = PLIM_TIER_UNKNOWN;
    return name.len == 0 || plim_tier_from_name(name, out) ||
           core_refuse_request(err, "the floor is not one of process, container, kernel, vm");
}

static bool read_rule(const wire_software_rule *rule, plim_software_rule *out, plim_error *err)
{
    *out = (plim_software_rule){PLIM_RULE_NONE, NULL, 0};
    if (!rule)
        return true;
    out->identities = rule->identities;
    out->count = rule->n_identities;
    if (base_bytes_is(rule->mode, "exact"))
        out->mode = PLIM_RULE_EXACT;
    else if (base_bytes_is(rule->mode, "approved"))
        out->mode = PLIM_RULE_APPROVED;
    else if (rule->mode.len)
        return core_refuse_request(err, "the mode of a software rule is exact or approved");
    return core_rule_valid(out, err);
}

bool wire_read_options(const wire_head *head, plim_run_options *out, plim_error *err)
{
    *out = (plim_run_options){0};
    if (!read_floor(head->minimum_isolation, &out->minimum_isolation, err) ||
        !read_rule(head->software_rule, &out->software, err))
        return false;
    int32_t timeout = head->timeout_ms;
    out->timeout_ms = timeout <= 0                    ? 0
                      : timeout < WIRE_TIMEOUT_MS_MAX ? timeout
                                                      : WIRE_TIMEOUT_MS_MAX;
    if (core_name_valid(head->trace_id))
        out->trace_id = head->trace_id;
    return true;
}

static bool read_javascript(base_arena *arena, const wire_java_script_run *in,
                            const plim_run_options *options, core_request *out, plim_error *err)
{
    plim_javascript_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    if (!made)
        return plim_refuse_nomem(err);
    *made = (plim_javascript_request){sizeof(*made), *options, in->code, in->grant_profile};
    *out =
        (core_request){.kind = PLIM_KIND_JAVASCRIPT, .options = &made->options, .javascript = made};
    return true;
}

const plim_file *wire_read_files(base_arena *arena, wire_project_file *const *in, size_t count)
{
    plim_file *files = base_arena_alloc(arena, count, sizeof(*files));
    for (size_t i = 0; files && i < count; i++)
        files[i] = (plim_file){in[i]->path, in[i]->content};
    return files;
}

const double *wire_read_rows(base_arena *arena, const wire_module_run *in, size_t *width,
                             plim_error *err)
{
    size_t columns = in->n_rows ? in->rows[0]->n_values : 0, count;
    for (size_t i = 1; i < in->n_rows; i++)
        if (in->rows[i]->n_values != columns) {
            core_refuse_request(err, "row %zu has %zu values, the first row has %zu", i + 1,
                                in->rows[i]->n_values, columns);
            return NULL;
        }
    double *values = base_size_mul(in->n_rows, columns, &count)
                         ? base_arena_alloc(arena, count, sizeof(*values))
                         : NULL;
    if (!values) {
        plim_refuse_nomem(err);
        return NULL;
    }
    for (size_t i = 0; columns && i < in->n_rows; i++)
        memcpy(values + i * columns, in->rows[i]->values, columns * sizeof(*values));
    *width = columns;
    return values;
}

static bool read_project(base_arena *arena, const wire_project_run *in,
                         const plim_run_options *options, core_request *out, plim_error *err)
{
    plim_project_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    const plim_file *files = wire_read_files(arena, in->files, in->n_files);
    if (!made || !files)
        return plim_refuse_nomem(err);
    *made = (plim_project_request){sizeof(*made), *options,        files,
                                   in->n_files,   in->steps,       in->n_steps,
                                   in->artifacts, in->n_artifacts, in->grant_profile};
    *out = (core_request){.kind = PLIM_KIND_PROJECT, .options = &made->options, .project = made};
    return true;
}

static bool read_module(base_arena *arena, const wire_module_run *in,
                        const plim_run_options *options, core_request *out, plim_error *err)
{
    size_t width = 0;
    const double *values = wire_read_rows(arena, in, &width, err);
    if (!values)
        return false;
    plim_module_request *made = base_arena_alloc(arena, 1, sizeof(*made));
    if (!made)
        return plim_refuse_nomem(err);
    *made = (plim_module_request){sizeof(*made), *options, in->model,    values,
                                  in->n_rows,    width,    in->end_time, in->step};
    *out = (core_request){.kind = PLIM_KIND_MODULE, .options = &made->options, .module = made};
    return true;
}

bool wire_read_request(base_arena *arena, const wire_run_request *in, core_request *out,
                       plim_error *err)
{
    wire_head head = wire_head_of(in);
    plim_run_options options;
    if (!wire_read_options(&head, &options, err))
        return false;
    bool read = false;
    switch (in->payload_case) {
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT:
        read = read_javascript(arena, in->javascript, &options, out, err);
        break;
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_PROJECT:
        read = read_project(arena, in->project, &options, out, err);
        break;
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE:
        read = read_module(arena, in->module, &options, out, err);
        break;
    case PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_CELL:
        return core_refuse_request(err, "a cell runs only in a session");
    default:
        return core_refuse_request(err, "the request has no payload");
    }
    return read && core_validate_payload(out, err);
}

static wire_software_rule *write_rule(base_arena *arena, const plim_software_rule *rule)
{
    wire_software_rule *made = wire_make(arena, software_rule);
    if (!made)
        return NULL;
    made->mode = rule->mode == PLIM_RULE_EXACT ? PLIM_LIT("exact") : PLIM_LIT("approved");
    made->identities = (plim_bytes *)rule->identities;
    made->n_identities = rule->count;
    return made;
}

static bool write_javascript(base_arena *arena, const core_request *request, wire_run_request *out)
{
    out->payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT;
    wire_java_script_run *made = out->javascript = wire_make(arena, java_script_run);
    if (!made)
        return false;
    made->code = request->javascript->code;
    made->grant_profile = request->javascript->grant_profile;
    return true;
}

static bool write_project(base_arena *arena, const core_request *request, wire_run_request *out)
{
    const plim_project_request *project = request->project;
    out->payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_PROJECT;
    wire_project_run *made = out->project = wire_make(arena, project_run);
    if (!made)
        return false;
    made->steps = (plim_bytes *)project->steps;
    made->n_steps = project->step_count;
    made->artifacts = (plim_bytes *)project->artifacts;
    made->n_artifacts = project->artifact_count;
    made->grant_profile = project->grant_profile;
    made->n_files = project->file_count;
    made->files = base_arena_alloc(arena, project->file_count, sizeof(*made->files));
    for (size_t i = 0; made->files && i < project->file_count; i++) {
        wire_project_file *file = made->files[i] = wire_make(arena, project_file);
        if (!file)
            return false;
        file->path = project->files[i].path;
        file->content = project->files[i].content;
    }
    return made->files;
}

static bool write_module(base_arena *arena, const core_request *request, wire_run_request *out)
{
    const plim_module_request *module = request->module;
    out->payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE;
    wire_module_run *made = out->module = wire_make(arena, module_run);
    if (!made)
        return false;
    made->model = module->model;
    made->end_time = module->end_time;
    made->step = module->step;
    made->n_rows = module->rows;
    made->rows = base_arena_alloc(arena, module->rows, sizeof(*made->rows));
    for (size_t i = 0; made->rows && i < module->rows; i++) {
        wire_module_row *row = made->rows[i] = wire_make(arena, module_row);
        if (!row)
            return false;
        row->values = (double *)module->values + i * module->width;
        row->n_values = module->width;
    }
    return made->rows;
}

wire_run_request *wire_write_request(base_arena *arena, const core_request *request)
{
    const plim_run_options *options = request->options;
    wire_run_request *out = wire_make(arena, run_request);
    if (!out)
        return NULL;
    out->protocol = WIRE_PROTOCOL;
    if (options->minimum_isolation != PLIM_TIER_UNKNOWN)
        out->minimum_isolation = plim_bytes_of(plim_tier_name(options->minimum_isolation));
    out->trace_id = options->trace_id;
    out->timeout_ms = options->timeout_ms > INT32_MAX ? INT32_MAX
                      : options->timeout_ms < 0       ? 0
                                                      : (int32_t)options->timeout_ms;
    if (options->software.mode != PLIM_RULE_NONE &&
        !(out->software_rule = write_rule(arena, &options->software)))
        return NULL;
    bool (*write)(base_arena *, const core_request *, wire_run_request *) =
        request->kind == PLIM_KIND_JAVASCRIPT ? write_javascript
        : request->kind == PLIM_KIND_PROJECT  ? write_project
                                              : write_module;
    return write(arena, request, out) ? out : NULL;
}
