/* Results: to the messages of an answer, and back. */
#include "wire/internal.h"

/* Valid UTF-8 of `text`: itself, or a copy in the arena with U+FFFD for each malformed run. */
static bool repair(base_arena *arena, plim_bytes *text)
{
    if (base_utf8_valid(*text))
        return true;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(CORE_RESULT_BYTES_MAX);
    return base_buf_add_utf8(&buf, *text) && base_arena_dup(arena, base_buf_bytes(&buf), text);
}

bool wire_repair_result(plim_result *result)
{
    base_arena *arena = result->arena;
    if (!repair(arena, &result->outcome_detail))
        return false;
    bool sound = true;
    for (size_t i = 0; i < result->step_count; i++)
        sound = sound && base_utf8_valid(result->steps[i].command);
    for (size_t i = 0; i < result->artifact_count; i++)
        sound = sound && base_utf8_valid(result->artifacts[i].path);
    if (sound)
        return true;
    core_step_result *steps = base_arena_alloc(arena, result->step_count, sizeof(*steps));
    core_artifact *artifacts = base_arena_alloc(arena, result->artifact_count, sizeof(*artifacts));
    if (!steps || !artifacts)
        return false;
    for (size_t i = 0; i < result->step_count; i++) {
        steps[i] = result->steps[i];
        if (!repair(arena, &steps[i].command))
            return false;
    }
    for (size_t i = 0; i < result->artifact_count; i++) {
        artifacts[i] = result->artifacts[i];
        if (!repair(arena, &artifacts[i].path))
            return false;
    }
    result->steps = steps;
    result->artifacts = artifacts;
    return true;
}

/* What a snippet, a cell and a step have in common, each in a message and struct of its own. */
#define WRITE_OUTPUT(made, in)                                                                     \
    do {                                                                                           \
        (made)->stdout = (in)->out;                                                                \
        (made)->stderr = (in)->err;                                                                \
        (made)->exit_code = (in)->exit_code;                                                       \
        (made)->timed_out = (in)->timed_out;                                                       \
        (made)->stdout_truncated = (in)->out_truncated;                                            \
        (made)->stderr_truncated = (in)->err_truncated;                                            \
        (made)->limit_reached = plim_bytes_of((in)->limit_reached);                                \
    } while (false)

static bool write_javascript(base_arena *arena, const plim_result *in, wire_run_response *out)
{
    out->result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_JAVASCRIPT;
    wire_java_script_result *made = out->javascript = wire_make(arena, java_script_result);
    if (!made)
        return false;
    WRITE_OUTPUT(made, in);
    return true;
}

static bool write_cell(base_arena *arena, const plim_result *in, wire_run_response *out)
{
    out->result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_CELL;
    wire_cell_result *made = out->cell = wire_make(arena, cell_result);
    if (!made)
        return false;
    WRITE_OUTPUT(made, in);
    made->interpreter_started = in->interpreter_started;
    made->interpreter_ended = in->interpreter_ended;
    return true;
}

static wire_step_result *write_step(base_arena *arena, const core_step_result *in)
{
    wire_step_result *made = wire_make(arena, step_result);
    if (!made)
        return NULL;
    WRITE_OUTPUT(made, in);
    made->command = in->command;
    made->duration_ms = in->duration_ms;
    return made;
}

static bool write_project(base_arena *arena, const plim_result *in, wire_run_response *out)
{
    out->result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_PROJECT;
    wire_project_result *made = out->project = wire_make(arena, project_result);
    if (!made)
        return false;
    made->outcome = (Plimsoll__V1__ProjectOutcome)in->outcome;
    made->outcome_detail = in->outcome_detail;
    made->artifacts_truncated = in->artifacts_truncated;
    made->n_steps = in->step_count;
    made->steps = base_arena_alloc(arena, in->step_count, sizeof(*made->steps));
    made->n_artifacts = in->artifact_count;
    made->artifacts = base_arena_alloc(arena, in->artifact_count, sizeof(*made->artifacts));
    if (!made->steps || !made->artifacts)
        return false;
    for (size_t i = 0; i < in->step_count; i++)
        if (!(made->steps[i] = write_step(arena, &in->steps[i])))
            return false;
    for (size_t i = 0; i < in->artifact_count; i++) {
        wire_artifact *artifact = made->artifacts[i] = wire_make(arena, artifact);
        if (!artifact)
            return false;
        artifact->path = in->artifacts[i].path;
        artifact->content = in->artifacts[i].content;
    }
    return true;
}

