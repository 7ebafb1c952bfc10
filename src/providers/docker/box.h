/*
 * One container: made, attached, started, fed, listened to, given up. Straight-line blocking code
 * on the thread of a run, every wait through its context. A box belongs to one thread at a time,
 * and its container is always handed to the keeper in the end.
 */
#ifndef DOCKER_BOX_H
#define DOCKER_BOX_H

#include "providers/docker/body.h"
#include "providers/docker/capture.h"
#include "providers/docker/demux.h"
#include "providers/docker/keeper.h"
#include "providers/docker/state.h"

/* What a container is made from, beside the state. */
typedef struct docker_launch {
    const core_settings *settings;
    docker_keeper *keeper;
    docker_kind kind;
    const char *prefix; /* of its name */
    int64_t budget_ms;  /* until its label ends */
    const char *const *argv;
    size_t argc;
    bool work;
    bool detached;      /* neither attached nor removed by itself */
    const char *socket; /* NULL for none */
} docker_launch;

typedef struct docker_box {
    docker_keeper *keeper;
    docker_state *state;
    char name[DOCKER_NAME_MAX], id[BASE_SHA256_HEX + 1];
    net_conn *attach, *wait;
    net_answer wait_answer;
    docker_demux demux;
    docker_capture capture;
    int pidfd;          /* of its first process, while it waits in a pool; else -1 */
    int64_t started_ns; /* when its start was asked for */
    bool supervised;    /* a snippet whose first process is our own */
    bool streams_ended, exited, stdin_closed;
    bool told; /* by its first process how it ended: `last`, before the Engine says it */
    bool sent; /* a byte of the caller's may have reached it */
    int exit_code;
    struct ctl_end last;
    struct docker_asked {
        bool memory, pids;
    } asked; /* limits that were found from outside to have ended or refused work */
    struct docker_watch {
        int64_t pid;     /* of the sandbox; 0: not asked yet, -1: unknown */
        int64_t lost_ns; /* when the kernel was seen to have killed a part of it; 0: not */
        bool killed;     /* so it was ended */
    } watch;             /* under gVisor */
} docker_box;

typedef enum {
    DOCKER_BOX_ENDED,   /* exit status known, nothing more can come */
    DOCKER_BOX_STOPPED, /* by the context; `why` */
    DOCKER_BOX_BROKEN   /* a connection, or what came over it; `fault` */
} docker_box_end;

typedef struct docker_box_outcome {
    docker_box_end end;
    run_wait why;
    char fault[DOCKER_FAULT_BYTES_MAX];
} docker_box_outcome;

/* Takes a hold of the state. `capture` is taken too, whatever comes of it. */
void docker_box_init(docker_box *box, docker_state *state, docker_capture *capture);

/*
 * Create, attach, begin to wait, start. False: an error, marked only when nothing was started; the
 * box must be disposed of all the same.
 */
bool docker_box_launch(docker_box *box, const docker_launch *launch, const run_ctx *ctx,
                       plim_error *err);

/*
 * Write the input and end stdin, take in both streams until the end: as the first process tells
 * it in frames that verify, or where it cannot, or is killed, as the Engine does.
 */
void docker_box_run(docker_box *box, plim_bytes input, const run_ctx *ctx,
                    docker_box_outcome *outcome);

/* Only until the start marker was seen. False: it did not come; `outcome` says how it ended. */
bool docker_box_await_start(docker_box *box, const run_ctx *ctx, docker_box_outcome *outcome);

/*
 * Ask from outside which limits ended or refused work, where its first process does not tell: the
 * kernel of this host while the container is there, the Engine after. Adds to `asked`.
 */
void docker_box_ask(docker_box *box);

/* Close everything and have the container removed; `slot` is held until it is gone. */
void docker_box_dispose(docker_box *box, core_slot *slot, void (*gone)(void *), void *data);
/* The same, and wait until it is gone. */
bool docker_box_dispose_now(docker_box *box);

#endif
