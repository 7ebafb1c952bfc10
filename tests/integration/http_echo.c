/*
 * A server over the http layer alone, for its tests. Prints one line "listening ADDRESS" per
 * listener and serves until SIGTERM, then drains.
 *
 *   http_echo [--limit NAME=VALUE | --drain-ms N | --cert FILE --key FILE |
 *              --listen ADDRESS | --tls-listen ADDRESS]...
 *
 * Options apply to the listeners named after them.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <uv.h>

#include "http/http.h"

enum { LISTENERS_MAX = 4, LIMIT_BODY = 8 << 20 };

typedef struct echo {
    http_server *server;
    http_listener *listeners[LISTENERS_MAX];
    size_t listener_count;
    int64_t drain_ms;
    uv_signal_t signal;
    bool all_clean;
    size_t open;
    atomic_size_t canceled, handled, bodies_gone;
} echo;

static plim_bytes literal(const char *text)
{
    return plim_bytes_of(text);
}

static int64_t query_number(const http_request *req, int64_t fallback)
{
    plim_bytes query = http_request_query(req);
    int64_t value;
    return base_parse_int(query, &value) ? value : fallback;
}

/* ---- answers ---- */

static void answer_buf(http_request *req, const base_buf *text)
{
    const http_header type = {PLIM_LIT("content-type"), PLIM_LIT("text/plain")};
    http_respond(
        req, &(http_answer){
                 .status = 200, .headers = &type, .header_count = 1, .body = base_buf_bytes(text)});
}

static void echo_body(http_request *req, http_body_outcome outcome, void *data)
{
    static const char *const names[] = {"complete",  "too large", "timeout",
                                        "malformed", "gone",      "nomem"};
    static const int statuses[] = {200, 429, 408, 400, 499, 503};
    echo *self = data;
    if (outcome == HTTP_BODY_GONE)
        atomic_fetch_add(&self->bodies_gone, 1);
    if (outcome != HTTP_BODY_COMPLETE) {
        http_respond_text(req, statuses[outcome], names[outcome]);
        return;
    }
    base_buf copy = BASE_BUF_INIT(LIMIT_BODY);
    base_buf_add(&copy, http_request_body(req));
    answer_buf(req, &copy);
    base_buf_free(&copy);
}

static void answer_root(http_request *req, echo *self)
{
    if (http_request_content_length(req) != 0)
        http_read_body(req, LIMIT_BODY, echo_body, self);
    else
        http_respond_text(req, 200, "hello\n");
}

static void answer_limit(http_request *req, echo *self)
{
    http_read_body(req, (size_t)query_number(req, 0), echo_body, self);
}

static void answer_about(http_request *req, echo *self)
{
    (void)self;
    base_buf text = BASE_BUF_INIT(1 << 20);
    plim_bytes method = http_request_method(req), path = http_request_path(req),
               query = http_request_query(req);
    static const char *const versions[] = {"1.0", "1.1", "2"};
    base_buf_printf(&text, "%.*s %.*s [%.*s] %s %s\n", (int)method.len, method.data, (int)path.len,
                    path.data, (int)query.len, query.data ? query.data : "",
                    versions[http_request_version(req)],
                    http_request_is_tls(req) ? "tls" : "clear");
    base_buf_printf(&text, "peer %s\n", http_request_peer(req));
    base_buf_printf(&text, "seconds %" PRId64 "\n",
                    (http_request_deadline_ns(req) - base_monotonic_ns()) / BASE_NS_PER_S);
    http_header header;
    for (size_t i = 0; http_request_header_at(req, i, &header); i++)
        base_buf_printf(&text, "%.*s=%.*s\n", (int)header.name.len, header.name.data,
                        (int)header.value.len, header.value.data);
    base_buf_printf(&text, "x-count %zu\n", http_request_header_count(req, "x"));
    answer_buf(req, &text);
    base_buf_free(&text);
}

static void answer_stats(http_request *req, echo *self)
{
    base_buf text = BASE_BUF_INIT(256);
    base_buf_printf(&text, "canceled=%zu handled=%zu gone=%zu\n", atomic_load(&self->canceled),
                    atomic_load(&self->handled), atomic_load(&self->bodies_gone));
    answer_buf(req, &text);
    base_buf_free(&text);
}

