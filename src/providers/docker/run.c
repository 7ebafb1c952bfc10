#include "providers/docker/run.h"

#include "providers/docker/plan.h"
#include "providers/docker/text.h"

enum { EXIT_TIMED_OUT = 124, ARGV_BYTES_MAX = 1024 * 1024, DETAIL_MAX = 2048 };
enum { EARLY_BYTES_MAX = 64 * 1024 }; /* of a report that is looked at before the end */

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

/* A kill of the kernel's looks like any other: only evidence tells. */
static const char *limit_of_exit(docker_box *box, const docker_end *end)
{
    bool killed = end->end == DOCKER_BOX_ENDED && end->exit_code != 0;
    return killed ? docker_box_limit_reached(box) : "";
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
    result->out_truncated = capture->out.truncated;
    result->err_truncated = capture->err.truncated;
    result->limit_reached = limit_of_exit(box, end);
    if (base_arena_dup(result->arena, base_buf_bytes(&capture->out.kept), &result->out) &&
        base_arena_dup(result->arena, base_buf_bytes(&capture->err.kept), &result->err)) {
        *out = result;
        return true;
    }
    plim_result_free(result);
    return no_memory(err);
}

/* Evidence about the container is about the step that it ended, if one did end badly. */
static void mark_limits(docker_box *box, docker_report *report)
{
    for (size_t i = 0; i < report->step_count; i++)
        if (report->steps[i].out_truncated && report->steps[i].err_truncated &&
            report->steps[i].exit_code != 0)
            report->steps[i].limit_reached = "output";
    if (report->step_count == 0)
        return;
    core_step_result *last = &report->steps[report->step_count - 1];
    if (last->exit_code != 0 && !last->timed_out && !last->limit_reached[0])
        last->limit_reached = docker_box_limit_reached(box);
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
                           const unsigned char key[CTL_KEY_BYTES], int64_t began_ns,
                           plim_result **out, plim_error *err)
{
    plim_bytes body = {NULL, 0};
    docker_report report = {.step_count = 0};
    char detail[DETAIL_MAX];
    plim_outcome outcome;
    docker_report_found found =
        docker_report_find(base_buf_bytes(&box->capture.out.kept), key, &body);
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
    mark_limits(box, &report);
    if (!fill_project(result, &report, outcome, detail))
        return no_memory(err);
    *out = TAKE_PTR(result);
    return true;
}

/* ---- one run ---- */

static docker_end end_of(const docker_box *box, const docker_box_outcome *outcome,
                         int64_t deadline_ns)
{
    return (docker_end){
        .end = outcome->end,
        .why = outcome->why,
        .own_deadline = outcome->why == RUN_DEADLINE && base_monotonic_ns() >= deadline_ns,
        .started = box->capture.started,
        .exit_code = box->exit_code,
    };
}

static bool run_snippet(const docker_site *site, docker_box *box, const core_request *request,
                        const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    int64_t deadline_ns = began_ns + docker_timeout_of(request) * BASE_NS_PER_MS;
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    docker_box_outcome outcome;
    docker_box_run(box, request->javascript->code, NULL, NULL, &bounded, &outcome);
    docker_end end = end_of(box, &outcome, deadline_ns);
    docker_answer answer = docker_snippet_answer(&end);
    if (answer == DOCKER_ANSWER_GONE || answer == DOCKER_ANSWER_FAULT)
        return fail(box, &outcome, &end, err);
    return answer_snippet(site, box, &end, began_ns, out, err);
}

/*
 * A verified report is all there is to a project: its runner does nothing after it, so the end of
 * the container need not be waited for. Where a step failed it is, for what the Engine then knows
 * of the reason.
 */
static bool is_reported(plim_bytes out, const void *key)
{
    plim_bytes body;
    docker_report report;
    if (out.len > EARLY_BYTES_MAX || docker_report_find(out, key, &body) != DOCKER_REPORT_VERIFIED)
        return false;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new((size_t)2 * EARLY_BYTES_MAX);
    if (!arena || !docker_report_read(body, arena, &report))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < report.step_count; i++)
        good = report.steps[i].exit_code == 0 || report.steps[i].timed_out;
    return good;
}

static bool run_project(const docker_site *site, docker_box *box, const core_request *request,
                        const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    int64_t step_ms = docker_timeout_of(request);
    int64_t deadline_ns = began_ns + (step_ms + DOCKER_PROJECT_MARGIN_MS) * BASE_NS_PER_MS;
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    const docker_image *image = &box->state->images[DOCKER_PROJECT].facts;
    unsigned char key[CTL_KEY_BYTES];
    docker_box_outcome outcome;
    char *plan =
        base_random(key, sizeof(key))
            ? docker_plan_write(request->project, step_ms, image->env, image->env_count, key)
            : NULL;
    if (!plan)
        return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                         "out of memory before the plan was sent");
    docker_box_run(box, plim_bytes_of(plan), is_reported, key, &bounded, &outcome);
    base_free_secret(plan, strlen(plan));
    docker_end end = end_of(box, &outcome, deadline_ns);
    docker_answer answer = docker_snippet_answer(&end);
    bool answered = answer == DOCKER_ANSWER_GONE || answer == DOCKER_ANSWER_FAULT
                        ? fail(box, &outcome, &end, err)
                        : answer_project(site, box, &end, key, began_ns, out, err);
    base_wipe(key, sizeof(key));
    return answered;
}

bool docker_run_in(const docker_site *site, docker_box *box, const core_request *request,
                   const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err)
{
    return request->kind == PLIM_KIND_PROJECT
               ? run_project(site, box, request, ctx, began_ns, out, err)
               : run_snippet(site, box, request, ctx, began_ns, out, err);
}