static bool write_module(base_arena *arena, const plim_result *in, wire_run_response *out)
{
    out->result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_MODULE;
    wire_module_result *made = out->module = wire_make(arena, module_result);
    if (!made)
        return false;
    made->outcome = (Plimsoll__V1__ProjectOutcome)in->outcome;
    made->outcome_detail = in->outcome_detail;
    made->width = in->width;
    made->stdout = in->out;
    made->stderr = in->err;
    made->limit_reached = plim_bytes_of(in->limit_reached);
    made->n_runs = in->row_count;
    made->runs = base_arena_alloc(arena, in->row_count, sizeof(*made->runs));
    for (size_t i = 0; made->runs && i < in->row_count; i++) {
        wire_module_row_result *row = made->runs[i] = wire_make(arena, module_row_result);
        if (!row)
            return false;
        row->status = in->rows[i].status;
        row->outputs = (double *)in->rows[i].outputs;
        row->n_outputs = in->rows[i].count;
    }
    return made->runs;
}

static bool write_nothing(base_arena *arena, const plim_result *in, wire_run_response *out)
{
    (void)arena, (void)in, (void)out;
    return true;
}

wire_run_response *wire_write_result(base_arena *arena, const plim_result *result)
{
    wire_run_response *out = wire_make(arena, run_response);
    if (!out)
        return NULL;
    out->sandbox = plim_bytes_of(result->provider);
    out->isolation = plim_bytes_of(result->isolation);
    out->environment = plim_bytes_of(result->environment);
    out->software_identity = plim_bytes_of(result->software_identity);
    out->duration_ms = result->duration_ms;
    static bool (*const writers[])(base_arena *, const plim_result *, wire_run_response *) = {
        [PLIM_KIND_NONE] = write_nothing,    [PLIM_KIND_JAVASCRIPT] = write_javascript,
        [PLIM_KIND_PROJECT] = write_project, [PLIM_KIND_MODULE] = write_module,
        [PLIM_KIND_CELL] = write_cell,
    };
    return writers[result->kind](arena, result, out) ? out : NULL;
}

/* ---- back: everything is copied, since the message borrows from an answer that goes away ---- */

/* Copies into the result's arena that remember whether all of them found memory. */
struct copier {
    base_arena *arena;
    bool failed;
};

static plim_bytes copy(struct copier *c, plim_bytes bytes)
{
    plim_bytes made = {NULL, 0};
    c->failed |= !base_arena_dup(c->arena, bytes, &made);
    return made;
}

static const char *copy_text(struct copier *c, plim_bytes text)
{
    const char *made = base_arena_text(c->arena, text);
    c->failed |= !made;
    return made ? made : "";
}

static void *copy_array(struct copier *c, size_t count, size_t size)
{
    void *made = base_arena_alloc(c->arena, count, size);
    c->failed |= !made;
    return made;
}

/* The way back of WRITE_OUTPUT. */
#define READ_OUTPUT(c, in, to)                                                                     \
    do {                                                                                           \
        (to)->out = copy((c), (in)->stdout);                                                       \
        (to)->err = copy((c), (in)->stderr);                                                       \
        (to)->exit_code = (in)->exit_code;                                                         \
        (to)->timed_out = (in)->timed_out;                                                         \
        (to)->out_truncated = (in)->stdout_truncated;                                              \
        (to)->err_truncated = (in)->stderr_truncated;                                              \
        (to)->limit_reached = copy_text((c), (in)->limit_reached);                                 \
    } while (false)

static void read_javascript(struct copier *c, const wire_java_script_result *in, plim_result *out)
{
    READ_OUTPUT(c, in, out);
}

static void read_cell(struct copier *c, const wire_cell_result *in, plim_result *out)
{
    READ_OUTPUT(c, in, out);
    out->interpreter_started = in->interpreter_started;
    out->interpreter_ended = in->interpreter_ended;
}