/* A body that is handed over, not copied; each byte tells its place. */
static void answer_large(http_request *req, echo *self)
{
    (void)self;
    size_t length = (size_t)query_number(req, 1 << 20);
    char *body = base_alloc(length, 1);
    for (size_t i = 0; i < length; i++)
        body[i] = (char)('a' + i % 23);
    http_respond(
        req, &(http_answer){
                 .status = 200, .body = {body, length}, .body_free = base_free, .body_data = body});
}

static void answer_trailers(http_request *req, echo *self)
{
    (void)self;
    const http_header type = {PLIM_LIT("content-type"), PLIM_LIT("application/grpc")};
    const http_header trailers[] = {{PLIM_LIT("grpc-status"), PLIM_LIT("0")},
                                    {PLIM_LIT("grpc-message"), PLIM_LIT("fine")}};
    http_respond(req,
                 &(http_answer){.status = 200,
                                .headers = &type,
                                .header_count = 1,
                                .body = query_number(req, 1) ? PLIM_LIT("message") : PLIM_LIT(""),
                                .trailers = trailers,
                                .trailer_count = 2});
}

static void answer_refuse(http_request *req, echo *self)
{
    (void)self;
    http_respond_text(req, 403, "refused");
}

/* Every answer that may not leave as it is. */
static void answer_bad(http_request *req, echo *self)
{
    static const http_header bad[] = {
        {{"x-a", 3}, {"a\r\nx-b: c", 9}},
        {{"x-a", 3}, {"a\0b", 3}},
        {{"X-A", 3}, {"a", 1}},
        {{"x a", 3}, {"a", 1}},
        {{"", 0}, {"a", 1}},
        {{"content-length", 14}, {"1", 1}},
    };
    (void)self;
    size_t index = (size_t)query_number(req, 0) % PLIM_COUNT(bad);
    bool sent =
        http_respond(req, &(http_answer){.status = 200, .headers = &bad[index], .header_count = 1});
    if (sent)
        abort();
}

/* ---- answers from another thread ---- */

typedef struct job {
    http_request *req;
    echo *self;
    run_ctx ctx;
    int64_t wait_ms;
} job;

static void *work(void *arg)
{
    job *task = arg;
    run_ctx ctx = run_ctx_until(&task->ctx, base_deadline_after_ms(task->wait_ms));
    run_wait how = run_ctx_poll(&ctx, NULL, 0);
    if (how == RUN_CANCELED)
        atomic_fetch_add(&task->self->canceled, 1);
    atomic_fetch_add(&task->self->handled, 1);
    http_respond_text(task->req, how == RUN_CANCELED ? 499 : 200,
                      how == RUN_CANCELED ? "canceled\n" : "slept\n");
    base_free(task);
    return NULL;
}

static void start_work(http_request *req, echo *self, int64_t wait_ms)
{
    job *task = base_new(job);
    pthread_t thread;
    pthread_attr_t detached;
    *task = (job){req, self, {BASE_NEVER, http_request_cancel_fd(req)}, wait_ms};
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 128 << 10);
    if (pthread_create(&thread, &detached, work, task) != 0) {
        base_free(task);
        http_respond_text(req, 503, "no thread\n");
    }
    pthread_attr_destroy(&detached);
}

static void slow_with_body(http_request *req, http_body_outcome outcome, void *data)
{
    if (outcome == HTTP_BODY_COMPLETE)
        start_work(req, data, query_number(req, 0));
    else
        echo_body(req, outcome, data);
}

static void answer_slow(http_request *req, echo *self)
{
    if (http_request_content_length(req) != 0)
        http_read_body(req, LIMIT_BODY, slow_with_body, self);
    else
        start_work(req, self, query_number(req, 0));
}

/* ---- the handler ---- */

static const struct {
    const char *path;
    void (*answer)(http_request *req, echo *self);
} routes[] = {
    {"/", answer_root},         {"/limit", answer_limit}, {"/about", answer_about},
    {"/stats", answer_stats},   {"/large", answer_large}, {"/trailers", answer_trailers},
    {"/refuse", answer_refuse}, {"/bad", answer_bad},     {"/slow", answer_slow},
};

