/*
 * The run context: a deadline and a cancel descriptor. Every blocking wait of a run goes through
 * run_ctx_poll, so that a caller who goes away, a deadline and a shutdown all end a run the same
 * way. A context is read by the thread that runs; plim_cancel may be fired from any thread.
 */
#ifndef BASE_RUN_CTX_H
#define BASE_RUN_CTX_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct run_ctx {
    int64_t deadline_ns; /* monotonic; BASE_NEVER for none */
    int cancel_fd;       /* readable once cancelled; -1 for none. Borrowed */
} run_ctx;

#define RUN_CTX_NONE ((run_ctx){BASE_NEVER, -1})

typedef enum {
    RUN_READY,    /* a descriptor is ready */
    RUN_DEADLINE, /* the deadline passed, nothing was ready */
    RUN_CANCELED, /* cancelled, whatever else is ready */
    RUN_FAILED    /* poll failed; errno says why */
} run_wait;

/* At most this many descriptors in one wait. */
enum { RUN_CTX_POLL_MAX = 7 };

/* Wait for any of `count` descriptors, the deadline or cancellation. Fills `revents` when
 * RUN_READY. */
run_wait run_ctx_poll(const run_ctx *ctx, struct pollfd *fds, size_t count);

/* Whether it is cancelled by now, without a wait and whatever its deadline. */
bool run_ctx_is_canceled(const run_ctx *ctx);

/* The same context with a deadline at most `deadline_ns`. */
static inline run_ctx run_ctx_until(const run_ctx *ctx, int64_t deadline_ns)
{
    return (run_ctx){deadline_ns < ctx->deadline_ns ? deadline_ns : ctx->deadline_ns,
                     ctx->cancel_fd};
}

#endif
