#include "test_client_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- bytes ---- */

void server_write(server_conn *conn, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size) {
        ssize_t count = conn->ssl ? SSL_write(conn->ssl, at, (int)(size > 65536 ? 65536 : size))
                                  : send(conn->fd, at, size, MSG_NOSIGNAL);
        if (count <= 0)
            return;
        at += count;
        size -= (size_t)count;
    }
}

void server_printf(server_conn *conn, const char *format, ...)
{
    char text[16384];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    MUST(length >= 0 && (size_t)length < sizeof(text));
    server_write(conn, text, (size_t)length);
}

static ssize_t read_some(server_conn *conn, void *into, size_t size)
{
    return conn->ssl ? SSL_read(conn->ssl, into, (int)size) : recv(conn->fd, into, size, 0);
}

/* ---- requests ---- */

static const char *find_line(const char *head, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0)
            return line + length;
    }
    return NULL;
}

bool server_has_line(const server_request *request, const char *line)
{
    const char *rest = find_line(request->head, line);
    return rest && strncmp(rest, "\r\n", 2) == 0;
}

static bool read_head(server_conn *conn, server_request *request)
{
    size_t length = 0;
    while (length < sizeof(request->head) - 1) {
        if (read_some(conn, request->head + length, 1) != 1)
            return false;
        if (request->head[0] == 0x16) { /* TLS to a cleartext port: what a web server does then */
            server_printf(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            return false;
        }
        request->head[++length] = '\0';
        if (length < 4 || strcmp(request->head + length - 4, "\r\n\r\n") != 0)
            continue;
        const char *id = find_line(request->head, "plimsoll-request-id: ");
        const char *size = find_line(request->head, "content-length: ");
        if (id)
            sscanf(id, "%127[^\r]", request->id);
        if (size)
            request->content_length = strtoul(size, NULL, 10);
        MUST(sscanf(request->head, "POST %511s ", request->path) == 1);
        return true;
    }
    return false;
}

static bool read_body(server_conn *conn, server_request *request)
{
    request->body = base_alloc(request->content_length + 1, 1);
    MUST(request->body);
    while (request->body_len < request->content_length) {
        ssize_t count = read_some(conn, request->body + request->body_len,
                                  request->content_length - request->body_len);
        if (count <= 0)
            return false;
        request->body_len += (size_t)count;
    }
    return true;
}

static bool serve_request(server_conn *conn, int on_connection)
{
    server_request request = {.on_connection = on_connection};
    bool open = read_head(conn, &request);
    if (open) {
        atomic_fetch_add(&conn->server->requests, 1);
        open = !conn->server->on_head || conn->server->on_head(conn, &request);
    }
    open = open && read_body(conn, &request) && conn->server->on_request(conn, &request);
    base_free(request.body);
    return open;
}

/* ---- connections ---- */

static void forget(server_conn *conn)
{
    server *all = conn->server;
    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; i < all->open_count; i++)
        if (all->open_fds[i] == conn->fd) {
            all->open_fds[i] = all->open_fds[--all->open_count];
            break;
        }
    close(conn->fd);
    pthread_cond_signal(&all->idle);
    pthread_mutex_unlock(&all->mutex);
}

static void *serve_connection(void *arg)
{
    server_conn *conn = arg;
    bool open = true;
    if (conn->server->tls) {
        conn->ssl = SSL_new(conn->server->tls);
        SSL_set_fd(conn->ssl, conn->fd);
        open = SSL_accept(conn->ssl) == 1;
    }
    for (int i = 1; open; i++)
        open = serve_request(conn, i);
    SSL_free(conn->ssl);
    forget(conn);
    base_free(conn);
    return NULL;
}

/* OpenSSL writes with write(2). The client must not need this, so only the server's threads have
 * it. */
static void block_sigpipe(void)
{
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
}

static void *accept_all(void *arg)
{
    server *self = arg;
    block_sigpipe();
    for (;;) {
        int fd = accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        server_conn *conn = base_new(server_conn);
        MUST(conn);
        *conn = (server_conn){.server = self, .fd = fd};
        conn->number = atomic_fetch_add(&self->connections, 1) + 1;
        pthread_mutex_lock(&self->mutex);
        bool take = !self->stopping && self->open_count < PLIM_COUNT(self->open_fds);
        if (take)
            self->open_fds[self->open_count++] = fd;
        pthread_mutex_unlock(&self->mutex);
        pthread_t thread;
        if (take && pthread_create(&thread, NULL, serve_connection, conn) == 0) {
            pthread_detach(thread);
        } else {
            close(fd);
            base_free(conn);
        }
    }
}

