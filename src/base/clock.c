#include "base/base.h"

int64_t base_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * BASE_NS_PER_S + now.tv_nsec;
}

int64_t base_wall_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / BASE_NS_PER_MS;
}

int64_t base_deadline_after_ms(int64_t ms)
{
    int64_t span, deadline;
    if (ms < 0)
        ms = 0;
    if (__builtin_mul_overflow(ms, BASE_NS_PER_MS, &span) ||
        __builtin_add_overflow(base_monotonic_ns(), span, &deadline))
        return BASE_NEVER;
    return deadline;
}
