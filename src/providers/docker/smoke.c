#include "providers/docker/smoke.h"

#include "providers/docker/cgroup.h"
#include "providers/docker/pong.h"
#include "providers/docker/probe.h"
#include "providers/docker/probe_script.h"
#include "providers/docker/text.h"

#include <jansson.h>

enum {
    PROBE_MS = 30000,
    STEP_MS = 20000,
    ARGV_BYTES_MAX = 1024 * 1024,
    DOCUMENT_BYTES_MAX = 1024 * 1024,
    EXIT_NOT_FOUND = 127,
};

#define SMOKE_PREFIX "plsm-smoke-"
#define PIDS_PREFIX  "plsm-smoke-pids-"
#define SMOKE_WORD   "plimsoll"

/* ---- one program, to its end ---- */

typedef struct program {
    docker_kind kind;
    docker_argv argv;
    plim_bytes input;
    const char *socket;
} program;

/* Run it under the lockdown of its kind; `out` gets its stdout, `*exit_code` its status. */
static bool run_program(const docker_site *site, docker_state *state, const program *what,
                        const run_ctx *ctx, base_buf *out, int *exit_code, plim_error *err)
{
    docker_capture capture;
    docker_box box;
    docker_box_outcome outcome;
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(PROBE_MS));
    bool fresh = docker_capture_init(&capture, DOCUMENT_BYTES_MAX, DOCKER_OUTPUT_BYTES_MAX);
    docker_box_init(&box, state, &capture);
    docker_launch launch = {.settings = site->settings,
                            .keeper = site->keeper,
                            .kind = what->kind,
                            .prefix = SMOKE_PREFIX,
                            .budget_ms = PROBE_MS,
                            .argv = what->argv.items,
                            .argc = what->argv.count,
                            .work = what->kind == DOCKER_PROJECT,
                            .socket = what->socket};
    bool good = fresh ? docker_box_launch(&box, &launch, &bounded, err) : plim_refuse_nomem(err);
    if (good) {
        docker_box_run(&box, what->input, &bounded, &outcome);
        good = outcome.end == DOCKER_BOX_ENDED ||
               core_refuse_environment(err, "the probe did not come to its end: %s",
                                       outcome.fault[0] ? outcome.fault : "its time is over");
        *exit_code = box.exit_code;
        base_buf_add(out, docker_stream_output(&box.capture.out));
    }
    bool gone = docker_box_dispose_now(&box);
    return good &&
           (gone || core_refuse_environment(err, "a probe's container could not be removed"));
}

/* ---- the storage and identity probe ---- */

static bool probe_argv(const docker_state *state, bool first, base_arena *arena, docker_argv *out)
{
    if (!docker_argv_control(arena, state->runtime, "probe", NULL, out))
        return false;
    if (docker_is_runsc(state->runtime)) {
        out->items[out->count++] = "--kernel";
        if (first)
            out->items[out->count++] = "--banner";
    }
    if (first)
        out->items[out->count++] = "--socket";
    return true;
}

static bool script_argv(base_arena *arena, docker_argv *out)
{
    if (!docker_argv_control(arena, "", "-", NULL, out))
        return false;
    out->items[out->count - 2] = "node";
    return true;
}

static void log_banner(plim_bytes document)
{
    char banner[121];
    docker_probe_banner(document, banner);
    if (banner[0])
        base_log(BASE_LOG_INFO, "kernel log inside the sandbox", LOG_STR("banner", banner));
}

static bool judge(const docker_site *site, const docker_state *state, docker_kind kind, bool first,
                  plim_bytes document, docker_proof *proof, plim_error *err)
{
    docker_kernel host;
    bool runsc = docker_is_runsc(state->runtime);
    docker_disk disk = {site->settings->disk_mb, DOCKER_TMP_MB, DOCKER_SHM_MB, 0};
    if (!docker_disk_resolve(&disk, err))
        return false;
    if (runsc && !docker_kernel_of_host(&host))
        return core_refuse_environment(err, "this host's kernel cannot be read");
    docker_probe_wanted wanted = {
        .uid = state->uid,
        .pids = runsc                  ? 0
                : site->settings->pids ? site->settings->pids
                                       : DOCKER_PIDS,
        .tmp_mb = disk.tmp,
        .shm_mb = disk.shm,
        .work_mb = kind == DOCKER_PROJECT ? disk.work : 0,
        .host = runsc ? &host : NULL,
        .socket = first,
    };
    if (!docker_probe_check(document, &wanted, err))
        return false;
    if (runsc && first)
        log_banner(document);
    proof->kernel = runsc;
    return true;
}

