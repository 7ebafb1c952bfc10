/*
 * The JavaScript engine as one object: prepare it once, run a snippet, put everything back.
 *
 * It owns the only instance of the translated module in the process, and its snapshot. It knows no
 * sockets: output and host calls leave through struct engine_ports. Single-threaded. A trap ends
 * the process (see rt.h), so no function here returns after one.
 */
#ifndef PLIM_WASM_WORKER_ENGINE_H
#define PLIM_WASM_WORKER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room before each chunk of output that its receiver may overwrite, so that a frame header needs no
 * copy. */
#define ENGINE_CHUNK_HEADROOM 16u

/* What the guest may reach, all of it. */
struct engine_ports {
    /* `length` (1..PLIM_WORKER_OUTPUT_MAX) bytes that the guest wrote to `fd` (1 or 2). */
    void (*output)(int fd, uint8_t *chunk, size_t length);
    /*
     * One host call: the envelope (1..PLIM_WORKER_ENVELOPE_MAX bytes), and the guest's buffer for
     * the answer. Gives the status, 100..599, and the body's length, at most `capacity`.
     */
    uint32_t (*call)(const uint8_t *envelope, size_t length, uint8_t *body, size_t capacity,
                     uint32_t *body_length);
};

/*
 * Builds the engine and freezes it. NULL, or the reason it cannot be: a static string. The ports
 * are kept; the pointer must stay valid.
 */
const char *engine_prepare(const struct engine_ports *ports);

/* Pages of the frozen memory, and the most the module could have. */
uint32_t engine_frozen_pages(void);
uint32_t engine_module_pages_max(void);

/* Changes the ports, for a process that is not the one that prepared the engine. */
void engine_set_ports(const struct engine_ports *ports);

/*
 * Room for `length` bytes of source inside the guest, under a cap of `page_cap` pages from here on;
 * NULL when the cap leaves none. May be written by system calls.
 */
uint8_t *engine_source_room(uint32_t page_cap, uint32_t length);

/* Runs the source in the room last asked for. Returns the exit code, 0..255; does not return after
 * a trap. */
int engine_run(void);

/*
 * Restores the frozen state: memory, globals, clocks, floating-point environment, signal mask.
 * False when the process must not be used again.
 */
bool engine_reset(void);

/*
 * Makes `length` bytes at `bytes` (guest memory) writable by system calls, which fail where an
 * instruction would be let through by the fault handler.
 */
bool engine_open_bytes(const uint8_t *bytes, size_t length);

#endif
