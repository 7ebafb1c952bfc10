/*
 * The Engine's HTTP API over its Unix socket: whole, bounded answers over kept connections, and
 * connections of their own for what streams. Wording of the Engine is never interpreted, and what
 * of it goes into a message is cut and printable. Shared by threads; the mutex guards the idle
 * connections.
 */
#ifndef DOCKER_ENGINE_H
#define DOCKER_ENGINE_H

#include "core/core.h"

#include "net/net.h"

enum {
    DOCKER_ANSWER_BYTES_MAX = 4 * 1024 * 1024,
    DOCKER_FAULT_BYTES_MAX = 200, /* of the Engine's text in a message */
    DOCKER_API_LEAST = 41,        /* /v1.41 */
    DOCKER_API_NEWEST = 49,       /* the newest that this client knows */
    DOCKER_API_PLATFORM = 49,     /* image inspection by platform */
};

typedef struct docker_engine docker_engine;

/* `fault` of a whole answer is the Engine's message; else what went wrong on the way. */
typedef struct docker_reply {
    net_end end;
    int status;
    base_buf body;
    char fault[DOCKER_FAULT_BYTES_MAX];
} docker_reply;

void docker_reply_free(docker_reply *reply);
#define _cleanup_reply_ _cleanup_(docker_reply_free)

/* Was it answered, with a status of 2xx? */
bool docker_reply_ok(const docker_reply *reply);

/* `what` and how it ended, as one line: "create: the Engine answered 500: no space". */
const char *docker_reply_text(const docker_reply *reply, const char *what, char *out, size_t size);

docker_engine *docker_engine_new(const char *socket_path) PLIM_MUST_USE;
void docker_engine_free(docker_engine *engine);
const char *docker_engine_path(const docker_engine *engine);

/* Ask for the API version and keep it. False: refused, `environment`. */
bool docker_engine_hello(docker_engine *engine, const run_ctx *ctx, plim_error *err);
int docker_engine_api(const docker_engine *engine);

/* One call: `target` without the version, `body` JSON or nothing. Always fills `reply`. */
void docker_engine_call(docker_engine *engine, const char *method, const char *target,
                        plim_bytes body, const run_ctx *ctx, docker_reply *reply);

/*
 * A call that the Engine answers 200 at once and completes later, on a connection of its own;
 * net_conn_receive_some goes on with `answer`. NULL: `reply` says why.
 */
net_conn *docker_engine_begin(docker_engine *engine, const char *method, const char *target,
                              const run_ctx *ctx, net_answer *answer,
                              docker_reply *reply) PLIM_MUST_USE;

/* An upgraded connection, ready for raw bytes both ways. NULL: `reply` says why. */
net_conn *docker_engine_upgrade(docker_engine *engine, const char *target, const run_ctx *ctx,
                                docker_reply *reply) PLIM_MUST_USE;

#endif
