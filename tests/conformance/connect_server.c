/*
 * The server that the public Connect conformance suite tests: its ConformanceService on our rpc
 * layer. One process serves one configuration, read from standard input, until it is killed.
 */
#include "rpc/rpc.h"

#include "any.pb-c.h"
#include "config.pb-c.h"
#include "server_compat.pb-c.h"
#include "service.pb-c.h"

#include <arpa/inet.h>
#include <sys/mman.h>

typedef Connectrpc__Conformance__V1__ServerCompatRequest compat_request;
typedef Connectrpc__Conformance__V1__ServerCompatResponse compat_response;
typedef Connectrpc__Conformance__V1__UnaryRequest unary_request;
typedef Connectrpc__Conformance__V1__UnaryResponse unary_response;
typedef Connectrpc__Conformance__V1__UnaryResponseDefinition response_definition;
typedef Connectrpc__Conformance__V1__ConformancePayload conformance_payload;
typedef Connectrpc__Conformance__V1__ConformancePayload__RequestInfo request_info;
typedef Connectrpc__Conformance__V1__Header header;
typedef Google__Protobuf__Any any_message;

#define TYPE(name)            (&connectrpc__conformance__v1__##name##__descriptor)
#define MAKE(arena, c, proto) ((c *)must(wire_new((arena), TYPE(proto))))
#define REQUEST_URL           "type.googleapis.com/connectrpc.conformance.v1.UnaryRequest"

enum { MESSAGE_BYTES_MAX = 64 * 1024 * 1024, CALLS_MAX = 64 };

/* A test server may end where a daemon may not. */
static void *must(void *made)
{
    if (made)
        return made;
    fputs("connect_server: no memory, or a bad request\n", stderr);
    exit(1);
}

/* ---- Any in JSON: its type, then the members of the message in it ---- */

struct spread {
    unary_request request;
    plim_bytes type;
};

static ProtobufCFieldDescriptor spread_fields[3]; /* a UnaryRequest has two */
static wire_type spread_type;

static void describe_spread(void)
{
    spread_type = *TYPE(unary_request);
    spread_fields[0] = (ProtobufCFieldDescriptor){.name = "@type",
                                                  .id = 100,
                                                  .label = PROTOBUF_C_LABEL_NONE,
                                                  .type = PROTOBUF_C_TYPE_STRING,
                                                  .offset = offsetof(struct spread, type)};
    memcpy(spread_fields + 1, spread_type.fields, spread_type.n_fields * sizeof(*spread_fields));
    spread_type.fields = spread_fields;
    spread_type.n_fields++;
    spread_type.sizeof_message = sizeof(struct spread);
}

static plim_bytes encoded(base_arena *arena, const void *message)
{
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(MESSAGE_BYTES_MAX);
    plim_bytes kept = {NULL, 0};
    if (!wire_encode(WIRE_PROTO, message, &buf) ||
        !base_arena_dup(arena, base_buf_bytes(&buf), &kept))
        must(NULL);
    return kept;
}

static any_message *pack(base_arena *arena, const unary_request *request, bool json)
{
    if (json) {
        struct spread *spread = must(base_arena_alloc(arena, 1, sizeof(*spread)));
        spread->request = *request;
        spread->request.base.descriptor = &spread_type;
        spread->type = PLIM_LIT(REQUEST_URL);
        return (any_message *)(void *)spread;
    }
    any_message *any = must(wire_new(arena, &google__protobuf__any__descriptor));
    any->type_url = PLIM_LIT(REQUEST_URL);
    any->value = encoded(arena, request);
    return any;
}

/* ---- what the service tells of a request ---- */

static header *find_header(request_info *info, plim_bytes name)
{
    for (size_t i = 0; i < info->n_request_headers; i++)
        if (base_bytes_equal(info->request_headers[i]->name, name))
            return info->request_headers[i];
    return NULL;
}