/* Registered without the flag, some releases of gVisor do not even mount a socket: then it is the
 * start that fails, before there is anything to probe. */
static bool name_the_flag(const docker_state *state, const char *socket, plim_error *err)
{
    if (err && socket && docker_is_runsc(state->runtime) &&
        strstr(plim_error_message(err), DOCKER_SOCKET_INSIDE))
        plim_error_wrap(err, "it mounts no host socket; register runsc with --host-uds=open and "
                             "restart the Engine");
    return false;
}

/* A snippet image may lack the control program; then env says so and a script looks instead. */
static bool probe(const docker_site *site, docker_state *state, docker_kind kind,
                  const char *socket, const run_ctx *ctx, docker_proof *proof, plim_error *err)
{
    bool first = socket != NULL;
    int exit_code = 0;
    _cleanup_buf_ base_buf document = BASE_BUF_INIT(DOCUMENT_BYTES_MAX);
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(ARGV_BYTES_MAX);
    program own = {.kind = kind, .socket = socket}, script = own;
    script.input = PLIM_LIT(DOCKER_PROBE_SCRIPT);
    if (!arena || !probe_argv(state, first, arena, &own.argv) || !script_argv(arena, &script.argv))
        return plim_refuse_nomem(err);
    if (!run_program(site, state, &own, ctx, &document, &exit_code, err))
        return name_the_flag(state, socket, err);
    if (kind == DOCKER_SNIPPET)
        proof->control =
            exit_code == EXIT_NOT_FOUND ? DOCKER_CONTROL_SHELL : DOCKER_CONTROL_PROGRAM;
    if (kind == DOCKER_SNIPPET && exit_code == EXIT_NOT_FOUND) {
        base_buf_clear(&document);
        if (!run_program(site, state, &script, ctx, &document, &exit_code, err))
            return false;
    }
    if (exit_code != 0)
        return core_refuse_environment(err, "the probe ended with status %d", exit_code);
    return judge(site, state, kind, first, base_buf_bytes(&document), proof, err);
}

/* ---- runs as a request's ---- */

static bool run_request(const docker_site *site, docker_state *state, const core_request *request,
                        const run_ctx *ctx, plim_result **out, plim_error *err)
{
    docker_box box;
    docker_kind kind = request->kind == PLIM_KIND_PROJECT ? DOCKER_PROJECT : DOCKER_SNIPPET;
    int64_t began_ns = base_monotonic_ns();
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(STEP_MS));
    bool good = docker_run_launch(site, state, kind, SMOKE_PREFIX, STEP_MS, &box, &bounded, err) &&
                docker_run_in(site, &box, request, &bounded, began_ns, out, err);
    docker_box_dispose_now(&box);
    return good;
}

/*
 * Prints the word unless one of `list`, of pairs of a path and a mode, can be opened, or is refused
 * for another reason than permission. gVisor guards the memory of our process and not its
 * descriptors, behind which there is nothing here that is not the guest's own.
 */
#define SMOKE_SNIPPET(list)                                                                        \
    "for (const [path, mode] of [" list "]) {\n"                                                   \
    "  let said = 'opened';\n"                                                                     \
    "  try { require('fs').openSync(path, mode) } catch (e) { said = e.code }\n"                   \
    "  if (said !== 'EACCES' && said !== 'EPERM') {\n"                                             \
    "    console.log(path, mode, said); process.exit(1) } }\n"                                     \
    "console.log('" SMOKE_WORD "')\n"
#define SMOKE_MEMORY "['/proc/1/mem', 'r'], ['" CTL_PROGRAM "', 'r']"
#define SMOKE_DESCRIPTORS                                                                          \
    "['/proc/1/fd/0', 'r'], ['/proc/1/fd/1', 'r'], ['/proc/1/fd/1', 'w'], ['/proc/1/fd/2', 'w'], "

static plim_bytes snippet_of(const docker_site *site, const docker_state *state)
{
    if (site->control == DOCKER_CONTROL_SHELL)
        return PLIM_LIT(SMOKE_SNIPPET(""));
    return docker_is_runsc(state->runtime)
               ? PLIM_LIT(SMOKE_SNIPPET(SMOKE_MEMORY))
               : PLIM_LIT(SMOKE_SNIPPET(SMOKE_DESCRIPTORS SMOKE_MEMORY));
}

