#include "base/base.h"

/* The time left as a poll timeout: rounded up to a timespec, never negative. NULL means wait for
 * ever. */
static const struct timespec *time_left(int64_t deadline_ns, struct timespec *out)
{
    if (deadline_ns == BASE_NEVER)
        return NULL;
    int64_t left = deadline_ns - base_monotonic_ns();
    if (left < 0)
        left = 0;
    *out = (struct timespec){.tv_sec = left / BASE_NS_PER_S, .tv_nsec = left % BASE_NS_PER_S};
    return out;
}

run_wait run_ctx_poll(const run_ctx *ctx, struct pollfd *fds, size_t count)
{
    struct pollfd all[RUN_CTX_POLL_MAX + 1];
    if (count > RUN_CTX_POLL_MAX) {
        errno = EINVAL;
        return RUN_FAILED;
    }
    for (size_t i = 0; i < count; i++)
        all[i] = fds[i];
    all[count] = (struct pollfd){.fd = ctx->cancel_fd, .events = POLLIN};

    int ready;
    do {
        struct timespec left;
        ready = ppoll(all, count + 1, time_left(ctx->deadline_ns, &left), NULL);
    } while (ready < 0 && errno == EINTR);

    if (ready < 0)
        return RUN_FAILED;
    if (all[count].revents)
        return RUN_CANCELED;
    if (ready == 0)
        return RUN_DEADLINE;
    for (size_t i = 0; i < count; i++)
        fds[i].revents = all[i].revents;
    return RUN_READY;
}

bool run_ctx_is_canceled(const run_ctx *ctx)
{
    run_ctx now = {0, ctx->cancel_fd};
    return ctx->cancel_fd >= 0 && run_ctx_poll(&now, NULL, 0) == RUN_CANCELED;
}