static void note_headers(base_arena *arena, const http_request *req, request_info *info)
{
    size_t count = 0;
    http_header line;
    while (http_request_header_at(req, count, &line))
        count++;
    info->request_headers = must(base_arena_alloc(arena, count, sizeof(*info->request_headers)));
    for (size_t i = 0; http_request_header_at(req, i, &line); i++) {
        header *known = find_header(info, line.name);
        if (!known) {
            known = MAKE(arena, header, header);
            known->name = line.name;
            known->value = must(base_arena_alloc(arena, count, sizeof(*known->value)));
            info->request_headers[info->n_request_headers++] = known;
        }
        known->value[known->n_value++] = line.value;
    }
}

static request_info *make_info(rpc_call *call, const unary_request *request, bool json)
{
    base_arena *arena = rpc_call_arena(call);
    request_info *info = MAKE(arena, request_info, conformance_payload__request_info);
    note_headers(arena, rpc_call_http(call), info);
    info->requests = must(base_arena_alloc(arena, 1, sizeof(*info->requests)));
    info->requests[info->n_requests++] = pack(arena, request, json);
    run_ctx ctx = rpc_call_ctx(call);
    if (ctx.deadline_ns != BASE_NEVER) {
        info->timeout_ms_set_case = 2;
        info->timeout_ms =
            (ctx.deadline_ns - base_monotonic_ns() + BASE_NS_PER_MS - 1) / BASE_NS_PER_MS;
    }
    return info;
}

static void add_lines(rpc_call *call, header *const *headers, size_t count,
                      bool (*add)(rpc_call *, plim_bytes, plim_bytes))
{
    for (size_t i = 0; i < count; i++) {
        plim_bytes name;
        if (!base_arena_dup(rpc_call_arena(call), headers[i]->name, &name))
            must(NULL);
        for (size_t j = 0; j < name.len; j++)
            if (name.data[j] >= 'A' && name.data[j] <= 'Z')
                ((char *)name.data)[j] |= 0x20;
        for (size_t j = 0; j < headers[i]->n_value; j++)
            add(call, name, headers[i]->value[j]);
    }
}

/* Wait as long as the definition says, or until the caller's deadline. */
static bool delay(rpc_call *call, uint32_t ms, plim_error *err)
{
    struct pollfd none;
    run_ctx ctx = rpc_call_ctx(call);
    int64_t until = base_deadline_after_ms(ms);
    run_ctx wait = run_ctx_until(&ctx, until);
    if (ms)
        run_ctx_poll(&wait, &none, 0);
    return !ms || ctx.deadline_ns > until || core_fail_gone(err, RUN_DEADLINE);
}

static bool answer_error(rpc_call *call, const response_definition *wanted,
                         const request_info *info, plim_error *err)
{
    base_arena *arena = rpc_call_arena(call);
    rpc_call_add_detail(call, PLIM_LIT("connectrpc.conformance.v1.ConformancePayload.RequestInfo"),
                        encoded(arena, info));
    return plim_fail(err, PLIM_E_REMOTE, (plim_code)wanted->error->code, "%.*s",
                     (int)wanted->error->message.len, wanted->error->message.data);
}

static bool unary(rpc_call *call, const void *in, const void **out, plim_error *err)
{
    const unary_request *request = in;
    const response_definition *wanted = request->response_definition;
    base_arena *arena = rpc_call_arena(call);
    plim_bytes type = {NULL, 0};
    http_request_header(rpc_call_http(call), "content-type", &type);
    bool json = type.len >= 4 && memmem(type.data, type.len, "json", 4);
    bool fails =
        wanted && wanted->response_case ==
                      CONNECTRPC__CONFORMANCE__V1__UNARY_RESPONSE_DEFINITION__RESPONSE_ERROR;
    /* A detail is binary in every protocol. */
    request_info *info = make_info(call, request, json && !fails);
    if (wanted) {
        add_lines(call, wanted->response_headers, wanted->n_response_headers, rpc_call_add_header);
        add_lines(call, wanted->response_trailers, wanted->n_response_trailers,
                  rpc_call_add_trailer);
        if (!delay(call, wanted->response_delay_ms, err))
            return false;
    }
    if (fails)
        return answer_error(call, wanted, info, err);
    unary_response *response = MAKE(arena, unary_response, unary_response);
    conformance_payload *payload = MAKE(arena, conformance_payload, conformance_payload);
    response->payload = payload;
    payload->request_info = info;
    if (wanted)
        payload->data = wanted->response_data;
    *out = response;
    return true;
}

