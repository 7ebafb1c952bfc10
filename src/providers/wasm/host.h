/*
 * The worker host as a process: find the program, start it, exchange packets on its control socket,
 * end it. One object is used by one thread, the pool's supervisor: the host's parent-death signal
 * is tied to the thread that started it.
 */
#ifndef PROVIDERS_WASM_HOST_H
#define PROVIDERS_WASM_HOST_H

#include "core/core.h"

#include "providers/wasm/protocol.h"

typedef struct wasm_host {
    int control; /* -1: not running, or ending */
    int pidfd;
    int pid; /* -1: none, not even one that is ending */
} wasm_host;

#define WASM_HOST_NONE ((wasm_host){-1, -1, -1})

/* Path of plimsoll-wasm-worker: beside the build tree this program runs from, else the installed
 * one. */
bool wasm_host_locate(char *path, size_t size);

/* Start the program with an empty environment, nothing open but its control socket, and `/` as its
 * directory. */
bool wasm_host_spawn(wasm_host *host, plim_error *err);

/* Close the control socket and kill the host; its workers end with it. wasm_host_reap is still to
 * be called. */
void wasm_host_kill(wasm_host *host);

/*
 * Wait for the end of a host whose control socket is closed, at most `wait_ms`, and reap it. False:
 * it has not ended yet. True also when there is none.
 */
bool wasm_host_reap(wasm_host *host, int wait_ms);

/* Let the host end by itself, as end of file makes it, or kill it when it lingers. Reaps it. Blocks
 * for seconds at most. */
void wasm_host_end(wasm_host *host);

/* Ask for a worker. False: the socket would block or is gone. */
bool wasm_host_ask_fork(wasm_host *host, uint32_t id, uint8_t flags) PLIM_MUST_USE;

typedef struct wasm_packet {
    unsigned char tag;
    union {
        struct plim_host_ready ready;
        struct plim_host_worker worker;
        struct plim_host_no_worker no_worker;
        struct plim_host_exited exited;
        char reason[PLIM_WORKER_TRAP_MAX + 1];
    };
    int fds[PLIM_HOST_WORKER_FDS]; /* of a `W`, else -1; the receiver's to close */
} wasm_packet;

typedef enum { WASM_PACKET_OK, WASM_PACKET_NONE, WASM_PACKET_GONE } wasm_packet_result;

/* Close what came with it and was not taken over. */
void wasm_packet_close(wasm_packet *packet);

/* The next packet without waiting. GONE: end of file, an error or a packet that no host sends. */
wasm_packet_result wasm_host_receive(wasm_host *host, wasm_packet *out);

#endif
