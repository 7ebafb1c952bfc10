#include "providers/docker/box.h"

#include "providers/docker/cgroup.h"
#include "providers/docker/text.h"

#include <jansson.h>
#include <sys/socket.h>

enum { WAIT_ANSWER_BYTES_MAX = 64 * 1024 };

void docker_box_init(docker_box *box, docker_state *state, docker_capture *capture)
{
    *box = (docker_box){.state = docker_state_hold(state),
                        .capture = *capture,
                        .wait_answer.body = BASE_BUF_INIT(WAIT_ANSWER_BYTES_MAX),
                        .pidfd = -1};
    *capture = (docker_capture){.started = false};
}

/* ---- making ---- */

static char *body_of(const docker_box *box, const docker_launch *launch)
{
    const core_settings *settings = launch->settings;
    const docker_state *state = box->state;
    const docker_image *image = &state->images[launch->kind].facts;
    docker_disk disk = {settings->disk_mb, DOCKER_TMP_MB, DOCKER_SHM_MB, 0};
    if (!docker_disk_resolve(&disk, NULL))
        return NULL;
    docker_body body = {
        .image = image->id,
        .argv = launch->argv,
        .argc = launch->argc,
        .image_env = image->env,
        .image_env_count = image->env_count,
        .uid = state->uid,
        .expires = docker_expiry(base_wall_unix_ms(), launch->budget_ms),
        .interactive = !launch->detached,
        .work = launch->work,
        .tmp_mb = disk.tmp,
        .shm_mb = disk.shm,
        .work_mb = disk.work,
        .memory_mb = settings->memory_mb ? settings->memory_mb : DOCKER_MEMORY_MB,
        .pids = settings->pids ? settings->pids : DOCKER_PIDS,
        .cpus = settings->cpus > 0 ? settings->cpus : 1,
        .runtime = state->runtime,
        .seccomp = state->seccomp,
        .socket = launch->socket,
    };
    return docker_body_write(&body);
}

/* Nothing was created, or we do not know: in doubt the keeper looks. */
static bool fail_create(docker_box *box, const docker_reply *reply, plim_error *err)
{
    char text[400];
    docker_reply_text(reply, "create", text, sizeof(text));
    if (reply->end == NET_DONE && !docker_reply_ok(reply)) {
        docker_keeper_forget(box->keeper, box->name);
        box->keeper = NULL;
        return core_refuse_environment(err, "%s", text);
    }
    return core_fail_internal(err, "%s", text);
}

static bool read_id(docker_box *box, const docker_reply *reply, plim_error *err)
{
    _cleanup_(json_decrefp)
    json_t *json =
        json_loadb(base_buf_text(&reply->body), reply->body.len, JSON_REJECT_DUPLICATES, NULL);
    const char *id = json_string_value(json_object_get(json, "Id"));
    if (!id || !docker_hex_valid(plim_bytes_of(id), BASE_SHA256_HEX))
        return core_fail_internal(err, "create: the Engine states no container ID");
    snprintf(box->id, sizeof(box->id), "%s", id);
    return true;
}

static bool create(docker_box *box, const docker_launch *launch, const run_ctx *ctx,
                   plim_error *err)
{
    _cleanup_free_ char *body = body_of(box, launch);
    _cleanup_buf_ base_buf target = BASE_BUF_INIT(512);
    if (!body)
        return plim_refuse_nomem(err);
    if (!docker_random_name(launch->prefix, box->name, sizeof(box->name)) ||
        !docker_keeper_hold(launch->keeper, box->name))
        return plim_refuse_nomem(err);
    box->keeper = launch->keeper;
    base_buf_printf(&target, "/containers/create?name=%s", box->name);
    if (box->state->platform[0])
        base_buf_printf(&target, "&platform=%s", box->state->platform);
    _cleanup_reply_ docker_reply reply;
    docker_engine_call(box->state->engine, "POST", base_buf_text(&target), plim_bytes_of(body), ctx,
                       &reply);
    return docker_reply_ok(&reply) ? read_id(box, &reply, err) : fail_create(box, &reply, err);
}

static bool attach(docker_box *box, const run_ctx *ctx, plim_error *err)
{
    char target[160], text[400];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
             box->id);
    box->attach = docker_engine_upgrade(box->state->engine, target, ctx, &reply);
    return box->attach ||
           core_fail_internal(err, "%s", docker_reply_text(&reply, "attach", text, sizeof(text)));
}

/* The Engine answers as soon as it watches the container: only then may that start. */
static bool begin_wait(docker_box *box, const run_ctx *ctx, plim_error *err)
{
    char target[160], text[400];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/wait?condition=next-exit", box->id);
    box->wait =
        docker_engine_begin(box->state->engine, "POST", target, ctx, &box->wait_answer, &reply);
    return box->wait ||
           core_fail_internal(err, "%s", docker_reply_text(&reply, "wait", text, sizeof(text)));
}

