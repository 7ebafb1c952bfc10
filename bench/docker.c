/*
 * The docker provider's rows of the benchmark: a snippet that does next to nothing, in a container
 * made for it and in one that waited; a project of one step. The floors are measured here too: of
 * a cold run, the Engine's own create, start, wait and delete of the same image under the same
 * lockdown; of a pooled one, `node -e` in a container that runs already, by the Engine's exec. The
 * same again under runsc where it is registered. Without an Engine it prints nothing and exits 0.
 * Options: --json (accepted, the only form of output).
 */
#include "providers/docker/argv.h"
#include "providers/docker/body.h"
#include "providers/docker/discover.h"
#include "providers/docker/engine.h"
#include "providers/docker/state.h"

#include <jansson.h>
#include <plimsoll/plimsoll.h>

enum {
    COLD_RUNS = 11,
    POOL_SIZE = 8,
    POOLED_RUNS = 24,
    POOL_ROUNDS = 3,
    PAUSE_MS = 250,   /* untimed, before each: the Engine deletes the container before */
    SETTLE_MS = 1000, /* after the pool is full again: its newest members go on starting */
    REFILL_MS = 30000,
    CALL_MS = 60000,
};

static double now_ms(void)
{
    return (double)base_monotonic_ns() / (double)BASE_NS_PER_MS;
}

static void pause_ms(int64_t ms)
{
    run_ctx ctx = {base_deadline_after_ms(ms), -1};
    run_ctx_poll(&ctx, NULL, 0);
}

static void die(const char *what)
{
    fprintf(stderr, "bench/docker: %s\n", what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *times, size_t count, double q)
{
    qsort(times, count, sizeof(*times), compare);
    return times[(size_t)((double)(count - 1) * q + 0.5)];
}

static void row(const char *name, double value, const char *floor_name, double floor_value)
{
    printf("{\"name\": \"%s\", \"unit\": \"ms\", \"value\": %.6g", name, value);
    if (floor_name)
        printf(", \"floor_name\": \"%s\", \"floor\": %.6g", floor_name, floor_value);
    printf("}\n");
    fflush(stdout);
}

/* ---- the Engine alone ---- */

static void call(docker_engine *engine, const char *method, const char *target, plim_bytes body,
                 docker_reply *reply)
{
    char text[400];
    run_ctx ctx = {base_deadline_after_ms(CALL_MS), -1};
    docker_engine_call(engine, method, target, body, &ctx, reply);
    if (!docker_reply_ok(reply))
        die(docker_reply_text(reply, target, text, sizeof(text)));
}

static const char *image_of_snippets(void)
{
    const char *image = getenv("SANDBOX_DOCKER_IMAGE");
    return image ? image : "plimsoll/sandbox-js:latest";
}

static char *floor_body(const char *runtime, const char *const *argv, size_t argc)
{
    docker_body body = {.image = image_of_snippets(),
                        .argv = argv,
                        .argc = argc,
                        .uid = DOCKER_GUEST_UID,
                        .tmp_mb = DOCKER_TMP_MB,
                        .shm_mb = DOCKER_SHM_MB,
                        .memory_mb = DOCKER_MEMORY_MB,
                        .pids = DOCKER_PIDS,
                        .expires = base_wall_unix_ms() / 1000 + 600,
                        .cpus = 1,
                        .runtime = runtime};
    return docker_body_write(&body);
}

/* A call whose answer is not looked at. */
static void order(docker_engine *engine, const char *method, const char *id, const char *what)
{
    docker_reply reply;
    char target[200];
    snprintf(target, sizeof(target), "/containers/%s%s", id, what);
    call(engine, method, target, (plim_bytes){NULL, 0}, &reply);
    docker_reply_free(&reply);
}

/* A call whose answer is the ID of what was made. */
static void make(docker_engine *engine, const char *target, const char *body,
                 char id[BASE_SHA256_HEX + 1])
{
    docker_reply reply;
    call(engine, "POST", target, plim_bytes_of(body), &reply);
    json_t *json = json_loadb(base_buf_text(&reply.body), reply.body.len, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "Id"));
    snprintf(id, BASE_SHA256_HEX + 1, "%s", text ? text : "");
    json_decref(json);
    docker_reply_free(&reply);
}

