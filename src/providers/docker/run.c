#include "providers/docker/run.h"

#include "providers/docker/plan.h"
#include "providers/docker/text.h"

enum { EXIT_TIMED_OUT = 124, ARGV_BYTES_MAX = 1024 * 1024, DETAIL_MAX = 2048 };

int64_t docker_timeout_of(const core_request *request)
{
    bool snippet = request->kind == PLIM_KIND_JAVASCRIPT;
    int64_t wanted = request->options->timeout_ms;
    int64_t ceiling = snippet ? DOCKER_SNIPPET_MS_CEILING : DOCKER_PROJECT_MS_CEILING;
    if (wanted <= 0)
        return snippet ? DOCKER_SNIPPET_MS_DEFAULT : DOCKER_PROJECT_MS_DEFAULT;
    return wanted < ceiling ? wanted : ceiling;
}

/* ---- making ---- */

static bool build_argv(const docker_site *site, const docker_state *state, docker_kind kind,
                       const char *marker, base_arena *arena, docker_argv *out)
{
    static const char *const node[] = {"node", "-"};
    if (kind == DOCKER_PROJECT)
        return docker_argv_control(arena, state->runtime, "run", marker, out);
    return docker_argv_start(arena, state->runtime, site->control, marker,
                             &state->images[kind].facts, node, PLIM_COUNT(node), out);
}

bool docker_run_launch(const docker_site *site, docker_state *state, docker_kind kind,
                       const char *prefix, int64_t budget_ms, docker_box *box, const run_ctx *ctx,
                       plim_error *err)
{
    docker_capture capture;
    docker_argv argv;
    size_t out_max = kind == DOCKER_PROJECT ? DOCKER_RUNNER_BYTES_MAX : DOCKER_OUTPUT_BYTES_MAX;
    bool fresh = docker_capture_init(&capture, out_max, DOCKER_OUTPUT_BYTES_MAX);
    docker_box_init(box, state, &capture);
    box->supervised = kind == DOCKER_SNIPPET && site->control == DOCKER_CONTROL_PROGRAM;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(ARGV_BYTES_MAX);
    if (!fresh || !arena || !build_argv(site, state, kind, box->capture.marker, arena, &argv))
        return plim_refuse_nomem(err);
    docker_launch launch = {
        .settings = site->settings,
        .keeper = site->keeper,
        .kind = kind,
        .prefix = prefix,
        .budget_ms = budget_ms,
        .argv = argv.items,
        .argc = argv.count,
        .work = kind == DOCKER_PROJECT,
    };
    return docker_box_launch(box, &launch, ctx, err);
}

/* ---- answering ---- */

static bool fail(const docker_box *box, const docker_box_outcome *outcome, const docker_end *end,
                 plim_error *err)
{
    char shown[DOCKER_BEFORE_BYTES_MAX];
    if (docker_snippet_answer(end) == DOCKER_ANSWER_GONE)
        return core_fail_gone(err, end->why);
    if (outcome->end == DOCKER_BOX_BROKEN)
        return core_fail_internal(err, "the run was lost: %s", outcome->fault);
    if (outcome->end == DOCKER_BOX_STOPPED)
        return core_fail_internal(err, "the run did not start within its time");
    docker_printable((plim_bytes){box->capture.before, box->capture.before_len}, shown,
                     sizeof(shown));
    return core_fail_internal(err, "the guest did not start (container exit %d): %s",
                              box->exit_code, shown);
}

static plim_result *new_result(const docker_site *site, const docker_box *box, plim_kind kind,
                               int64_t began_ns)
{
    plim_result *result = core_result_new(kind);
    if (!result)
        return NULL;
    const docker_state_image *image =
        &box->state->images[kind == PLIM_KIND_PROJECT ? DOCKER_PROJECT : DOCKER_SNIPPET];
    result->provider = "docker";
    result->tier = site->tier;
    result->isolation = plim_tier_name(site->tier);
    result->environment = base_arena_text(result->arena, plim_bytes_of(image->environment));
    result->software_identity = base_arena_text(result->arena, plim_bytes_of(image->software));
    int64_t from_ns = box->started_ns > began_ns ? box->started_ns : began_ns;
    result->duration_ns = base_monotonic_ns() - from_ns;
    result->duration_ms = result->duration_ns / BASE_NS_PER_MS;
    if (result->environment && result->software_identity)
        return result;
    plim_result_free(result);
    return NULL;
}