static int listen_on_loopback(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 256) == 0 &&
         getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

int server_closed_port(void)
{
    int port;
    close(listen_on_loopback(&port));
    return port;
}

void server_start(server *out, server_script *on_request, const void *arg, SSL_CTX *tls)
{
    *out = (server){.on_request = on_request, .arg = arg, .tls = tls};
    out->listen_fd = listen_on_loopback(&out->port);
    snprintf(out->url, sizeof(out->url), "http%s://127.0.0.1:%d", tls ? "s" : "", out->port);
    pthread_mutex_init(&out->mutex, NULL);
    pthread_cond_init(&out->idle, NULL);
    MUST(pthread_create(&out->thread, NULL, accept_all, out) == 0);
}

void server_wait_closed(server *self)
{
    pthread_mutex_lock(&self->mutex);
    while (self->open_count)
        pthread_cond_wait(&self->idle, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
}

void server_stop(server *self)
{
    shutdown(self->listen_fd, SHUT_RDWR);
    pthread_join(self->thread, NULL);
    close(self->listen_fd);
    pthread_mutex_lock(&self->mutex);
    self->stopping = true;
    for (size_t i = 0; i < self->open_count; i++)
        shutdown(self->open_fds[i], SHUT_RDWR);
    while (self->open_count)
        pthread_cond_wait(&self->idle, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    pthread_mutex_destroy(&self->mutex);
    pthread_cond_destroy(&self->idle);
    SSL_CTX_free(self->tls);
}

/* ---- answers ---- */

void server_answer(server_conn *conn, const server_request *request, int status, const char *type,
                   const char *headers, plim_bytes body)
{
    server_printf(conn,
                  "HTTP/1.1 %d x\r\nContent-Type: %s\r\nPlimsoll-Request-Id: %s\r\n%s"
                  "Content-Length: %zu\r\n\r\n",
                  status, type, request->id, headers, body.len);
    server_write(conn, body.data, body.len);
}

/* What a run of the request answers: its code back as output, or a row for each row. */
static void fill_result(base_arena *arena, const core_request *request, plim_result *result)
{
    result->provider = "wasm";
    result->isolation = "process";
    result->environment = "quickjs-wasm:sha256:00";
    result->software_identity = "oci-manifest:linux/amd64@sha256:aa";
    result->policy = "policy:1";
    result->duration_ms = 3;
    result->outcome = PLIM_OUTCOME_COMPLETED;
    if (request->kind == PLIM_KIND_JAVASCRIPT) {
        result->out = request->javascript->code;
        result->exit_code = 7;
    } else if (request->kind == PLIM_KIND_PROJECT) {
        core_step_result *step = base_arena_alloc(arena, 1, sizeof(*step));
        *step = (core_step_result){
            .command = request->project->steps[0], .out = PLIM_LIT("out"), .limit_reached = ""};
        result->steps = step;
        result->step_count = 1;
    } else {
        core_module_row *rows = base_arena_alloc(arena, request->module->rows, sizeof(*rows));
        for (size_t i = 0; i < request->module->rows; i++)
            rows[i] = (core_module_row){1, request->module->values + i * request->module->width,
                                        request->module->width};
        result->rows = rows;
        result->row_count = request->module->rows;
        result->width = (int32_t)request->module->width;
    }
}

void server_run_answer(const server_request *request, const server_spoiler *spoiler, base_buf *out)
{
    base_arena *arena = base_arena_new(SIZE_MAX / 4);
    plim_bytes body = {request->body, request->body_len};
    wire_run_request *message = wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request), body, NULL);
    core_request read;
    record_request sent;
    char sha256[BASE_SHA256_HEX + 1];
    MUST(message && message->protocol == 3 && wire_read_request(arena, message, &read, NULL) &&
         wire_record_request(message, &read, &sent) && record_request_digest(&sent, sha256));

    plim_result *result = core_result_new(read.kind);
    fill_result(arena, &read, result);
    if (spoiler && spoiler->result)
        spoiler->result(result);
    plim_record record;
    record_facts facts = {sha256, &sent.software, 1000, 1003, NULL};
    MUST(record_canonical_nan(result) && record_fill(&record, arena, result, &facts));
    if (spoiler && spoiler->record) {
        char own[BASE_SHA256_HEX + 1];
        spoiler->record(&record);
        MUST(record_digest(&record, own));
        record.record_sha256 = base_arena_text(arena, plim_bytes_of(own));
    }
    if (spoiler && spoiler->sealed)
        spoiler->sealed(&record);
    wire_run_response *response = wire_write_result(arena, result);
    MUST(response && (response->record = wire_write_record(arena, &record)));
    if (spoiler && spoiler->message)
        spoiler->message(response);
    *out = BASE_BUF_INIT(SIZE_MAX / 4);
    MUST(wire_encode(WIRE_PROTO, response, out));
    plim_result_free(result);
    base_arena_free(arena);
}