static void on_request(http_request *req, void *data)
{
    plim_bytes path = http_request_path(req);
    for (size_t i = 0; i < PLIM_COUNT(routes); i++)
        if (base_bytes_is(path, routes[i].path)) {
            routes[i].answer(req, data);
            return;
        }
    http_respond_text(req, 404, "not found\n");
}

static size_t on_refusal(const http_request *req, int status,
                         http_header out[HTTP_REFUSAL_HEADERS_MAX], void *data)
{
    size_t count = 0;
    plim_bytes id;
    (void)status, (void)data;
    out[count++] = (http_header){literal("x-refused"), literal(req ? "head" : "bytes")};
    if (req && http_request_header(req, "x-id", &id))
        out[count++] = (http_header){literal("x-id"), id};
    return count;
}

/* ---- the program ---- */

static void on_drained(bool clean, void *data)
{
    echo *self = data;
    self->all_clean = self->all_clean && clean;
    if (--self->open == 0) {
        printf("drained %s\n", self->all_clean ? "clean" : "hard");
        fflush(stdout);
        uv_close((uv_handle_t *)&self->signal, NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    echo *self = handle->data;
    (void)number;
    for (size_t i = 0; i < self->listener_count; i++)
        http_listener_drain(self->listeners[i], self->drain_ms, on_drained, self);
}

static void set_limit(http_limits *limits, const char *setting)
{
    const char *equals = strchr(setting, '=');
    plim_bytes name = {setting, equals ? (size_t)(equals - setting) : 0};
    int64_t value = 0;
    bool found = equals && base_parse_int(plim_bytes_of(equals + 1), &value);
    if (!found)
        fprintf(stderr, "bad limit %s\n", setting);
#define X(key, standard, unit, why)                                                                \
    if (base_bytes_is(name, #key))                                                                 \
        limits->key = value;
    HTTP_LIMITS(X)
#undef X
}

static void listen_at(echo *self, http_listener_config config)
{
    plim_error err = PLIM_ERROR_INIT;
    http_listener *listener = http_server_listen(self->server, &config, &err);
    if (!listener || self->listener_count == LISTENERS_MAX) {
        fprintf(stderr, "%s\n", plim_error_message(&err));
        exit(1);
    }
    self->listeners[self->listener_count++] = listener;
    self->open++;
    printf("listening %s\n", http_listener_address(listener));
}

static void read_options(echo *self, int argc, char **argv)
{
    http_listener_config config = {
        .name = "echo",
        .limits = http_limits_default(),
        .handler = {.on_request = on_request, .on_refusal = on_refusal, .data = self},
    };
    const char *cert = NULL, *key = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        config.address = value;
        config.tls_cert_file = config.tls_key_file = NULL;
        if (strcmp(option, "--limit") == 0) {
            set_limit(&config.limits, value);
        } else if (strcmp(option, "--drain-ms") == 0) {
            base_parse_int(plim_bytes_of(value), &self->drain_ms);
        } else if (strcmp(option, "--cert") == 0) {
            cert = value;
        } else if (strcmp(option, "--key") == 0) {
            key = value;
        } else if (strcmp(option, "--listen") == 0) {
            listen_at(self, config);
        } else if (strcmp(option, "--tls-listen") == 0) {
            config.tls_cert_file = cert;
            config.tls_key_file = key;
            listen_at(self, config);
        }
    }
}

int main(int argc, char **argv)
{
    plim_error err = PLIM_ERROR_INIT;
    echo self = {.drain_ms = 5000, .all_clean = true};
    self.server = http_server_new(&err);
    if (!self.server)
        return 1;
    read_options(&self, argc, argv);
    fflush(stdout);
    uv_signal_init(http_server_loop(self.server), &self.signal);
    self.signal.data = &self;
    uv_signal_start(&self.signal, on_signal, SIGTERM);
    for (size_t i = 0; i < self.listener_count; i++)
        http_listener_start(self.listeners[i]);
    bool served = http_server_run(self.server, &err);
    http_server_free(self.server);
    plim_error_clear(&err);
    return served ? 0 : 1;
}