static double floor_once(docker_engine *engine, const char *body)
{
    char id[BASE_SHA256_HEX + 1];
    double began = now_ms();
    make(engine, "/containers/create", body, id);
    order(engine, "POST", id, "/start");
    order(engine, "POST", id, "/wait");
    order(engine, "DELETE", id, "");
    return now_ms() - began;
}

/* Until its output has ended, which the Engine says when it has. */
static double exec_once(docker_engine *engine, const char *container)
{
    static const char body[] = "{\"AttachStdout\":true,\"AttachStderr\":true,"
                               "\"Cmd\":[\"node\",\"-e\",\"console.log(1)\"]}";
    docker_reply reply;
    char target[200], id[BASE_SHA256_HEX + 1];
    double began = now_ms();
    snprintf(target, sizeof(target), "/containers/%s/exec", container);
    make(engine, target, body, id);
    snprintf(target, sizeof(target), "/exec/%s/start", id);
    call(engine, "POST", target, PLIM_LIT("{}"), &reply);
    docker_reply_free(&reply);
    return now_ms() - began;
}

/* ---- the provider ---- */

static plim_sandbox *open_sandbox(const char *runtime, const char *pool)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_setting settings[] = {{PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("docker")},
                               {PLIM_LIT("SANDBOX_DOCKER_RUNTIME"), plim_bytes_of(runtime)},
                               {PLIM_LIT("SANDBOX_DOCKER_POOL"), plim_bytes_of(pool)}};
    plim_local_options options = {sizeof(options), settings, PLIM_COUNT(settings), false};
    plim_sandbox *sandbox;
    if (plim_sandbox_local(&options, &sandbox, &err) != PLIM_OK)
        die(plim_error_message(&err));
    if (plim_sandbox_ready(sandbox, NULL, &err) == PLIM_OK)
        return sandbox;
    fprintf(stderr, "bench/docker: %s\n", plim_error_message(&err));
    plim_error_clear(&err);
    plim_sandbox_free(sandbox);
    return NULL;
}

static double snippet_once(plim_sandbox *sandbox)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_javascript_request request = {
        .size = sizeof(request), .options.timeout_ms = 30000, .code = PLIM_LIT("console.log(1)")};
    double began = now_ms();
    if (plim_run_javascript(sandbox, &request, NULL, &result, &err) != PLIM_OK)
        die(plim_error_message(&err));
    double took = now_ms() - began;
    if (plim_result_exit_code(result) != 0 || plim_result_stdout(result).len != 2)
        die("the snippet did not print 1");
    plim_result_free(result);
    return took;
}

static double project_once(plim_sandbox *sandbox)
{
    static const plim_file file = {PLIM_BYTES_("a.txt", 5), PLIM_BYTES_("hello", 5)};
    static const plim_bytes step = PLIM_BYTES_("cat a.txt", 9), artifact = PLIM_BYTES_("a.txt", 5);
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_project_request request = {.size = sizeof(request),
                                    .files = &file,
                                    .file_count = 1,
                                    .steps = &step,
                                    .step_count = 1,
                                    .artifacts = &artifact,
                                    .artifact_count = 1};
    double began = now_ms();
    if (plim_run_project(sandbox, &request, NULL, &result, &err) != PLIM_OK)
        die(plim_error_message(&err));
    double took = now_ms() - began;
    plim_result_free(result);
    return took;
}

/* Cold runs and their floor by turns, so that a busy machine is busy for both. */
static void measure_cold(docker_engine *engine, const char *runtime, const char *suffix)
{
    char name[64];
    double cold[COLD_RUNS], floor[COLD_RUNS], project[COLD_RUNS];
    static const char *const argv[] = {"/usr/bin/env", "node", "-e", "console.log(1)"};
    _cleanup_free_ char *body = floor_body(runtime, argv, PLIM_COUNT(argv));
    plim_sandbox *sandbox = open_sandbox(runtime, "0");
    if (!sandbox || !body)
        return;
    for (int i = 0; i < COLD_RUNS; i++) {
        floor[i] = floor_once(engine, body);
        cold[i] = snippet_once(sandbox);
        project[i] = project_once(sandbox);
    }
    plim_sandbox_free(sandbox);
    double least = quantile(floor, COLD_RUNS, 0.5);
    snprintf(name, sizeof(name), "docker_cold_p50_ms%s", suffix);
    row(name, quantile(cold, COLD_RUNS, 0.5), "Engine create+start+wait+delete", least);
    snprintf(name, sizeof(name), "docker_project_p50_ms%s", suffix);
    row(name, quantile(project, COLD_RUNS, 0.5), "Engine create+start+wait+delete", least);
}