static bool no_memory(plim_error *err)
{
    return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                     "out of memory after the run");
}

static bool answer_snippet(const docker_site *site, docker_box *box, const docker_end *end,
                           int64_t began_ns, plim_result **out, plim_error *err)
{
    docker_capture *capture = &box->capture;
    plim_result *result = new_result(site, box, PLIM_KIND_JAVASCRIPT, began_ns);
    if (!result)
        return no_memory(err);
    result->timed_out = docker_snippet_answer(end) == DOCKER_ANSWER_TIMED_OUT;
    result->exit_code = result->timed_out ? EXIT_TIMED_OUT : end->exit_code;
    result->out_truncated = docker_stream_truncated(&capture->out);
    result->err_truncated = docker_stream_truncated(&capture->err);
    result->limit_reached = docker_limits_text(docker_limits_of(end), result->arena);
    if (result->limit_reached &&
        base_arena_dup(result->arena, docker_stream_output(&capture->out), &result->out) &&
        base_arena_dup(result->arena, docker_stream_output(&capture->err), &result->err)) {
        *out = result;
        return true;
    }
    plim_result_free(result);
    return no_memory(err);
}

/* Evidence about the container stands with the step that was the last. */
static bool mark_limits(const docker_end *end, docker_report *report, base_arena *arena)
{
    for (size_t i = 0; i < report->step_count; i++) {
        core_step_result *step = &report->steps[i];
        bool flooded = step->out_truncated && step->err_truncated && step->exit_code != 0;
        unsigned limits = flooded ? DOCKER_LIMIT_OUTPUT : 0;
        if (i + 1 == report->step_count)
            limits |= docker_limits_of(end);
        step->limit_reached = docker_limits_text(limits, arena);
        if (!step->limit_reached)
            return false;
    }
    return true;
}

static bool fill_project(plim_result *result, const docker_report *report, plim_outcome outcome,
                         const char *detail)
{
    result->outcome = outcome;
    result->steps = report->steps;
    result->step_count = report->step_count;
    result->artifacts = report->artifacts;
    result->artifact_count = report->artifact_count;
    result->artifacts_truncated = report->artifacts_truncated;
    return base_arena_dup(result->arena, plim_bytes_of(detail), &result->outcome_detail);
}

static bool answer_project(const docker_site *site, docker_box *box, const docker_end *end,
                           int64_t began_ns, plim_result **out, plim_error *err)
{
    plim_bytes body = {NULL, 0};
    docker_report report = {.step_count = 0};
    char detail[DETAIL_MAX];
    plim_outcome outcome;
    docker_report_found found =
        docker_report_find(docker_stream_output(&box->capture.out), box->capture.key, &body);
    _cleanup_(core_result_freep)
    plim_result *result = new_result(site, box, PLIM_KIND_PROJECT, began_ns);
    if (!result)
        return no_memory(err);
    bool decoded =
        found == DOCKER_REPORT_VERIFIED && docker_report_read(body, result->arena, &report);
    docker_project_outcome(end, found, decoded, &report, &outcome, detail, sizeof(detail));
    /* What was read of a document that is not accepted is no evidence. */
    if (!decoded || outcome == PLIM_OUTCOME_PROTOCOL_ERROR || report.error.len)
        report = (docker_report){.step_count = 0};
    if (!mark_limits(end, &report, result->arena) ||
        !fill_project(result, &report, outcome, detail))
        return no_memory(err);
    *out = TAKE_PTR(result);
    return true;
}

/* ---- one run ---- */

