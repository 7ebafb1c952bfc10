#include "worker.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "confine.h"
#include "engine.h"
#include "frame.h"
#include "providers/wasm/eager.h"
#include "providers/wasm/protocol.h"
#include "rt.h"

/* ---- what the guest reaches ---- */

static_assert(ENGINE_CHUNK_HEADROOM >= sizeof(struct plim_worker_frame),
              "a frame header fits before a chunk");

static void send_output(int fd, uint8_t *chunk, size_t length)
{
    frame_say_in_place(fd == 2 ? PLIM_WORKER_STDERR : PLIM_WORKER_STDOUT, chunk, length);
}

/* Asks the parent and waits. An answer that does not fit the guest's buffer is dropped as a whole.
 */
static uint32_t forward_call(const uint8_t *envelope, size_t length, uint8_t *body, size_t capacity,
                             uint32_t *body_length)
{
    struct plim_worker_reply reply;
    uint32_t rest;

    *body_length = 0;
    frame_say(PLIM_WORKER_CALL, envelope, length);
    frame_flush();
    rest = frame_expect(PLIM_WORKER_REPLY, sizeof(reply), sizeof(reply) + PLIM_WORKER_REPLY_MAX);
    frame_receive(&reply, sizeof(reply));
    rest -= (uint32_t)sizeof(reply);
    if (reply.status < 100 || reply.status > 599 || rest > capacity ||
        !engine_open_bytes(body, rest)) {
        frame_skip(rest);
        frame_end();
        return 500;
    }
    frame_receive(body, rest);
    frame_end();
    *body_length = rest;
    return reply.status;
}

static const struct engine_ports ports = {.output = send_output, .call = forward_call};

static __attribute__((noreturn)) void report_trap(const char *reason)
{
    const size_t length = strnlen(reason, PLIM_WORKER_TRAP_MAX);

    frame_say(PLIM_WORKER_TRAP, reason, length);
    frame_flush();
    _exit(PLIM_WORKER_EXIT_TRAP);
}

/* ---- runs ---- */

/* The engine's own words for it, for a source that does not even fit into the guest's memory. */
static int fail_for_memory(uint32_t length)
{
    static const char text[] = "InternalError: out of memory\n\n";

    frame_skip(length);
    frame_end();
    frame_say(PLIM_WORKER_START, NULL, 0);
    frame_say(PLIM_WORKER_STDERR, text, sizeof(text) - 1);
    return 1;
}

static void serve_run(void)
{
    struct plim_worker_run run;
    uint8_t exit_code;
    uint8_t *room;
    uint32_t length =
        frame_expect(PLIM_WORKER_RUN, sizeof(run), sizeof(run) + PLIM_WORKER_SOURCE_MAX);

    frame_receive(&run, sizeof(run));
    length -= (uint32_t)sizeof(run);
    if (run.page_cap < engine_frozen_pages() + PLIM_WASM_PAGES_HEADROOM ||
        run.page_cap > PLIM_WASM_PAGES_MAX)
        _exit(PLIM_WORKER_EXIT_PROTOCOL);

    room = engine_source_room(run.page_cap, length);
    if (room == NULL) {
        exit_code = (uint8_t)fail_for_memory(length);
    } else {
        frame_receive(room, length);
        frame_end();
        frame_say(PLIM_WORKER_START, NULL, 0);
        exit_code = (uint8_t)engine_run();
    }
    frame_say(PLIM_WORKER_DONE, &exit_code, sizeof(exit_code));
    frame_flush();
}

void worker_main(int socket, int outbox, uint8_t flags, pid_t host)
{
    const bool single_use = (flags & PLIM_FORK_SINGLE_USE) != 0;

    if (!frame_open_outbox(outbox) || !confine_worker(socket, single_use, host))
        _exit(PLIM_WORKER_EXIT_UNCONFINED);
    if ((flags & PLIM_FORK_PROBE) != 0) {
        confine_probe();
        _exit(PLIM_WORKER_EXIT_UNCONFINED); /* still here: the filter does not hold */
    }

    rt_on_trap(report_trap);
    engine_set_ports(&ports);
    /* Also takes the pages that every run writes out of what is shared with the host, before
     * anybody waits. */
    if (!engine_reset())
        _exit(PLIM_WORKER_EXIT_UNCONFINED);
    for (wasm_eagerness eagerness = {0, 0};;) {
        frame_say(PLIM_WORKER_IDLE, NULL, 0);
        frame_flush();
        if (wasm_eager_may(&eagerness))
            wasm_eager_learn(&eagerness, frame_ask() ? WASM_EAGER_PAID : WASM_EAGER_IN_VAIN);
        serve_run();
        if (single_use || !engine_reset())
            _exit(PLIM_WORKER_EXIT_OK);
    }
}