/* Does an inspection show that it was never started? */
static bool was_never_started(docker_box *box, const run_ctx *ctx)
{
    char target[128];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/json", box->id);
    docker_engine_call(box->state->engine, "GET", target, (plim_bytes){NULL, 0}, ctx, &reply);
    if (!docker_reply_ok(&reply))
        return false;
    _cleanup_(json_decrefp)
    json_t *json =
        json_loadb(base_buf_text(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *state = json_object_get(json, "State");
    const char *status = json_string_value(json_object_get(state, "Status"));
    const char *began = json_string_value(json_object_get(state, "StartedAt"));
    return status && began && strcmp(status, "created") == 0 &&
           strcmp(began, "0001-01-01T00:00:00Z") == 0;
}

static bool start(docker_box *box, const run_ctx *ctx, plim_error *err)
{
    char target[128], text[400];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/start", box->id);
    box->started_ns = base_monotonic_ns();
    docker_engine_call(box->state->engine, "POST", target, (plim_bytes){NULL, 0}, ctx, &reply);
    if (docker_reply_ok(&reply))
        return true;
    docker_reply_text(&reply, "start", text, sizeof(text));
    if (reply.end == NET_DONE && was_never_started(box, ctx))
        return core_refuse_environment(err, "%s", text);
    return core_fail_internal(err, "%s", text);
}

bool docker_box_launch(docker_box *box, const docker_launch *launch, const run_ctx *ctx,
                       plim_error *err)
{
    if (!create(box, launch, ctx, err))
        return false;
    if (!launch->detached && (!attach(box, ctx, err) || !begin_wait(box, ctx, err)))
        return false;
    return start(box, ctx, err);
}

/* ---- listening ---- */

static bool broke(docker_box_outcome *outcome, const char *fault)
{
    outcome->end = DOCKER_BOX_BROKEN;
    snprintf(outcome->fault, sizeof(outcome->fault), "%s", fault);
    return false;
}

/* Take in what has arrived on the attached streams. False: broken. */
static bool hear_streams(docker_box *box, docker_box_outcome *outcome)
{
    bool closed;
    net_end end;
    plim_bytes input = net_conn_read(box->attach, &end, &closed), piece;
    for (;;) {
        switch (docker_demux_next(&box->demux, &input, &piece)) {
        case DOCKER_FRAME_STDOUT:
            docker_capture_out(&box->capture, piece);
            continue;
        case DOCKER_FRAME_STDERR:
            docker_capture_err(&box->capture, piece);
            continue;
        case DOCKER_FRAME_BAD:
            return broke(outcome, "the Engine's stream is not in its framing");
        case DOCKER_FRAME_MORE:
            break;
        }
        break;
    }
    if (end == NET_DONE)
        return true;
    if (!closed || !docker_demux_at_rest(&box->demux))
        return broke(outcome, "the attached stream broke");
    box->streams_ended = true;
    return true;
}

/* The answer to the wait call: `{"StatusCode": N, "Error": null or {...}}`. */
static bool read_status(docker_box *box, docker_box_outcome *outcome)
{
    const net_answer *answer = &box->wait_answer;
    _cleanup_(json_decrefp)
    json_t *json =
        json_loadb(base_buf_text(&answer->body), answer->body.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *code = json_object_get(json, "StatusCode");
    const json_t *error = json_object_get(json, "Error");
    int64_t value = json_is_integer(code) ? json_integer_value(code) : -1;
    if (answer->status != 200 || value < 0 || value > 255 || (error && !json_is_null(error)))
        return broke(outcome, "the Engine's answer to the wait states no exit status");
    box->exit_code = (int)value;
    box->exited = true;
    return true;
}

static bool hear_wait(docker_box *box, docker_box_outcome *outcome)
{
    net_end end;
    if (!net_conn_receive_some(box->wait, &box->wait_answer, &end))
        return true;
    if (end != NET_DONE)
        return broke(outcome, "the Engine closed the wait without an answer");
    return read_status(box, outcome);
}

/* Write what the socket takes; end stdin after the last byte. */
static bool feed(docker_box *box, plim_bytes *input, docker_box_outcome *outcome)
{
    while (input->len) {
        ssize_t count = send(box->attach->fd, input->data, input->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return true;
        if (count < 0 && (errno == EPIPE || errno == ECONNRESET) && box->sent) {
            /* A program may end without reading: what it answered still counts. */
            *input = (plim_bytes){NULL, 0};
            box->stdin_closed = true;
            return true;
        }
        if (count < 0)
            return broke(outcome, "the attached stream broke while the input was sent");
        box->sent = true;
        *input = (plim_bytes){input->data + count, input->len - (size_t)count};
    }
    if (!box->stdin_closed)
        shutdown(box->attach->fd, SHUT_WR);
    box->stdin_closed = true;
    return true;
}

/* ---- evidence from outside ---- */

enum { EVIDENCE_MS = 1000, LOOK_MS = 250, LOST_MS = 1000, NEWS_MS = 500, KILLED_LEAST = 129 };

static bool has_counted(int64_t pid, const char *id, const docker_cgroup_file *file,
                        const char *name)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(4096);
    if (!docker_cgroup_read(pid, id, file, &text))
        return false;
    uint32_t count = ctl_end_counter(base_buf_text(&text), name);
    return count > 0 && count != CTL_END_UNKNOWN;
}

/* Ask the Engine about the container; the member `State` of its answer, which is the caller's, or
 * NULL. */
static json_t *inspect_state(docker_box *box)
{
    char target[128];
    run_ctx ctx = {base_deadline_after_ms(EVIDENCE_MS), -1};
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/json", box->id);
    docker_engine_call(box->state->engine, "GET", target, (plim_bytes){NULL, 0}, &ctx, &reply);
    if (!docker_reply_ok(&reply))
        return NULL;
    _cleanup_(json_decrefp)
    json_t *json =
        json_loadb(base_buf_text(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
    return json_incref(json_object_get(json, "State"));
}

/* Does the first of these events say that the kernel ended something of this container for memory?
 * They are objects one after the other. */
static bool is_oom_event(plim_bytes events, const char *id)
{
    _cleanup_(json_decrefp)
    json_t *event = json_loadb(events.data, events.len, JSON_DISABLE_EOF_CHECK, NULL);
    const char *action = json_string_value(json_object_get(event, "Action"));
    const char *whose = json_string_value(json_object_get(json_object_get(event, "Actor"), "ID"));
    return action && whose && strcmp(action, "oom") == 0 && strcmp(whose, id) == 0;
}

/* What the Engine heard of a container that may be gone, and what it hears of it in the next
 * moment: the news of a kill and that of an end come by different ways. */
static bool has_oom_event(docker_box *box)
{
    char target[384];
    run_ctx ctx = {base_deadline_after_ms(NEWS_MS + EVIDENCE_MS), -1};
    int64_t until_ms = base_wall_unix_ms() + NEWS_MS;
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target),
             "/events?since=1&until=%" PRId64
             ".%03d000000&filters=%%7B%%22container%%22%%3A%%5B%%22"
             "%s%%22%%5D%%2C%%22event%%22%%3A%%5B%%22oom%%22%%5D%%7D",
             until_ms / 1000, (int)(until_ms % 1000), box->id);
    docker_engine_call(box->state->engine, "GET", target, (plim_bytes){NULL, 0}, &ctx, &reply);
    return docker_reply_ok(&reply) && is_oom_event(base_buf_bytes(&reply.body), box->id);
}

void docker_box_ask(docker_box *box)
{
    _cleanup_(json_decrefp)
    json_t *state = inspect_state(box);
    int64_t pid = json_integer_value(json_object_get(state, "Pid"));
    box->asked.memory |= json_is_true(json_object_get(state, "OOMKilled")) ||
                         has_counted(pid, box->id, &docker_cgroup_kills, "oom_kill");
    box->asked.pids |= has_counted(pid, box->id, &docker_cgroup_forks, "max");
    /* Killed, and it is gone before anybody could look. */
    if (box->exited && box->exit_code >= KILLED_LEAST && !box->asked.memory)
        box->asked.memory = has_oom_event(box);
}

/*
 * Under gVisor a sandbox is several processes of this host. The kernel that ends one of them for
 * memory may leave the rest waiting for it for ever: what has not ended soon after is ended here.
 */
static void look(docker_box *box)
{
    struct docker_watch *watch = &box->watch;
    if (watch->pid == 0) {
        _cleanup_(json_decrefp)
        json_t *state = inspect_state(box);
        int64_t pid = json_integer_value(json_object_get(state, "Pid"));
        watch->pid = pid > 0 ? pid : -1;
    }
    if (!watch->lost_ns) {
        if (has_counted(watch->pid, box->id, &docker_cgroup_kills, "oom_kill"))
            watch->lost_ns = base_monotonic_ns();
        return;
    }
    if (watch->killed || base_monotonic_ns() - watch->lost_ns < LOST_MS * BASE_NS_PER_MS)
        return;
    char target[128];
    run_ctx ctx = {base_deadline_after_ms(EVIDENCE_MS), -1};
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/kill", box->id);
    docker_engine_call(box->state->engine, "POST", target, (plim_bytes){NULL, 0}, &ctx, &reply);
    watch->killed = box->asked.memory = true;
}

/* As run_ctx_poll, with looks at a sandbox that has something of a caller's. */
static run_wait poll_and_look(docker_box *box, struct pollfd *fds, size_t count, const run_ctx *ctx)
{
    if (!box->sent || box->watch.killed || !docker_is_runsc(box->state->runtime))
        return run_ctx_poll(ctx, fds, count);
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(LOOK_MS));
    run_wait wait = run_ctx_poll(&bounded, fds, count);
    if (wait != RUN_DEADLINE || base_monotonic_ns() >= ctx->deadline_ns)
        return wait;
    look(box);
    for (size_t i = 0; i < count; i++)
        fds[i].revents = 0;
    return RUN_READY;
}

/* ---- the end ---- */

/* Did the first process tell the end, in whole frames of the Engine's stream? */
static bool hear_end(docker_box *box)
{
    if (!docker_demux_at_rest(&box->demux) || !docker_capture_ended(&box->capture, &box->last))
        return false;
    /* Under gVisor what a cgroup counts is counted on the host, not inside. */
    if (docker_is_runsc(box->state->runtime))
        box->last.memory = box->last.pids = CTL_END_UNKNOWN;
    box->told = true;
    box->exit_code = (int)box->last.status;
    if (box->exit_code != 0 && box->last.memory == CTL_END_UNKNOWN)
        docker_box_ask(box);
    return true;
}

/* A kill that nobody can explain yet is one that the Engine may. */
static bool is_explained(const docker_box *box)
{
    return box->exit_code <= 128 || box->last.memory != CTL_END_UNKNOWN || box->asked.memory;
}

static bool is_over(docker_box *box)
{
    if (box->exited && box->streams_ended)
        return true;
    return (box->told || hear_end(box)) && is_explained(box);
}

static bool wait_once(docker_box *box, bool has_input, const run_ctx *ctx,
                      docker_box_outcome *outcome)
{
    struct pollfd fds[] = {
        {.fd = box->streams_ended ? -1 : box->attach->fd,
         .events = (short)(POLLIN | (has_input ? POLLOUT : 0))},
        {.fd = box->exited ? -1 : box->wait->fd, .events = POLLIN},
    };
    run_wait wait = poll_and_look(box, fds, PLIM_COUNT(fds), ctx);
    if (wait != RUN_READY) {
        outcome->end = DOCKER_BOX_STOPPED;
        outcome->why = wait;
        return false;
    }
    if (fds[0].revents & ~POLLOUT && !hear_streams(box, outcome))
        return false;
    return !fds[1].revents || is_over(box) || hear_wait(box, outcome);
}

void docker_box_run(docker_box *box, plim_bytes input, const run_ctx *ctx,
                    docker_box_outcome *outcome)
{
    *outcome = (docker_box_outcome){.end = DOCKER_BOX_ENDED};
    while (!is_over(box)) {
        if (!box->stdin_closed && !feed(box, &input, outcome))
            return;
        if (!wait_once(box, input.len > 0, ctx, outcome))
            return;
    }
}

bool docker_box_await_start(docker_box *box, const run_ctx *ctx, docker_box_outcome *outcome)
{
    *outcome = (docker_box_outcome){.end = DOCKER_BOX_ENDED};
    while (!box->capture.started && !box->exited && !box->streams_ended)
        if (!wait_once(box, false, ctx, outcome))
            return false;
    return box->capture.started && !box->exited && !box->streams_ended;
}

static void close_all(docker_box *box)
{
    net_conn_free(TAKE_PTR(box->attach));
    net_conn_free(TAKE_PTR(box->wait));
    base_buf_free(&box->wait_answer.body);
    docker_capture_free(&box->capture);
    base_fd_close(&box->pidfd);
    docker_state_release(TAKE_PTR(box->state));
}

static docker_removal removal_of(const docker_box *box)
{
    docker_removal removal = {.engine = box->state->engine, .in_doubt = !box->id[0]};
    snprintf(removal.name, sizeof(removal.name), "%s", box->name);
    return removal;
}

void docker_box_dispose(docker_box *box, core_slot *slot, void (*gone)(void *), void *data)
{
    docker_keeper *keeper = TAKE_PTR(box->keeper);
    docker_removal removal = removal_of(box);
    removal.ended = (box->exited || box->told) && box->exit_code == 0;
    removal.slot = core_slot_hold(slot);
    removal.gone = gone;
    removal.data = data;
    close_all(box);
    if (keeper) {
        docker_keeper_remove(keeper, &removal);
        return;
    }
    core_slot_release(removal.slot);
    if (gone)
        gone(data);
}

bool docker_box_dispose_now(docker_box *box)
{
    docker_keeper *keeper = TAKE_PTR(box->keeper);
    docker_removal removal = removal_of(box);
    close_all(box);
    return !keeper || docker_keeper_remove_now(keeper, &removal);
}
