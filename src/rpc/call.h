/*
 * A call from its header to its answer. One thread has it at a time: the loop, then perhaps a
 * worker. It is freed by the function that answers it.
 */
#ifndef RPC_CALL_H
#define RPC_CALL_H

#include "rpc/rpc.h"

#include "rpc/pool.h"
#include "rpc/slots.h"

typedef enum { RPC_CONNECT, RPC_GRPC, RPC_GRPC_WEB } rpc_protocol;

/* The envelope of gRPC and gRPC-Web: a byte of flags and a length of four. */
enum { RPC_ENVELOPE_BYTES = 5, RPC_ENVELOPE_COMPRESSED = 1, RPC_ENVELOPE_TRAILERS = 0x80 };

/* What a call's headers said about protocol. */
typedef struct rpc_framing {
    rpc_protocol protocol;
    wire_codec codec;
    plim_bytes content_type; /* as sent, for the answer */
    bool request_gzip;       /* the message may be compressed */
    bool answer_gzip;        /* compress the answer */
    int64_t deadline_ns;     /* the caller's; BASE_NEVER for none */
} rpc_framing;

/* What a method may add to its answer. */
enum { RPC_EXTRA_HEADERS_MAX = 32, RPC_DETAILS_MAX = 8 };

typedef struct rpc_detail {
    plim_bytes type, value;
} rpc_detail;

typedef struct rpc_extras {
    http_header headers[RPC_EXTRA_HEADERS_MAX], trailers[RPC_EXTRA_HEADERS_MAX];
    size_t header_count, trailer_count;
    rpc_detail details[RPC_DETAILS_MAX];
    size_t detail_count;
} rpc_extras;

struct rpc_call {
    rpc_task task; /* of the pool */
    rpc_server *server;
    http_request *req;
    const rpc_method *method;
    rpc_caller caller;
    rpc_framing framing;
    int64_t received_ns; /* monotonic */
    bool has_slot;
    bool reached; /* "handler reached": from here on the error's own detail decides */
    int cancel_fd;
    base_arena *arena;  /* NULL until the message is decoded */
    base_buf inflated;  /* the message, when it was compressed */
    rpc_extras *extras; /* in the arena; NULL while there are none */
    void *state;
};

struct rpc_server {
    rpc_config config;
    rpc_slots slots;
    rpc_pool *pool;
};

/* ---- steps (each file has its own) ---- */

/* auth.c: authenticate the caller, then look for the scope. */
bool rpc_authenticate(rpc_call *call, plim_error *err);

/* auth.c: the token of an Authorization header; no bytes when it has none. Pure. */
plim_bytes rpc_bearer_token(plim_bytes header);

/* protocol.c: read protocol and codec from the content type; false: not one that is served. Pure.
 */
bool rpc_read_content_type(plim_bytes value, rpc_framing *out);

/* protocol.c: the protocol's headers: version, encodings, timeout. `framing` has what the content
 * type said. Errors are the transport's own: unmarked. */
bool rpc_read_headers(const http_request *req, int64_t received_ns, rpc_framing *framing,
                      plim_error *err);

/* protocol.c: timeouts as text to a deadline; false: malformed. Pure. */
bool rpc_connect_timeout(plim_bytes text, int64_t now_ns, int64_t *deadline_ns);
bool rpc_grpc_timeout(plim_bytes text, int64_t now_ns, int64_t *deadline_ns);

/* body.c: the message in a body: framing undone and inflated into `inflated` if it was compressed.
 * Pure. */
bool rpc_unwrap(const rpc_framing *framing, plim_bytes body, size_t bytes_max, base_buf *inflated,
                plim_bytes *message, plim_error *err);

/* gzip.c. Inflate appends at most what `out` may hold. Pure. */
typedef enum {
    RPC_GZIP_OK,
    RPC_GZIP_MALFORMED,
    RPC_GZIP_TOO_LARGE,
    RPC_GZIP_NOMEM
} rpc_gzip_outcome;
rpc_gzip_outcome rpc_inflate(plim_bytes in, base_buf *out);
bool rpc_deflate(plim_bytes in, base_buf *out);

/* call.c: the life of a call after its header; takes it. */
void rpc_call_on_body(http_request *req, http_body_outcome outcome, void *data);
void rpc_call_free(rpc_call *call);

/* answer.c: answer and free the call. */
void rpc_answer_message(rpc_call *call, const void *message);
void rpc_answer_error(rpc_call *call, const plim_error *err);
void rpc_answer_status(rpc_call *call, int status, http_header extra);

/* error.c: how an error is written, a mark as a detail of `mark_type` (NULL: not at all). Pure. */
bool rpc_error_json(const plim_error *err, const rpc_extras *extras, const char *mark_type,
                    base_buf *out);
/* grpc-message and grpc-status-details-bin (empty without details). */
bool rpc_error_grpc(const plim_error *err, const rpc_extras *extras, const char *mark_type,
                    base_buf *message, base_buf *details);

/* bind.c: the request's ID when it has exactly one that is well formed. */
bool rpc_request_id(const http_request *req, plim_bytes *id);

/* The encodings that are served, as text of headers and errors. */
#define RPC_ENCODINGS "gzip"

#endif