bool server_describe(server_conn *conn, const server_request *request,
                     const core_description *about)
{
    base_arena *arena = base_arena_new(1 << 20);
    const wire_describe_response *message = wire_write_description(arena, about, 3);
    base_buf body = BASE_BUF_INIT(1 << 20);
    MUST(message && wire_encode(WIRE_PROTO, message, &body));
    server_answer(conn, request, 200, "application/proto", "", base_buf_bytes(&body));
    base_buf_free(&body);
    base_arena_free(arena);
    return true;
}

static bool describe(server_conn *conn, server_request *request)
{
    core_description about = {.provider = "wasm", .tier = PLIM_TIER_PROCESS, .memory_mb = 256};
    about.supports[PLIM_KIND_JAVASCRIPT] = true;
    snprintf(about.environment[PLIM_KIND_JAVASCRIPT].identity, 160, "quickjs-wasm:sha256:00");
    return server_describe(conn, request, &about);
}

bool server_good(server_conn *conn, server_request *request)
{
    if (strstr(request->path, "/Describe"))
        return describe(conn, request);
    base_buf body;
    server_run_answer(request, NULL, &body);
    server_answer(conn, request, 200, "application/proto", "", base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

/* ---- TLS ---- */

SSL_CTX *server_tls(const char *pem_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    MUST(key && certificate);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_set_version(certificate, 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    MUST(names && X509_add_ext(certificate, names, -1) &&
         X509_sign(certificate, key, EVP_sha256()));
    X509_EXTENSION_free(names);
    FILE *file = fopen(pem_path, "w");
    MUST(file && PEM_write_X509(file, certificate) && fclose(file) == 0);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    MUST(context && SSL_CTX_use_certificate(context, certificate) == 1 &&
         SSL_CTX_use_PrivateKey(context, key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return context;
}

/* ---- the other side ---- */

static client *open_client(const server *self, int64_t timeout_ms, const char *token,
                           const plim_recorder *recorder)
{
    client *made = NULL;
    plim_client_options options = {.size = sizeof(options),
                                   .base_url = plim_bytes_of(self->url),
                                   .token = plim_bytes_of(token),
                                   .request_timeout_ms = timeout_ms,
                                   .recorder = recorder};
    MUST(client_new(&options, &made, NULL));
    return made;
}

client *server_client(const server *self, int64_t timeout_ms, const char *token)
{
    return open_client(self, timeout_ms, token, NULL);
}

client *server_recorded_client(const server *self, const plim_recorder *recorder)
{
    return open_client(self, 20000, "the-token", recorder);
}

plim_status run_snippet(client *self, const char *code, plim_result **out, plim_error *err)
{
    plim_javascript_request snippet = {
        .size = sizeof(snippet),
        .options = {.timeout_ms = 1000, .minimum_isolation = PLIM_TIER_PROCESS},
        .code = plim_bytes_of(code)};
    core_request request = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &snippet.options, .javascript = &snippet};
    run_ctx ctx = RUN_CTX_NONE;
    *out = NULL;
    return client_run(self, &request, &ctx, out, err) ? PLIM_OK : plim_error_status(err);
}
