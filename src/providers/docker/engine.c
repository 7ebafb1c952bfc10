#include "providers/docker/engine.h"

#include "providers/docker/discover.h"
#include "providers/docker/text.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

enum { IDLE_MAX = 16, REQUEST_BYTES_MAX = 4 * 1024 * 1024, ERROR_BYTES_MAX = 64 * 1024 };

#define UPGRADE_FIELDS "Connection: Upgrade\r\nUpgrade: tcp\r\n"

struct docker_engine {
    char path[DOCKER_SOCKET_MAX];
    atomic_int api;        /* minor version; 0 before the first hello */
    pthread_mutex_t mutex; /* guards the idle connections */
    net_conn *idle[IDLE_MAX];
    size_t idle_count;
};

docker_engine *docker_engine_new(const char *socket_path)
{
    docker_engine *engine = base_new(docker_engine);
    if (!engine)
        return NULL;
    snprintf(engine->path, sizeof(engine->path), "%s", socket_path);
    pthread_mutex_init(&engine->mutex, NULL);
    return engine;
}

void docker_engine_free(docker_engine *engine)
{
    if (!engine)
        return;
    for (size_t i = 0; i < engine->idle_count; i++)
        net_conn_free(engine->idle[i]);
    pthread_mutex_destroy(&engine->mutex);
    base_free(engine);
}

const char *docker_engine_path(const docker_engine *engine)
{
    return engine->path;
}

int docker_engine_api(const docker_engine *engine)
{
    return atomic_load(&engine->api);
}

/* ---- connections ---- */

/* A kept connection that the Engine has not closed meanwhile, or a new one. */
static net_conn *take_idle(docker_engine *engine)
{
    net_conn *found = NULL;
    pthread_mutex_lock(&engine->mutex);
    while (!found && engine->idle_count) {
        net_conn *conn = engine->idle[--engine->idle_count];
        if (net_conn_is_idle(conn))
            found = conn;
        else
            net_conn_free(conn);
    }
    pthread_mutex_unlock(&engine->mutex);
    return found;
}

static void give_back(docker_engine *engine, net_conn *conn)
{
    pthread_mutex_lock(&engine->mutex);
    bool kept = engine->idle_count < IDLE_MAX;
    if (kept)
        engine->idle[engine->idle_count++] = conn;
    pthread_mutex_unlock(&engine->mutex);
    if (!kept)
        net_conn_free(conn);
}

static net_conn *connect_new(docker_engine *engine, const run_ctx *ctx, docker_reply *reply)
{
    net_conn *conn = net_conn_open(engine->path, ctx, &reply->end);
    if (!conn)
        snprintf(reply->fault, sizeof(reply->fault), "cannot connect to the Engine at %s: %s",
                 engine->path, base_errno_text(errno));
    return conn;
}

/* ---- replies ---- */

void docker_reply_free(docker_reply *reply)
{
    base_buf_free(&reply->body);
}

bool docker_reply_ok(const docker_reply *reply)
{
    return reply->end == NET_DONE && reply->status >= 200 && reply->status < 300;
}

static const char *end_text(const docker_reply *reply)
{
    switch (reply->end) {
    case NET_DEADLINE:
        return "the Engine did not answer in time";
    case NET_CANCELED:
        return "cancelled";
    default:
        return reply->fault;
    }
}

const char *docker_reply_text(const docker_reply *reply, const char *what, char *out, size_t size)
{
    if (reply->end == NET_DONE)
        snprintf(out, size, "%s: the Engine answered %d%s%s", what, reply->status,
                 reply->fault[0] ? ": " : "", reply->fault);
    else
        snprintf(out, size, "%s: %s", what, end_text(reply));
    return out;
}

/* What the Engine says of an error, for people: cut and printable. */
static void keep_message(docker_reply *reply)
{
    if (docker_reply_ok(reply) || reply->status == 304)
        return;
    size_t length = reply->body.len < ERROR_BYTES_MAX ? reply->body.len : ERROR_BYTES_MAX;
    json_t *json = json_loadb(base_buf_text(&reply->body), length, 0, NULL);
    const char *message = json_string_value(json_object_get(json, "message"));
    docker_printable(message ? plim_bytes_of(message) : (plim_bytes){reply->body.data, length},
                     reply->fault, sizeof(reply->fault));
    json_decref(json);
}

static void broken(docker_reply *reply, const net_conn *conn)
{
    snprintf(reply->fault, sizeof(reply->fault), "%s", conn->reason ? conn->reason : "it broke");
}

/* ---- calls ---- */

static bool write_request(docker_engine *engine, const char *method, const char *target,
                          const char *fields, plim_bytes body, base_buf *out)
{
    char versioned[2048];
    int api = docker_engine_api(engine);
    int length = api ? snprintf(versioned, sizeof(versioned), "/v1.%d%s", api, target)
                     : snprintf(versioned, sizeof(versioned), "%s", target);
    if ((size_t)length >= sizeof(versioned))
        return false;
    net_request_write(out, method, versioned, fields, body);
    return !out->failed;
}

