#include "providers/wasm/run.h"

#include "providers/wasm/envelope.h"

#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

void wasm_run_init(wasm_run *run)
{
    *run = (wasm_run){.out.kept = BASE_BUF_INIT(WASM_OUTPUT_BYTES_MAX),
                      .err.kept = BASE_BUF_INIT(WASM_OUTPUT_BYTES_MAX)};
}

void wasm_run_free(wasm_run *run)
{
    base_buf_free(&run->out.kept);
    base_buf_free(&run->err.kept);
}

/* Keep the first bytes up to the cap, whatever the size of the piece; drop the rest and say so. */
static void capture(wasm_stream *stream, plim_bytes piece)
{
    size_t room = stream->kept.max - stream->kept.len;
    plim_bytes kept = {piece.data, piece.len < room ? piece.len : room};
    if (!base_buf_add(&stream->kept, kept) || kept.len < piece.len)
        stream->truncated = true;
}

/* What one wait on a worker found. */
typedef enum { HEARD, SILENT, WORKER_GONE, STOPPED } listen_result;

/* Wait for input or the worker's end; on STOPPED `run->why` says what ended the wait. */
static listen_result await_input(wasm_worker *worker, const run_ctx *ctx, short events,
                                 wasm_run *run)
{
    struct pollfd fds[] = {{.fd = worker->socket, .events = events},
                           {.fd = worker->pidfd, .events = POLLIN}};
    run->why = run_ctx_poll(ctx, fds, PLIM_COUNT(fds));
    if (run->why != RUN_READY)
        return STOPPED;
    if (fds[0].revents & events)
        return HEARD;
    return fds[1].revents || (fds[0].revents & (POLLHUP | POLLERR)) ? WORKER_GONE : SILENT;
}