/* ---- the program ---- */

#define SERVICE "/connectrpc.conformance.v1.ConformanceService/"

static const rpc_method methods[] = {
    {.path = SERVICE "Unary", .request = TYPE(unary_request), .handle = unary},
};

static rpc_server *rpc;

static void on_request(http_request *req, void *data)
{
    (void)data;
    if (!rpc_take(rpc, req))
        http_respond_text(req, 404, "not found\n");
}

static void read_exactly(void *to, size_t size)
{
    for (char *at = to; size;) {
        ssize_t got = read(STDIN_FILENO, at, size);
        if (got <= 0)
            must(NULL);
        at += got;
        size -= (size_t)got;
    }
}

static compat_request *read_request(base_arena *arena)
{
    uint32_t length;
    read_exactly(&length, sizeof(length));
    length = ntohl(length);
    char *bytes = must(base_arena_alloc(arena, length, 1));
    read_exactly(bytes, length);
    return must(wire_decode(arena, WIRE_PROTO, TYPE(server_compat_request),
                            (plim_bytes){bytes, length}, NULL));
}

static void write_response(base_arena *arena, const compat_response *response)
{
    plim_bytes bytes = encoded(arena, response);
    uint32_t length = htonl((uint32_t)bytes.len);
    if (!base_write_all(STDOUT_FILENO, (plim_bytes){(char *)&length, sizeof(length)}) ||
        !base_write_all(STDOUT_FILENO, bytes))
        must(NULL);
}

/* The name of a file that holds `content` and goes away with the process. */
static const char *file_with(base_arena *arena, plim_bytes content)
{
    int fd = memfd_create("pem", 0);
    if (fd < 0 || !base_write_all(fd, content))
        must(NULL);
    return must(base_arena_printf(arena, "/proc/self/fd/%d", fd));
}

int main(void)
{
    base_arena *arena = must(base_arena_new(MESSAGE_BYTES_MAX));
    const compat_request *request = read_request(arena);
    compat_response *response = MAKE(arena, compat_response, server_compat_response);
    http_server *http = must(http_server_new(NULL));
    http_listener_config listen = {.name = "conformance",
                                   .address = "127.0.0.1:0",
                                   .limits = http_limits_default(),
                                   .handler = {.on_request = on_request}};
    if (request->use_tls) {
        response->pem_cert = request->server_creds->cert;
        listen.tls_cert_file = file_with(arena, request->server_creds->cert);
        listen.tls_key_file = file_with(arena, request->server_creds->key);
    }
    rpc =
        must(rpc_server_new(&(rpc_config){.methods = methods,
                                          .method_count = PLIM_COUNT(methods),
                                          .prefix = SERVICE,
                                          .message_bytes_max = request->message_receive_limit
                                                                   ? request->message_receive_limit
                                                                   : MESSAGE_BYTES_MAX,
                                          .decode_slots = 2 * CALLS_MAX,
                                          .workers_max = CALLS_MAX},
                            NULL));
    describe_spread();
    http_listener *listener = must(http_server_listen(http, &listen, NULL));
    response->host = PLIM_LIT("127.0.0.1");
    response->port = http_listener_port(listener);
    http_listener_start(listener);
    write_response(arena, response);
    return http_server_run(http, NULL) ? 0 : 1;
}
