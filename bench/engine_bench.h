/*
 * What the engine benchmarks share: the clock, the options and the one line of output. Header only,
 * for programs with a single source each.
 */
#ifndef PLIM_BENCH_ENGINE_BENCH_H
#define PLIM_BENCH_ENGINE_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "rt.h"

static inline double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* True for --json; anything else but nothing is an error. */
static inline bool wants_json(int argc, char **argv)
{
    if (argc == 1)
        return false;
    if (argc == 2 && strcmp(argv[1], "--json") == 0)
        return true;
    fprintf(stderr, "usage: %s [--json]\n", argv[0]);
    exit(2);
}

static uint64_t bench_output_bytes; /* what the guest printed: proof that it ran */

static inline void count_output(int fd, uint8_t *chunk, size_t length)
{
    (void)fd;
    (void)chunk;
    bench_output_bytes += length;
}

static inline uint32_t no_call(const uint8_t *envelope, size_t length, uint8_t *body,
                               size_t capacity, uint32_t *body_length)
{
    (void)envelope;
    (void)length;
    (void)body;
    (void)capacity;
    *body_length = 0;
    return 503;
}

static inline __attribute__((noreturn)) void fail(const char *reason)
{
    fprintf(stderr, "the guest failed: %s\n", reason);
    exit(1);
}

static inline void prepare_guest(void)
{
    static const struct engine_ports ports = {.output = count_output, .call = no_call};
    const char *problem = engine_prepare(&ports);

    if (problem != NULL)
        fail(problem);
    rt_on_trap(fail);
}

/* One run and its reset, as a worker does it. */
static inline void run_guest(const char *source, size_t length)
{
    uint8_t *room = engine_source_room(4096, (uint32_t)length);

    if (room == NULL)
        fail("no room for the source");
    memcpy(room, source, length);
    if (engine_run() != 0 || !engine_reset())
        fail("the run did not end cleanly");
}

#endif
