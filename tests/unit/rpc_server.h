/*
 * For the tests of the rpc layer: a server on a loopback port with a provider that records what it
 * is asked, and a client that sends bytes as given and reads one answer.
 */
#ifndef TESTS_RPC_SERVER_H
#define TESTS_RPC_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rpc/rpc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* ---- the provider ---- */

typedef struct fake_provider {
    core_provider base;
    _Atomic int runs;           /* how often it was asked */
    plim_tier tier;             /* that it states */
    char software_identity[64]; /* that it states */
    /* What `run` does: NULL answers a snippet that printed "ok\n". */
    bool (*run)(const core_request *request, const run_ctx *ctx, plim_result **out,
                plim_error *err);
    core_request last; /* kind of the last request, and its members copied */
    plim_run_options last_options;
    int64_t last_deadline_ns;
} fake_provider;

static fake_provider fake;

static bool fake_preflight(core_provider *provider, const run_ctx *ctx, plim_error *err)
{
    (void)provider, (void)ctx, (void)err;
    return true;
}

static void fake_free(core_provider *provider)
{
    (void)provider;
}

static void fake_describe(core_provider *provider, core_description *out)
{
    (void)provider;
    *out = (core_description){
        .provider = "fake", .tier = fake.tier, .supports = {[PLIM_KIND_JAVASCRIPT] = true}};
    core_environment *environment = &out->environment[PLIM_KIND_JAVASCRIPT];
    snprintf(environment->identity, sizeof(environment->identity), "fake:sha256:00");
    snprintf(environment->software_identity, sizeof(environment->software_identity), "%s",
             fake.software_identity);
    environment->max_timeout_ms = 30000;
}

static inline plim_result *fake_result(plim_kind kind)
{
    plim_result *result = core_result_new(kind);
    assert_non_null(result);
    result->provider = "fake";
    result->isolation = plim_tier_name(fake.tier);
    result->tier = fake.tier;
    result->out = PLIM_LIT("ok\n");
    result->duration_ms = 12;
    return result;
}

static bool fake_run(core_provider *provider, const core_request *request, plim_bytes principal,
                     const run_ctx *ctx, plim_result **out, plim_error *err)
{
    (void)provider, (void)principal;
    fake.last = *request;
    fake.last_options = *request->options;
    fake.last_deadline_ns = ctx->deadline_ns;
    fake.runs++;
    if (fake.run)
        return fake.run(request, ctx, out, err);
    *out = fake_result(PLIM_KIND_JAVASCRIPT);
    return true;
}

static const core_provider_ops fake_ops = {.name = "fake",
                                           .free = fake_free,
                                           .preflight = fake_preflight,
                                           .describe = fake_describe,
                                           .run = fake_run};

/* ---- callers: a token is an id, but for a few ---- */

static _Atomic int refused_credentials;

static rpc_auth_verdict fake_verify(void *data, plim_bytes token, rpc_caller *out)
{
    (void)data;
    if (base_bytes_is(token, "broken"))
        return RPC_AUTH_FAILED;
    if (base_bytes_is(token, "unknown"))
        return RPC_AUTH_UNKNOWN;
    static char id[64];
    snprintf(id, sizeof(id), "%.*s", (int)token.len, token.data);
    *out = (rpc_caller){plim_bytes_of(id), NULL};
    return RPC_AUTH_KNOWN;
}

static bool fake_has_scope(void *data, const rpc_caller *caller, const char *scope)
{
    (void)data;
    assert_string_equal(scope, RPC_SCOPE_RUN);
    return !base_bytes_is(caller->id, "scopeless");
}

static void fake_refused(void *data)
{
    (void)data;
    refused_credentials++;
}

static const rpc_authenticator fake_auth = {fake_verify, fake_has_scope, fake_refused, NULL};

/* ---- the server ---- */

static struct {
    core_gate *gate;
    rpc_sandbox sandbox;
    rpc_server *rpc;
    http_server *http;
    http_listener *listener;
    pthread_t thread;
    _Atomic int events; /* dispatched calls */
    char event_caller[64], event_trace[80], event_error[128];
    bool event_trace_rejected;
} server;