static size_t waiting(docker_engine *engine)
{
    docker_reply reply;
    call(engine, "GET", "/containers/json?filters=%7B%22name%22%3A%5B%22plsm-pool-%22%5D%7D",
         (plim_bytes){NULL, 0}, &reply);
    json_t *list = json_loadb(base_buf_text(&reply.body), reply.body.len, 0, NULL);
    size_t count = json_array_size(list);
    json_decref(list);
    docker_reply_free(&reply);
    return count;
}

static void await_pool(docker_engine *engine)
{
    int64_t until_ns = base_deadline_after_ms(REFILL_MS);
    while (waiting(engine) < POOL_SIZE && base_monotonic_ns() < until_ns)
        pause_ms(50);
    pause_ms(SETTLE_MS);
}

/* One run at a time on a full pool at rest, by turns with the floor; then runs in quick succession,
 * beside the containers that take the places of those before. */
static void measure_pooled(docker_engine *engine, const char *runtime, const char *suffix)
{
    static const char *const idle[] = {"/bin/sleep", "600"};
    static const char floor_name[] = "node -e in a running container";
    char name[64], running[BASE_SHA256_HEX + 1];
    double times[POOLED_RUNS], execs[POOLED_RUNS], busy[POOL_ROUNDS * POOL_SIZE / 2];
    size_t busy_count = 0;
    _cleanup_free_ char *body = floor_body(runtime, idle, PLIM_COUNT(idle));
    plim_sandbox *sandbox = open_sandbox(runtime, "8");
    if (!sandbox || !body)
        return;
    make(engine, "/containers/create", body, running);
    order(engine, "POST", running, "/start");
    for (int i = 0; i < POOLED_RUNS; i++) {
        await_pool(engine);
        execs[i] = exec_once(engine, running);
        pause_ms(PAUSE_MS);
        times[i] = snippet_once(sandbox);
    }
    for (int round = 0; round < POOL_ROUNDS; round++) {
        await_pool(engine);
        for (int i = 0; i < POOL_SIZE / 2; i++) {
            pause_ms(PAUSE_MS);
            busy[busy_count++] = snippet_once(sandbox);
        }
    }
    plim_sandbox_free(sandbox);
    order(engine, "DELETE", running, "?force=true");
    double floor = quantile(execs, POOLED_RUNS, 0.5);
    snprintf(name, sizeof(name), "docker_pooled_p50_ms%s", suffix);
    row(name, quantile(times, POOLED_RUNS, 0.5), floor_name, floor);
    snprintf(name, sizeof(name), "docker_pooled_p99_ms%s", suffix);
    row(name, quantile(times, POOLED_RUNS, 0.99), floor_name, floor);
    snprintf(name, sizeof(name), "docker_pooled_refilling_p50_ms%s", suffix);
    row(name, quantile(busy, busy_count, 0.5), floor_name, floor);
}

static bool has_runsc(docker_engine *engine)
{
    docker_reply reply;
    call(engine, "GET", "/info", (plim_bytes){NULL, 0}, &reply);
    json_t *info = json_loadb(base_buf_text(&reply.body), reply.body.len, 0, NULL);
    bool found = json_object_get(json_object_get(info, "Runtimes"), "runsc") != NULL;
    json_decref(info);
    docker_reply_free(&reply);
    return found;
}

int main(void)
{
    char path[DOCKER_SOCKET_MAX];
    plim_error err = PLIM_ERROR_INIT;
    core_settings settings;
    run_ctx ctx = {base_deadline_after_ms(CALL_MS), -1};
    docker_engine *engine = NULL;
    if (core_settings_read(core_lookup_environment, NULL, &settings, &err) &&
        docker_discover(&settings, path, &err))
        engine = docker_engine_new(path);
    if (!engine || !docker_engine_hello(engine, &ctx, &err)) {
        fprintf(stderr, "bench/docker: not measured: %s\n", plim_error_message(&err));
        docker_engine_free(engine);
        return 0;
    }
    measure_cold(engine, "", "");
    measure_pooled(engine, "", "");
    if (has_runsc(engine)) {
        measure_cold(engine, "runsc", "_runsc");
        measure_pooled(engine, "runsc", "_runsc");
    }
    docker_engine_free(engine);
    return 0;
}
