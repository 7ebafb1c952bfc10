/*
 * The door of the rpc layer: unary procedures over http requests, in Connect, gRPC and gRPC-Web.
 * The transport (this header) serves any table of methods; rpc/sandbox.h has the five of plimsoll.
 *
 * The checks before a message is decoded come in this order: authenticate, scope, declared length,
 * decode slot, protocol; then the body is read, decoded, and given to the method. Checks and
 * methods marked `on_loop` run on the loop thread, the others on a bounded pool of workers. Every
 * answer is bound to its request.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include "http/http.h"
#include "wire/wire.h"

typedef struct rpc_server rpc_server;
typedef struct rpc_call rpc_call;

/* ---- methods ---- */

/*
 * Handle a decoded request. True: `*response` is the answer, a message that lives in the call's
 * arena or until `release`. False: `err` is, marked or not.
 */
typedef bool rpc_handle(rpc_call *call, const void *request, const void **response,
                        plim_error *err);

typedef struct rpc_method {
    const char *path;  /* whole and exact, e.g. "/plimsoll.v1.SandboxService/Run" */
    const char *scope; /* that a caller must have; NULL: denied to every caller */
    const wire_type *request;
    rpc_handle *handle;
    void (*release)(rpc_call *call); /* after the answer was encoded; may be NULL */
    bool on_loop; /* never blocks: may run on the loop thread, when the message is small */
} rpc_method;

/* ---- callers ---- */

/* Who calls, as the authenticator knows it; borrowed from it for the call. */
typedef struct rpc_caller {
    plim_bytes id;     /* "anon" without authentication */
    const void *known; /* the authenticator's own */
} rpc_caller;

typedef enum {
    RPC_AUTH_KNOWN,
    RPC_AUTH_UNKNOWN,
    RPC_AUTH_FAILED /* could not be told: `unavailable`, and the cause only in the log */
} rpc_auth_verdict;

/* Loop thread only. */
typedef struct rpc_authenticator {
    rpc_auth_verdict (*verify)(void *data, plim_bytes token, rpc_caller *out);
    bool (*has_scope)(void *data, const rpc_caller *caller, const char *scope);
    void (*refused)(void *data); /* a missing, unknown or unusable credential was answered */
    void *data;
} rpc_authenticator;

/* ---- the server ---- */

typedef struct rpc_config {
    const rpc_method *methods; /* borrowed for the server's life */
    size_t method_count;
    const char *prefix;            /* of the service's paths, e.g. "/plimsoll.v1.SandboxService/" */
    const rpc_authenticator *auth; /* NULL: every caller is "anon" and may call. Borrowed */
    /* Full name of the message that a marked error has as a detail; NULL: marks are not written. */
    const char *mark_type;
    /* Copies what a caller may see of a method's error; NULL: all of it. Any thread. */
    void (*conceal)(const plim_error *err, plim_error *shown);
    size_t message_bytes_max; /* as sent, and inflated */
    size_t decode_slots;      /* calls between their header and their handler; >= 1 */
    size_t workers_max;       /* threads; >= 1. Started when there is work for them */
    void *data;               /* for the methods: rpc_call_data */
} rpc_config;

/* The contract's bound of a message. */
enum { RPC_MESSAGE_BYTES_MAX = 8 * 1024 * 1024 };

rpc_server *rpc_server_new(const rpc_config *config, plim_error *err) PLIM_MUST_USE;
/* Waits for the calls that workers have. NULL allowed. After the http server has stopped. */
void rpc_server_free(rpc_server *server);
BASE_CLEANUP_FN(rpc_server, rpc_server_free, rpc_server_freep)

/* From http_handler.on_request: true when the path is of this service and the request is taken;
 * else it is the caller's to answer. */
bool rpc_take(rpc_server *server, http_request *req);

/*
 * What binds an answer to its request: the headers that every answer written outside a method has
 * (health checks, unknown paths). `req` may be NULL. Fills `out` and returns how many. Values are
 * borrowed from `req`.
 */
enum { RPC_BIND_HEADERS_MAX = 2 };
size_t rpc_bind(const http_request *req, int status, http_header out[RPC_BIND_HEADERS_MAX]);

/* The same for http_handler.on_refusal: a 500 there stands in for an answer that a method gave, and
 * so says nothing of what ran. */
size_t rpc_bind_refusal(const http_request *req, int status, http_header out[RPC_BIND_HEADERS_MAX]);

/* ---- a call, for its method ---- */

void *rpc_call_data(const rpc_call *call);
/* What the method keeps from `handle` to `release`. */
void rpc_call_set_state(rpc_call *call, void *state);
void *rpc_call_state(const rpc_call *call);
base_arena *rpc_call_arena(rpc_call *call);
const rpc_caller *rpc_call_caller(const rpc_call *call);
const http_request *rpc_call_http(const rpc_call *call);
/* Did the request carry exactly one well-formed request ID? */
bool rpc_call_has_request_id(const rpc_call *call);
/* The caller's own deadline (BASE_NEVER for none) and its going away. */
run_ctx rpc_call_ctx(const rpc_call *call);

/* Add to the answer; the bytes are borrowed until it is sent. False when there are too many. A
 * trailer of Connect is a header `trailer-<name>`. */
bool rpc_call_add_header(rpc_call *call, plim_bytes name, plim_bytes value);
bool rpc_call_add_trailer(rpc_call *call, plim_bytes name, plim_bytes value);

/* Add a detail to the error that `handle` is about to return, before the mark's own. `type` is a
 * full message name. False when there are too many. */
bool rpc_call_add_detail(rpc_call *call, plim_bytes type, plim_bytes value);

/* ---- plimsoll's own ---- */

#include "rpc/sandbox.h"

#endif