static void u32_le(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

/* Send a frame of `fixed` and then `body`; a worker that does not read is bounded by the context.
 */
static listen_result send_frame(wasm_worker *worker, const run_ctx *ctx, unsigned char tag,
                                uint32_t fixed, plim_bytes body, wasm_run *run)
{
    unsigned char head[9] = {tag};
    u32_le(head + 1, (uint32_t)(sizeof(uint32_t) + body.len));
    u32_le(head + 5, fixed);
    for (size_t head_left = sizeof(head); head_left || body.len;) {
        size_t room = PLIM_WORKER_PACKET_MAX - head_left;
        size_t piece = body.len < room ? body.len : room;
        struct iovec parts[] = {{head, head_left}, {(void *)body.data, piece}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = sendmsg(worker->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return WORKER_GONE;
        if (sent < 0) {
            listen_result result = await_input(worker, ctx, POLLOUT, run);
            if (result == WORKER_GONE || result == STOPPED)
                return result;
            continue;
        }
        head_left = 0; /* a packet goes as a whole */
        body = (plim_bytes){body.data + piece, body.len - piece};
    }
    return HEARD;
}

/* ---- reading ---- */

typedef enum { RUNNING, ENDED_DONE, ENDED_TRAP, ENDED_BAD, NEEDS_REPLY } progress;

/* Text of a hostile worker, made printable: what is not ASCII text becomes '?'. */
static void set_reason(wasm_run *run, const char *prefix, plim_bytes text)
{
    size_t at = (size_t)snprintf(run->reason, sizeof(run->reason), "%s", prefix);
    for (size_t i = 0; i < text.len && at + 1 < sizeof(run->reason); i++, at++)
        run->reason[at] = (char)(text.data[i] >= ' ' && text.data[i] < 0x7F ? text.data[i] : '?');
    run->reason[at] = '\0';
}

static progress on_frames(wasm_worker *worker, plim_bytes input, wasm_run *run, wasm_reply *reply)
{
    for (;;) {
        plim_bytes payload;
        switch (wasm_frames_next(&worker->frames, &input, &payload)) {
        case WASM_FRAME_MORE:
            return RUNNING;
        case WASM_FRAME_START:
            run->started = true;
            break;
        case WASM_FRAME_STDOUT:
            capture(&run->out, payload);
            break;
        case WASM_FRAME_STDERR:
            capture(&run->err, payload);
            break;
        case WASM_FRAME_CALL:
            *reply = wasm_answer_without_broker(payload);
            /* It waits for the answer: whatever else it sent already is out of order. */
            return input.len ? ENDED_BAD : NEEDS_REPLY;
        case WASM_FRAME_DONE:
            run->exit_code = (unsigned char)payload.data[0];
            /* Its `I` may follow in the same read; anything else is found by the frame machine or
             * is surplus. */
            if (input.len &&
                (wasm_frames_next(&worker->frames, &input, &payload) != WASM_FRAME_IDLE ||
                 input.len))
                return ENDED_BAD;
            return ENDED_DONE;
        case WASM_FRAME_TRAP:
            set_reason(run, "wasm error: ", payload);
            return ENDED_TRAP;
        default:
            return ENDED_BAD;
        }
    }
}

/* After its end: take in what is in the socket already, and then in its outbox. It is finite, for
 * nobody writes any more. */
static void drain(wasm_worker *worker, wasm_run *run)
{
    ssize_t count;
    wasm_reply ignored;
    plim_bytes words;
    /* A reset is told once, before what is in the socket: the worker had not read all of ours. */
    while ((count = wasm_worker_receive(worker)) > 0 || (count < 0 && errno == ECONNRESET))
        if (count > 0 &&
            on_frames(worker, (plim_bytes){worker->input, (size_t)count}, run, &ignored) != RUNNING)
            return;
    if (!wasm_worker_last_words(worker, &words))
        run->started = true; /* it may have: nothing says that it has not */
    else if (words.len)
        on_frames(worker, words, run, &ignored);
}

static void kill_and_drain(wasm_worker *worker, wasm_run *run)
{
    pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0);
    struct pollfd fd = {.fd = worker->pidfd, .events = POLLIN};
    /* A killed process ends; the bound is for a kernel that is stuck in it. */
    while (poll(&fd, 1, 5000) < 0 && errno == EINTR)
        continue;
    drain(worker, run);
}

/* The worker is gone without having said why. */
static wasm_run_end lost(wasm_pool *pool, wasm_worker *worker, wasm_run *run)
{
    int status;
    kill_and_drain(worker, run); /* what closed its socket may not have ended quite yet */
    int end = wasm_pool_end_of(pool, worker, &status);
    if (end != WASM_END_STATUS || !run->started) {
        snprintf(run->reason, sizeof(run->reason), "the worker was lost %s",
                 !run->started          ? "before it started the run"
                 : end == WASM_END_LOST ? "with its host"
                                        : "and its host does not say how");
        return WASM_RUN_LOST;
    }
    if (WIFSIGNALED(status))
        snprintf(run->reason, sizeof(run->reason), "worker killed by signal %d", WTERMSIG(status));
    else
        snprintf(run->reason, sizeof(run->reason), "worker ended with status %d",
                 WEXITSTATUS(status));
    return WASM_RUN_ABORTED;
}

/* The wait was stopped: by the run's deadline, by the caller's, or by the caller. */
static wasm_run_end stopped(wasm_worker *worker, int64_t deadline_ns, wasm_run *run)
{
    bool had_timeout = run->why == RUN_DEADLINE && base_monotonic_ns() >= deadline_ns;
    kill_and_drain(worker, run);
    return had_timeout ? WASM_RUN_TIMEOUT : WASM_RUN_GONE;
}

static wasm_run_end ended(wasm_worker *worker, progress how, int64_t deadline_ns, wasm_run *run)
{
    if (how == ENDED_DONE && base_monotonic_ns() < deadline_ns)
        return WASM_RUN_DONE;
    kill_and_drain(worker, run);
    if (how == ENDED_DONE)
        return WASM_RUN_TIMEOUT;
    if (how == ENDED_BAD) {
        snprintf(run->reason, sizeof(run->reason), "worker broke its protocol");
        return run->started ? WASM_RUN_ABORTED : WASM_RUN_LOST;
    }
    return WASM_RUN_ABORTED;
}

/* The first input, without sleeping for it if that was asked for; says how that went. */
static ssize_t receive_soon(wasm_worker *worker)
{
    ssize_t count = wasm_worker_ask(worker);
    if (worker->eager == WASM_EAGER)
        worker->eager = count < 0 ? WASM_EAGER_IN_VAIN : WASM_EAGER_PAID;
    return count;
}

static wasm_run_end serve(wasm_pool *pool, wasm_worker *worker, const run_ctx *ctx,
                          int64_t deadline_ns, wasm_run *run)
{
    for (bool first = true;; first = false) {
        listen_result heard = first ? HEARD : await_input(worker, ctx, POLLIN, run);
        if (heard == STOPPED)
            return stopped(worker, deadline_ns, run);
        ssize_t count = first ? receive_soon(worker) : wasm_worker_receive(worker);
        if (count < 0 && (errno == EAGAIN || errno == EINTR) && heard != WORKER_GONE)
            continue;
        if (count <= 0)
            return lost(pool, worker, run);
        wasm_reply reply;
        progress how = on_frames(worker, (plim_bytes){worker->input, (size_t)count}, run, &reply);
        if (how == NEEDS_REPLY) {
            listen_result sent =
                send_frame(worker, ctx, PLIM_WORKER_REPLY, reply.status, reply.body, run);
            if (sent == STOPPED)
                return stopped(worker, deadline_ns, run);
            if (sent == WORKER_GONE)
                return lost(pool, worker, run);
            worker->frames.phase = WASM_PHASE_RUNNING;
        } else if (how != RUNNING) {
            return ended(worker, how, deadline_ns, run);
        }
    }
}

wasm_run_end wasm_run_on(wasm_pool *pool, wasm_worker *worker, plim_bytes source, uint32_t page_cap,
                         const run_ctx *ctx, int64_t deadline_ns, wasm_run *run)
{
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    int64_t began_ns = base_monotonic_ns();
    worker->frames.phase = WASM_PHASE_ASKED;
    wasm_run_end end;
    listen_result sent = send_frame(worker, &bounded, PLIM_WORKER_RUN, page_cap, source, run);
    if (sent == STOPPED)
        end = stopped(worker, deadline_ns, run);
    else if (sent == WORKER_GONE)
        end = lost(pool, worker, run);
    else
        end = serve(pool, worker, &bounded, deadline_ns, run);
    run->duration_ns = base_monotonic_ns() - began_ns;
    worker->idle_due_ns = base_deadline_after_ms(WASM_IDLE_DUE_MS);
    return end;
}