static bool prove_snippet(const docker_site *site, docker_state *state, const run_ctx *ctx,
                          plim_error *err)
{
    char shown[200];
    plim_javascript_request snippet = {
        .size = sizeof(snippet), .options.timeout_ms = STEP_MS, .code = snippet_of(site, state)};
    core_request request = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &snippet.options, .javascript = &snippet};
    _cleanup_(core_result_freep)
    plim_result *result = NULL;
    if (!run_request(site, state, &request, ctx, &result, err))
        return false;
    if (result->exit_code == 0 && base_bytes_is(result->out, SMOKE_WORD "\n"))
        return true;
    return core_refuse_environment(
        err, "a snippet that tries its first process did not print its word (exit %d): %s",
        result->exit_code, docker_printable(result->out, shown, sizeof(shown)));
}

/* One step in the project image: its result, or a refusal. */
static bool run_step(const docker_site *site, docker_state *state, plim_bytes command,
                     const run_ctx *ctx, plim_result **out, plim_error *err)
{
    plim_project_request project = {.size = sizeof(project),
                                    .options.timeout_ms = STEP_MS - DOCKER_PROJECT_MARGIN_MS,
                                    .steps = &command,
                                    .step_count = 1};
    core_request request = {
        .kind = PLIM_KIND_PROJECT, .options = &project.options, .project = &project};
    if (!run_request(site, state, &request, ctx, out, err))
        return false;
    if ((*out)->outcome == PLIM_OUTCOME_COMPLETED && (*out)->step_count == 1)
        return true;
    char detail[200];
    return core_refuse_environment(
        err, "the project runner answered %s: %s", plim_outcome_name((*out)->outcome),
        docker_printable((*out)->outcome_detail, detail, sizeof(detail)));
}

/* Each of these must be refused to a process of the same user, for lack of permission. */
static const char runner_step[] =
    "try() { e=$( { eval \"exec 3$1\\\"$2\\\"\"; } 2>&1 ) && { echo \"$1$2 opened\"; exit 1; }\n"
    "case $e in *'ermission denied'*|*'not permitted'*) ;; *) echo \"$1$2: $e\"; exit 1;; esac; }\n"
    "try '<' /proc/1/fd/0; try '<' /proc/1/fd/1; try '>' /proc/1/fd/1; try '<' /proc/1/mem\n"
    "try '<' " CTL_PROGRAM "\n";

static bool prove_runner(const docker_site *site, docker_state *state, const run_ctx *ctx,
                         plim_error *err)
{
    _cleanup_(core_result_freep)
    plim_result *result = NULL;
    if (!run_step(site, state, plim_bytes_of(runner_step), ctx, &result, err))
        return false;
    char shown[200];
    return result->steps[0].exit_code == 0 ||
           core_refuse_environment(err, "a step can reach the project runner: %s",
                                   docker_printable(result->steps[0].out, shown, sizeof(shown)));
}

/*
 * gVisor's mount table shows no `nosuid`, so what that option is for is tried: a program with
 * set-ID bits on each writable mount must not start. Written for what every project image has.
 */
static const char set_id_step[] =
    "node -e \"const fs = require('fs');\n"
    "for (const d of ['/tmp', '/dev/shm', '/work']) { const p = d + '/set-id';\n"
    "fs.copyFileSync('/usr/bin/env', p); fs.chmodSync(p, 0o6755);\n"
    "const { error } = require('child_process').spawnSync(p);\n"
    "if (!error || error.code !== 'EACCES') { console.log(p); process.exit(1); } }\"";

static bool prove_no_set_id(const docker_site *site, docker_state *state, const run_ctx *ctx,
                            plim_error *err)
{
    _cleanup_(core_result_freep)
    plim_result *result = NULL;
    if (!docker_is_runsc(state->runtime))
        return true;
    if (!run_step(site, state, plim_bytes_of(set_id_step), ctx, &result, err))
        return false;
    char shown[200];
    return result->steps[0].exit_code == 0 ||
           core_refuse_environment(err, "a program with set-ID bits may start there: %s",
                                   docker_printable(result->steps[0].out, shown, sizeof(shown)));
}

static bool prove_languages(const docker_site *site, docker_state *state, const run_ctx *ctx,
                            docker_proof *proof, plim_error *err)
{
    static const plim_bytes step = PLIM_BYTES_(
        "node -e \"console.log('javascript')\"; python3 -c \"print('python')\" 2>/dev/null; true",
        sizeof("node -e \"console.log('javascript')\"; python3 -c \"print('python')\" 2>/dev/null; "
               "true") -
            1);
    _cleanup_(core_result_freep)
    plim_result *result = NULL;
    if (!run_step(site, state, step, ctx, &result, err))
        return false;
    plim_bytes said = result->steps[0].out;
    proof->javascript = memmem(said.data, said.len, "javascript\n", 11) != NULL;
    proof->python = said.len && memmem(said.data, said.len, "python\n", 7) != NULL;
    return proof->javascript || core_refuse_environment(err, "node does not run in it");
}