static bool start_request(docker_engine *engine, net_conn *conn, const char *method,
                          const char *target, const char *fields, plim_bytes body,
                          const run_ctx *ctx, docker_reply *reply)
{
    _cleanup_buf_ base_buf request = BASE_BUF_INIT(REQUEST_BYTES_MAX);
    if (!write_request(engine, method, target, fields, body, &request)) {
        reply->end = NET_TOO_LARGE;
        snprintf(reply->fault, sizeof(reply->fault), "the request is too large");
        return false;
    }
    reply->end = net_conn_send(conn, base_buf_bytes(&request), ctx);
    if (reply->end != NET_DONE)
        broken(reply, conn);
    return reply->end == NET_DONE;
}

static bool receive(net_conn *conn, const run_ctx *ctx, docker_reply *reply, bool *keep)
{
    net_answer answer = {.body = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX)};
    reply->end = net_conn_receive(conn, ctx, &answer);
    reply->status = answer.status;
    reply->body = answer.body;
    *keep = answer.keep_alive;
    if (reply->end != NET_DONE)
        broken(reply, conn);
    else
        keep_message(reply);
    return reply->end == NET_DONE;
}

void docker_engine_call(docker_engine *engine, const char *method, const char *target,
                        plim_bytes body, const run_ctx *ctx, docker_reply *reply)
{
    bool keep = false;
    *reply = (docker_reply){.body = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX)};
    net_conn *conn = take_idle(engine);
    if (!conn)
        conn = connect_new(engine, ctx, reply);
    if (!conn)
        return;
    if (start_request(engine, conn, method, target, "", body, ctx, reply) &&
        receive(conn, ctx, reply, &keep) && keep)
        give_back(engine, conn);
    else
        net_conn_free(conn);
}

net_conn *docker_engine_begin(docker_engine *engine, const char *method, const char *target,
                              const run_ctx *ctx, net_answer *answer, docker_reply *reply)
{
    *reply = (docker_reply){.body = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX)};
    net_conn *conn = connect_new(engine, ctx, reply);
    if (conn &&
        start_request(engine, conn, method, target, "", (plim_bytes){NULL, 0}, ctx, reply)) {
        bool whole;
        reply->end = net_conn_receive_head(conn, ctx, answer, &whole);
        reply->status = answer->status;
        if (reply->end == NET_DONE && reply->status == 200 && !whole)
            return conn;
        if (reply->end == NET_DONE && reply->status == 200) {
            reply->end = NET_BROKEN;
            conn->reason = "the Engine completed what had not begun";
        }
        if (reply->end != NET_DONE)
            broken(reply, conn);
    }
    net_conn_free(conn);
    return NULL;
}

net_conn *docker_engine_upgrade(docker_engine *engine, const char *target, const run_ctx *ctx,
                                docker_reply *reply)
{
    bool keep;
    *reply = (docker_reply){.body = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX)};
    net_conn *conn = connect_new(engine, ctx, reply);
    if (conn &&
        start_request(engine, conn, "POST", target, UPGRADE_FIELDS, (plim_bytes){NULL, 0}, ctx,
                      reply) &&
        receive(conn, ctx, reply, &keep) && reply->status == 101)
        return conn;
    net_conn_free(conn);
    return NULL;
}

/* ---- the version ---- */

/* "1.41" to 41; 0 for anything else. */
static int minor_of(plim_bytes version)
{
    int64_t minor;
    if (version.len < 3 || memcmp(version.data, "1.", 2) != 0)
        return 0;
    plim_bytes digits = {version.data + 2, version.len - 2};
    return docker_expiry_parse(digits, &minor) && minor > 0 && minor < 1000 ? (int)minor : 0;
}

bool docker_engine_hello(docker_engine *engine, const run_ctx *ctx, plim_error *err)
{
    char text[400];
    _cleanup_reply_ docker_reply reply = {.body = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX)};
    net_conn *conn = connect_new(engine, ctx, &reply);
    net_answer answer = {.body = BASE_BUF_INIT(ERROR_BYTES_MAX)};
    plim_bytes version = {NULL, 0};
    int minor = 0;
    if (conn && net_conn_send(conn, PLIM_LIT("GET /_ping HTTP/1.1\r\nHost: engine\r\n\r\n"), ctx) ==
                    NET_DONE) {
        reply.end = net_conn_receive(conn, ctx, &answer);
        reply.status = answer.status;
        if (reply.end != NET_DONE)
            broken(&reply, conn);
        net_head_find(&conn->response.head, "api-version", &version, NULL);
        minor = minor_of(version);
    }
    bool unreachable = !conn && reply.end == NET_BROKEN;
    base_buf_free(&answer.body);
    net_conn_free(conn);
    if (!docker_reply_ok(&reply))
        return core_refuse_environment(
            err, "%s%s", docker_reply_text(&reply, "ping", text, sizeof(text)),
            unreachable ? "; start Docker, or set DOCKER_HOST to a socket that this user may open"
                        : "");
    if (minor < DOCKER_API_LEAST)
        return core_refuse_environment(err, "the Engine speaks API 1.%d; 1.%d is the least", minor,
                                       DOCKER_API_LEAST);
    atomic_store(&engine->api, minor < DOCKER_API_NEWEST ? minor : DOCKER_API_NEWEST);
    return true;
}