/* Only where the first process did not tell, or not what its kernel counted. */
static bool needs_asking(const docker_box *box, const docker_box_outcome *outcome)
{
    if (outcome->end == DOCKER_BOX_STOPPED)
        return outcome->why == RUN_DEADLINE;
    return outcome->end == DOCKER_BOX_ENDED && box->exit_code != 0 &&
           (!box->told || box->last.memory == CTL_END_UNKNOWN) && !box->asked.memory;
}

static docker_end end_of(docker_box *box, const docker_box_outcome *outcome, int64_t deadline_ns)
{
    if (needs_asking(box, outcome))
        docker_box_ask(box);
    return (docker_end){
        .end = outcome->end,
        .why = outcome->why,
        .own_deadline = outcome->why == RUN_DEADLINE && base_monotonic_ns() >= deadline_ns,
        .started = box->capture.started,
        .told = box->told,
        .asked_memory = box->asked.memory,
        .asked_pids = box->asked.pids,
        .exit_code = box->exit_code,
        .last = box->last,
    };
}

/* The code as it goes in: after the head of a supervised run. On the heap; NULL: out of memory. */
static char *input_of(docker_box *box, plim_bytes code, size_t *length)
{
    size_t head = box->supervised ? CTL_HEAD_BYTES : 0;
    char *input = base_alloc(head + code.len + 1, 1);
    *length = head + code.len;
    if (!input || (head && !docker_capture_arm(&box->capture))) {
        base_free(input);
        return NULL;
    }
    if (head)
        memcpy(input, box->capture.key, CTL_KEY_BYTES);
    for (size_t i = CTL_KEY_BYTES; i < head; i++)
        input[i] = (char)((uint64_t)code.len >> 8 * (head - 1 - i));
    if (code.len)
        memcpy(input + head, code.data, code.len);
    return input;
}

static bool no_memory_yet(plim_error *err)
{
    return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                     "out of memory before anything was sent");
}

static bool run_snippet(const docker_site *site, docker_box *box, const core_request *request,
                        const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    int64_t deadline_ns = began_ns + docker_timeout_of(request) * BASE_NS_PER_MS;
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    docker_box_outcome outcome;
    size_t length;
    char *input = input_of(box, request->javascript->code, &length);
    if (!input)
        return no_memory_yet(err);
    docker_box_run(box, (plim_bytes){input, length}, &bounded, &outcome);
    base_free_secret(input, length);
    docker_end end = end_of(box, &outcome, deadline_ns);
    docker_answer answer = docker_snippet_answer(&end);
    if (answer == DOCKER_ANSWER_GONE || answer == DOCKER_ANSWER_FAULT)
        return fail(box, &outcome, &end, err);
    return answer_snippet(site, box, &end, began_ns, out, err);
}

static bool run_project(const docker_site *site, docker_box *box, const core_request *request,
                        const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    int64_t step_ms = docker_timeout_of(request);
    int64_t deadline_ns = began_ns + (step_ms + DOCKER_PROJECT_MARGIN_MS) * BASE_NS_PER_MS;
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    const docker_image *image = &box->state->images[DOCKER_PROJECT].facts;
    docker_box_outcome outcome;
    char *plan = docker_capture_arm(&box->capture)
                     ? docker_plan_write(request->project, step_ms, image->env, image->env_count,
                                         box->capture.key)
                     : NULL;
    if (!plan)
        return no_memory_yet(err);
    docker_box_run(box, plim_bytes_of(plan), &bounded, &outcome);
    base_free_secret(plan, strlen(plan));
    docker_end end = end_of(box, &outcome, deadline_ns);
    docker_answer answer = docker_snippet_answer(&end);
    return answer == DOCKER_ANSWER_GONE || answer == DOCKER_ANSWER_FAULT
               ? fail(box, &outcome, &end, err)
               : answer_project(site, box, &end, began_ns, out, err);
}

bool docker_run_in(const docker_site *site, docker_box *box, const core_request *request,
                   const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    return request->kind == PLIM_KIND_PROJECT
               ? run_project(site, box, request, ctx, began_ns, out, err)
               : run_snippet(site, box, request, ctx, began_ns, out, err);
}
