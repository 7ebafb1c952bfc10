/*
 * A daemon as a test wants it: a real socket on loopback, a thread for each connection, and a
 * script that sees every request and writes whatever bytes it likes. It also knows how to answer
 * well, so that a script can answer well but for one thing.
 */
#ifndef TEST_CLIENT_SERVER_H
#define TEST_CLIENT_SERVER_H

#include "client/client.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct server server;

/* One connection: plain or TLS. */
typedef struct server_conn {
    server *server;
    int fd;
    SSL *ssl;
    int number; /* from 1, in the order of arrival */
} server_conn;

/* A request: its head as text, and its body once it was read. */
typedef struct server_request {
    char head[16384];
    char id[128]; /* of Plimsoll-Request-Id */
    char path[512];
    char *body;
    size_t body_len, content_length;
    int on_connection; /* the number of the request on its connection, from 1 */
} server_request;

/* Writes the answer; false closes the connection. */
typedef bool server_script(server_conn *conn, server_request *request);

struct server {
    int listen_fd;
    int port;
    char url[64];
    SSL_CTX *tls;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows but the counters */
    pthread_cond_t idle;
    int open_fds[256];
    size_t open_count;
    bool stopping;

    atomic_int connections, requests; /* a request is counted when its head was read */

    server_script *on_head; /* before the body is read; may be NULL. False ends the connection */
    server_script *on_request;
    const void *arg; /* the script's */
};

/* Listen on a free port of 127.0.0.1 and serve until server_stop. With `tls`, takes the context. */
void server_start(server *out, server_script *on_request, const void *arg, SSL_CTX *tls);
void server_stop(server *self);

/* Wait until the script has closed every connection. */
void server_wait_closed(server *self);

/* A port on loopback that nothing listens on. */
int server_closed_port(void);

void server_write(server_conn *conn, const void *bytes, size_t size);
void server_printf(server_conn *conn, const char *format, ...) PLIM_PRINTF(2, 3);

/* A whole answer with the request's own ID; `headers` are more lines, each with CRLF. */
void server_answer(server_conn *conn, const server_request *request, int status, const char *type,
                   const char *headers, plim_bytes body);

/* How a good answer to a run is spoiled: each may be NULL. */
typedef struct server_spoiler {
    void (*result)(plim_result *result);          /* before digests are taken */
    void (*record)(plim_record *record);          /* before the record's own digest is taken */
    void (*sealed)(plim_record *record);          /* after it */
    void (*message)(wire_run_response *response); /* the finished message */
} server_spoiler;

/* The bytes of a good answer to a request for a run, spoiled; the caller frees the buffer. */
void server_run_answer(const server_request *request, const server_spoiler *spoiler, base_buf *out);

/* Answer a Describe with this. */
bool server_describe(server_conn *conn, const server_request *request,
                     const core_description *about);

/* Answer a Run well, and a Describe as a daemon of protocol 3. A server_script. */
bool server_good(server_conn *conn, server_request *request);

/* A self-signed certificate for 127.0.0.1 and its key, written to `pem_path` for a client to trust.
 */
SSL_CTX *server_tls(const char *pem_path);

/* Does the request have this header line, ignoring case of the name? */
bool server_has_line(const server_request *request, const char *line);

/* ---- the other side ---- */

/* A client of the server's URL; `timeout_ms` 0 for the default. Ends the test when it cannot be. */
client *server_client(const server *self, int64_t timeout_ms, const char *token);

/* The same with the token `the-token` and a recorder. */
client *server_recorded_client(const server *self, const plim_recorder *recorder);

/* Run `code` as a snippet; the status. `*out` and `*err` are the caller's. */
plim_status run_snippet(client *self, const char *code, plim_result **out, plim_error *err);

#endif