/* ---- the host's view of the process limit (runsc) ---- */

static bool read_host_limit(const char *id, int64_t pid, int64_t *out, plim_error *err)
{
    _cleanup_buf_ base_buf value = BASE_BUF_INIT(64);
    return (docker_cgroup_read(pid, id, &docker_cgroup_limit, &value) &&
            docker_expiry_parse(base_trim(base_buf_bytes(&value)), out)) ||
           core_refuse_environment(err, "its process limit cannot be read on this host");
}

static int64_t pid_of(docker_state *state, const char *id, const run_ctx *ctx)
{
    char target[128];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/json", id);
    docker_engine_call(state->engine, "GET", target, (plim_bytes){NULL, 0}, ctx, &reply);
    if (!docker_reply_ok(&reply))
        return 0;
    _cleanup_(json_decrefp)
    json_t *json =
        json_loadb(base_buf_text(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
    return json_integer_value(json_object_get(json_object_get(json, "State"), "Pid"));
}

static bool prove_host_limit(const docker_site *site, docker_state *state, const run_ctx *ctx,
                             plim_error *err)
{
    static const char path[] = "PATH=" CTL_PATH;
    const char *const idle[] = {"/usr/bin/env", "-i", path, "/bin/sh", "-c", "sleep 30"};
    docker_capture capture;
    docker_box box;
    int64_t limit = 0, wanted = site->settings->pids ? site->settings->pids : DOCKER_PIDS;
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(PROBE_MS));
    bool fresh = docker_capture_init(&capture, 1, 1);
    docker_box_init(&box, state, &capture);
    docker_launch launch = {.settings = site->settings,
                            .keeper = site->keeper,
                            .kind = DOCKER_SNIPPET,
                            .prefix = PIDS_PREFIX,
                            .budget_ms = PROBE_MS,
                            .argv = idle,
                            .argc = PLIM_COUNT(idle),
                            .detached = true};
    bool good = fresh && docker_box_launch(&box, &launch, &bounded, err) &&
                read_host_limit(box.id, pid_of(state, box.id, &bounded), &limit, err);
    docker_box_dispose_now(&box);
    if (!good || limit == wanted)
        return good;
    return core_refuse_environment(err, "its process limit on this host is another than asked for");
}

/* ---- all of it ---- */

static bool prove_image(const docker_site *site, docker_state *state, docker_kind kind,
                        const char *socket, const run_ctx *ctx, docker_proof *proof,
                        plim_error *err)
{
    if (!probe(site, state, kind, socket, ctx, proof, err))
        return false;
    docker_site proven = *site;
    proven.control = proof->control;
    if (kind == DOCKER_SNIPPET)
        return prove_snippet(&proven, state, ctx, err);
    return prove_runner(&proven, state, ctx, err) && prove_no_set_id(&proven, state, ctx, err) &&
           prove_languages(&proven, state, ctx, proof, err);
}

bool docker_smoke(const docker_site *site, docker_state *state, const run_ctx *ctx,
                  docker_proof *proof, plim_error *err)
{
    docker_pong pong;
    const char *tmpdir = site->settings->tmpdir[0] ? site->settings->tmpdir : "/tmp";
    const char *runtime = state->runtime[0] ? state->runtime : "the Engine's own";
    *proof = (docker_proof){.control = DOCKER_CONTROL_PROGRAM};
    if (!docker_pong_start(&pong, tmpdir, err))
        return false;
    bool good = true;
    for (docker_kind kind = 0; good && kind < DOCKER_KINDS; kind++) {
        const char *socket = kind == DOCKER_SNIPPET ? pong.path : NULL;
        good = prove_image(site, state, kind, socket, ctx, proof, err);
        if (!good)
            plim_error_wrap(err, "image %s, runtime %s (%s)", state->images[kind].reference,
                            runtime, state->runtime_path);
    }
    docker_pong_stop(&pong);
    if (good && docker_is_runsc(state->runtime) && !prove_host_limit(site, state, ctx, err))
        good = plim_error_wrap(err, "runtime %s", runtime);
    return good;
}