static void note_event(void *data, const rpc_dispatched *event)
{
    (void)data;
    server.events++;
    snprintf(server.event_caller, sizeof(server.event_caller), "%.*s", (int)event->caller.len,
             event->caller.data);
    snprintf(server.event_trace, sizeof(server.event_trace), "%.*s", (int)event->trace_id.len,
             event->trace_id.len ? event->trace_id.data : "");
    snprintf(server.event_error, sizeof(server.event_error), "%s",
             event->error ? plim_error_message(event->error) : "");
    server.event_trace_rejected = event->trace_id_rejected;
}

static void on_request(http_request *req, void *data)
{
    (void)data;
    if (rpc_take(server.rpc, req))
        return;
    bool health = base_bytes_is(http_request_path(req), "/healthz");
    int status = health ? 200 : 404;
    http_header headers[RPC_BIND_HEADERS_MAX];
    size_t count = rpc_bind(req, status, headers);
    http_respond(req, &(http_answer){.status = status, .headers = headers, .header_count = count});
}

static size_t on_refusal(const http_request *req, int status,
                         http_header out[HTTP_REFUSAL_HEADERS_MAX], void *data)
{
    (void)data;
    return rpc_bind_refusal(req, status, out);
}

static void *run_server(void *data)
{
    (void)data;
    assert_true(http_server_run(server.http, NULL));
    return NULL;
}

typedef struct server_options {
    const rpc_authenticator *auth;
    size_t decode_slots; /* 0: as for 8 runs */
    core_limits limits;
} server_options;

static inline void start_server(server_options options)
{
    plim_error err = PLIM_ERROR_INIT;
    rpc_config config;
    fake.base.ops = &fake_ops;
    fake.tier = PLIM_TIER_PROCESS;
    fake.run = NULL;
    fake.runs = server.events = refused_credentials = 0;
    fake.software_identity[0] = '\0';
    core_limits limits = options.limits.max_concurrent ? options.limits : (core_limits){8, 0, 0, 0};
    server.gate = core_gate_new(&fake.base, &limits, PLIM_TIER_UNKNOWN);
    server.sandbox = (rpc_sandbox){server.gate, note_event, NULL};
    rpc_sandbox_config(&server.sandbox, 8, &config);
    config.auth = options.auth;
    if (options.decode_slots)
        config.decode_slots = options.decode_slots;
    server.rpc = rpc_server_new(&config, &err);
    server.http = http_server_new(&err);
    assert_true(server.gate && server.rpc && server.http);
    http_listener_config listen = {.name = "rpc",
                                   .address = "127.0.0.1:0",
                                   .limits = http_limits_default(),
                                   .handler = {.on_request = on_request, .on_refusal = on_refusal}};
    server.listener = http_server_listen(server.http, &listen, &err);
    assert_non_null(server.listener);
    http_listener_start(server.listener);
    assert_int_equal(pthread_create(&server.thread, NULL, run_server, NULL), 0);
}

static inline void stop_server(void)
{
    http_listener_drain(server.listener, 100, NULL, NULL);
    pthread_join(server.thread, NULL);
    rpc_server_free(server.rpc);
    http_server_free(server.http);
    core_gate_free(server.gate);
}

static int setup_open(void **state)
{
    (void)state;
    start_server((server_options){.auth = NULL});
    return 0;
}

static inline int setup_auth(void **state)
{
    (void)state;
    start_server((server_options){.auth = &fake_auth});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop_server();
    return 0;
}

/* ---- the client ---- */

typedef struct answer {
    int status;
    char head[4096]; /* in lower case up to each colon */
    char body[65536];
    size_t body_len;
    bool closed; /* the server ended the connection after it */
} answer;

