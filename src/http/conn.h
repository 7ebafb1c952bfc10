/*
 * One connection: the socket, its timer, TLS if any, and the protocol that speaks on it. Things
 * happen in turns (bytes arrived, a write ended, time passed, an answer came): the protocol reacts,
 * then http_conn_settle sends what there is, decides about reading, and arms the timer. Nothing is
 * freed inside a turn. Loop thread only.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "http/request.h"
#include "http/server.h"

typedef struct http_tls http_tls;

typedef struct http_proto {
    /* Begin on `conn`; false when out of memory. */
    bool (*open)(http_conn *conn);
    void (*free)(http_conn *conn);
    /* Bytes from the client: use them or keep them. */
    void (*input)(http_conn *conn, plim_bytes bytes);
    /* The client sends no more. */
    void (*eof)(http_conn *conn);
    /* Does it want to read more now? */
    bool (*wants_input)(const http_conn *conn);
    /* Append output to server->out; true when there is more than it appended. */
    bool (*pull)(http_conn *conn);
    /* Take over `answer` for `req` and free `req`. */
    void (*answer)(http_conn *conn, http_request *req, const http_answer *answer);
    /* Handle what is due at `now`; when to ask again (INT64_MAX: never). */
    int64_t (*tick)(http_conn *conn, int64_t now);
    /* Finish what is in flight, begin nothing new. */
    void (*drain)(http_conn *conn);
} http_proto;

extern const http_proto http_proto_h1, http_proto_h2;

struct http_conn {
    uv_tcp_t tcp;
    uv_timer_t timer;
    http_server *server;
    http_listener *listener;
    http_conn *prev, *next; /* of the listener */
    http_request *requests; /* every one not yet answered */
    size_t request_count;
    const http_proto *proto; /* NULL until the first bytes or the handshake decide */
    void *state;             /* the protocol's */
    http_tls *tls;           /* NULL for cleartext */
    int64_t accepted_ms;
    int64_t armed_ms;     /* when the timer fires; INT64_MAX: not armed */
    int64_t linger_until; /* while lingering */
    size_t writes;        /* not yet done: the socket is full */
    int64_t blocked_ms;   /* since when, while there are */
    unsigned handles;     /* open */
    bool reading;
    bool eof;       /* the client sends no more */
    bool broken;    /* close now, without ceremony */
    bool lingering; /* everything was said: flush, shut, discard input, close */
    bool shut;
    bool closing; /* handles are being closed */
    unsigned char sniffed;
    char sniff[4];
    char peer[56];
};

/* Take over the accepted socket `fd` (closed on failure). */
void http_conn_open(http_listener *listener, int fd, const struct sockaddr *peer);

/* End a turn. The connection may be closing afterwards. */
void http_conn_settle(http_conn *conn);

/* Everything was said and given to server->out: close once it has been received. */
void http_conn_linger(http_conn *conn);

/* Has the peer closed its side? For a connection that is not being read, which would tell. */
bool http_conn_peer_left(const http_conn *conn);

/* Begin to drain, and close if nothing is in flight. */
void http_conn_drain(http_conn *conn);

/* Close now, cancel its requests. */
void http_conn_kill(http_conn *conn);

/* Ask the handler for headers to add to an answer of the server's own and give that answer to
 * `send`. `req` may be NULL. */
void http_conn_refuse(http_conn *conn, http_request *req, int status,
                      void (*send)(http_conn *conn, http_request *req, const http_answer *answer));

/* The request joins or leaves the connection's list. */
void http_conn_link(http_conn *conn, http_request *req);
void http_conn_unlink(http_request *req);

#endif