static void read_step(struct copier *c, const wire_step_result *in, core_step_result *out)
{
    READ_OUTPUT(c, in, out);
    out->command = copy(c, in->command);
    out->duration_ms = in->duration_ms;
}

static void read_project(struct copier *c, const wire_project_result *in, plim_result *out)
{
    core_step_result *steps = copy_array(c, in->n_steps, sizeof(*steps));
    core_artifact *artifacts = copy_array(c, in->n_artifacts, sizeof(*artifacts));
    out->outcome = (plim_outcome)in->outcome;
    out->outcome_detail = copy(c, in->outcome_detail);
    out->artifacts_truncated = in->artifacts_truncated;
    for (size_t i = 0; !c->failed && i < in->n_steps; i++)
        read_step(c, in->steps[i], &steps[i]);
    for (size_t i = 0; !c->failed && i < in->n_artifacts; i++)
        artifacts[i] =
            (core_artifact){copy(c, in->artifacts[i]->path), copy(c, in->artifacts[i]->content)};
    out->steps = steps;
    out->step_count = in->n_steps;
    out->artifacts = artifacts;
    out->artifact_count = in->n_artifacts;
}

static void read_module(struct copier *c, const wire_module_result *in, plim_result *out)
{
    core_module_row *rows = copy_array(c, in->n_runs, sizeof(*rows));
    out->outcome = (plim_outcome)in->outcome;
    out->outcome_detail = copy(c, in->outcome_detail);
    out->width = in->width;
    out->out = copy(c, in->stdout);
    out->err = copy(c, in->stderr);
    out->limit_reached = copy_text(c, in->limit_reached);
    for (size_t i = 0; !c->failed && i < in->n_runs; i++) {
        const wire_module_row_result *row = in->runs[i];
        double *outputs = copy_array(c, row->n_outputs, sizeof(*outputs));
        if (outputs && row->n_outputs)
            memcpy(outputs, row->outputs, row->n_outputs * sizeof(*outputs));
        rows[i] = (core_module_row){row->status, outputs, row->n_outputs};
    }
    out->rows = rows;
    out->row_count = in->n_runs;
}

static plim_tier read_tier(plim_bytes name)
{
    plim_tier tier = PLIM_TIER_UNKNOWN;
    if (!plim_tier_from_name(name, &tier) && base_bytes_is(name, "none"))
        tier = PLIM_TIER_NONE;
    return tier;
}

static plim_kind kind_of(const wire_run_response *in)
{
    static const plim_kind kinds[] = {PLIM_KIND_JAVASCRIPT, PLIM_KIND_PROJECT, PLIM_KIND_MODULE,
                                      PLIM_KIND_CELL};
    _Static_assert(PLIMSOLL__V1__RUN_RESPONSE__RESULT_CELL -
                           PLIMSOLL__V1__RUN_RESPONSE__RESULT_JAVASCRIPT + 1 ==
                       PLIM_COUNT(kinds),
                   "a kind for each result");
    return in->result_case ? kinds[in->result_case - PLIMSOLL__V1__RUN_RESPONSE__RESULT_JAVASCRIPT]
                           : PLIM_KIND_NONE;
}

plim_result *wire_read_result(const wire_run_response *in)
{
    plim_result *out = core_result_new(kind_of(in));
    if (!out)
        return NULL;
    struct copier c = {out->arena, false};
    out->provider = copy_text(&c, in->sandbox);
    out->isolation = copy_text(&c, in->isolation);
    out->tier = read_tier(in->isolation);
    out->environment = copy_text(&c, in->environment);
    out->software_identity = copy_text(&c, in->software_identity);
    out->duration_ms = in->duration_ms;
    switch (out->kind) {
    case PLIM_KIND_JAVASCRIPT:
        read_javascript(&c, in->javascript, out);
        break;
    case PLIM_KIND_PROJECT:
        read_project(&c, in->project, out);
        break;
    case PLIM_KIND_MODULE:
        read_module(&c, in->module, out);
        break;
    case PLIM_KIND_CELL:
        read_cell(&c, in->cell, out);
        break;
    default:
        break;
    }
    if (!c.failed)
        return out;
    plim_result_free(out);
    return NULL;
}