static inline int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_listener_port(server.listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

static inline void send_all(int fd, plim_bytes bytes)
{
    while (bytes.len) {
        ssize_t sent = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* refused before it was read: the answer says so */
        bytes = (plim_bytes){bytes.data + sent, bytes.len - (size_t)sent};
    }
}

/* The value of a header of the answer, or NULL; static. `nth` from 0. */
static inline const char *header_of(const answer *a, const char *name, int nth)
{
    static char value[512];
    char line[128];
    snprintf(line, sizeof(line), "\n%s: ", name);
    const char *at = a->head;
    while ((at = strcasestr(at, line))) {
        at += strlen(line);
        if (nth-- > 0)
            continue;
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
        return value;
    }
    return NULL;
}

/*
 * recv() that goes on after an interruption, which the kernel does not do by itself under a time
 * limit. Newer releases of libuv cause some: their io_uring interrupts the thread that made it.
 */
static inline ssize_t recv_on(int fd, void *to, size_t room, int flags)
{
    ssize_t got;

    do
        got = recv(fd, to, room, flags);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Reads one answer with a content-length. */
static inline void receive(int fd, answer *out)
{
    memset(out, 0, sizeof(*out));
    size_t have = 0;
    char *end = NULL;
    while (!end && have < sizeof(out->head) - 1) {
        ssize_t got = recv_on(fd, out->head + have, 1, 0);
        if (got <= 0)
            fail_msg("no answer: %s", out->head);
        have += (size_t)got;
        end = strstr(out->head, "\r\n\r\n");
    }
    assert_int_equal(sscanf(out->head, "HTTP/1.1 %d", &out->status), 1);
    const char *length = header_of(out, "content-length", 0);
    size_t want = length ? strtoul(length, NULL, 10) : 0;
    assert_true(want < sizeof(out->body));
    while (out->body_len < want) {
        ssize_t got = recv_on(fd, out->body + out->body_len, want - out->body_len, 0);
        assert_true(got > 0);
        out->body_len += (size_t)got;
    }
    const char *connection = header_of(out, "connection", 0);
    out->closed = connection && strcasecmp(connection, "close") == 0;
}

/* One exchange on a connection of its own. */
static inline void exchange(plim_bytes request, answer *out)
{
    int fd = dial();
    send_all(fd, request);
    receive(fd, out);
    close(fd);
}

#define PROCEDURE "/plimsoll.v1.SandboxService/"

/* POST a body to a procedure with headers ("Name: value\r\n" each). */
static inline void post_bytes(const char *name, const char *headers, plim_bytes body, answer *out)
{
    base_buf request = BASE_BUF_INIT(16 << 20);
    base_buf_printf(&request,
                    "POST " PROCEDURE "%s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n%s\r\n",
                    name, body.len, headers);
    base_buf_add(&request, body);
    exchange(base_buf_bytes(&request), out);
    base_buf_free(&request);
}

#define JSON_TYPE "Content-Type: application/json\r\n"

static inline void post(const char *name, const char *headers, const char *json, answer *out)
{
    char all[1024];
    snprintf(all, sizeof(all), JSON_TYPE "%s", headers);
    post_bytes(name, all, plim_bytes_of(json), out);
}

/* ---- what an answer must be ---- */

#define RUN_JSON(members) "{\"protocol\":3,\"javascript\":{\"code\":\"1\"}" members "}"

#define CAY "CAY" /* capacity */

/* An error of Connect: status, code, and the one detail's base64 ("" for none). */
static inline void is_error(const answer *a, int status, const char *code, const char *mark)
{
    char want[128];
    if (a->status != status)
        fail_msg("status %d, not %d: %s", a->status, status, a->body);
    snprintf(want, sizeof(want), "{\"code\":\"%s\"", code);
    if (strncmp(a->body, want, strlen(want)) != 0)
        fail_msg("not %s: %s", code, a->body);
    snprintf(want, sizeof(want),
             "\"details\":[{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":\"%s\"}]}", mark);
    bool has = strstr(a->body, "\"details\"") != NULL;
    if (*mark ? !strstr(a->body, want) : has)
        fail_msg("mark is not \"%s\": %s", mark, a->body);
}

static inline void has_header(const answer *a, const char *name, const char *value)
{
    const char *have = header_of(a, name, 0);
    if (value ? !have || strcmp(have, value) != 0 : have != NULL)
        fail_msg("header %s is %s, not %s", name, have ? have : "absent", value ? value : "absent");
    if (value && header_of(a, name, 1))
        fail_msg("header %s is there twice", name);
}

#endif
