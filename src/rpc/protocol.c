/* Step 6: what the headers say about protocol. */
#include "rpc/call.h"

#include <strings.h>

/* The media types that are served. JSON ones also have a form with a charset. */
static const struct media_type {
    const char *name;
    rpc_protocol protocol;
    wire_codec codec;
} media_types[] = {
    {"application/proto", RPC_CONNECT, WIRE_PROTO},
    {"application/json", RPC_CONNECT, WIRE_JSON},
    {"application/grpc", RPC_GRPC, WIRE_PROTO},
    {"application/grpc+proto", RPC_GRPC, WIRE_PROTO},
    {"application/grpc+json", RPC_GRPC, WIRE_JSON},
    {"application/grpc-web", RPC_GRPC_WEB, WIRE_PROTO},
    {"application/grpc-web+proto", RPC_GRPC_WEB, WIRE_PROTO},
    {"application/grpc-web+json", RPC_GRPC_WEB, WIRE_JSON},
};

/* What may stand after the ';' of a JSON type: the one charset, quoted or not. */
static bool is_utf8_charset(plim_bytes parameter)
{
    return base_ascii_equal_ignore_case(parameter, "charset=utf-8") ||
           base_ascii_equal_ignore_case(parameter, "charset=\"utf-8\"");
}

bool rpc_read_content_type(plim_bytes value, rpc_framing *out)
{
    const char *semicolon = value.len ? memchr(value.data, ';', value.len) : NULL;
    size_t length = semicolon ? (size_t)(semicolon - value.data) : value.len;
    plim_bytes name = base_trim((plim_bytes){value.data, length});
    for (size_t i = 0; i < PLIM_COUNT(media_types); i++) {
        const struct media_type *type = &media_types[i];
        if (!base_ascii_equal_ignore_case(name, type->name))
            continue;
        if (semicolon &&
            (type->codec != WIRE_JSON ||
             !is_utf8_charset(base_trim((plim_bytes){semicolon + 1, value.len - length - 1}))))
            return false;
        out->protocol = type->protocol;
        out->codec = type->codec;
        out->content_type = value;
        return true;
    }
    return false;
}

static bool is_digits(plim_bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!base_is_digit(text.data[i]))
            return false;
    return text.len > 0;
}

static int64_t deadline_after(int64_t now_ns, int64_t amount, int64_t unit_ns)
{
    int64_t ns, deadline;
    if (__builtin_mul_overflow(amount, unit_ns, &ns) ||
        __builtin_add_overflow(now_ns, ns, &deadline))
        return BASE_NEVER;
    return deadline;
}

bool rpc_connect_timeout(plim_bytes text, int64_t now_ns, int64_t *deadline_ns)
{
    enum { CHARACTERS_MAX = 10 };
    int64_t ms;
    if (text.len > CHARACTERS_MAX || !base_parse_int(text, &ms))
        return false;
    *deadline_ns = deadline_after(now_ns, ms < 0 ? 0 : ms, BASE_NS_PER_MS);
    return true;
}

bool rpc_grpc_timeout(plim_bytes text, int64_t now_ns, int64_t *deadline_ns)
{
    enum { DIGITS_MAX = 8 };
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', 3600 * BASE_NS_PER_S},
                 {'M', 60 * BASE_NS_PER_S},
                 {'S', BASE_NS_PER_S},
                 {'m', BASE_NS_PER_MS},
                 {'u', 1000},
                 {'n', 1}};
    int64_t amount;
    if (text.len < 2 || text.len > DIGITS_MAX + 1)
        return false;
    plim_bytes digits = {text.data, text.len - 1};
    if (!is_digits(digits) || !base_parse_int(digits, &amount))
        return false;
    for (size_t i = 0; i < PLIM_COUNT(units); i++) {
        if (text.data[text.len - 1] != units[i].unit)
            continue;
        *deadline_ns = deadline_after(now_ns, amount, units[i].ns);
        return true;
    }
    return false;
}

/* The value of a header that is there and not empty. */
static bool header(const http_request *req, const char *name, plim_bytes *out)
{
    return http_request_header(req, name, out) && out->len > 0;
}

/* Does a list of encodings, split on commas and spaces, name gzip? */
static bool lists_gzip(plim_bytes list)
{
    size_t start = 0;
    for (size_t at = 0; at <= list.len; at++) {
        if (at < list.len && list.data[at] != ',' && list.data[at] != ' ')
            continue;
        if (base_bytes_is((plim_bytes){list.data + start, at - start}, "gzip"))
            return true;
        start = at + 1;
    }
    return false;
}

static bool read_encodings(const http_request *req, const char *sent, const char *accepted,
                           rpc_framing *framing, plim_error *err)
{
    plim_bytes value;
    if (header(req, sent, &value) && !base_bytes_is(value, "identity")) {
        if (!base_bytes_is(value, "gzip"))
            return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_UNIMPLEMENTED,
                             "the encoding is not one of identity, " RPC_ENCODINGS);
        framing->request_gzip = true;
    }
    framing->answer_gzip =
        framing->request_gzip || (header(req, accepted, &value) && lists_gzip(value));
    return true;
}

bool rpc_read_headers(const http_request *req, int64_t now_ns, rpc_framing *framing,
                      plim_error *err)
{
    plim_bytes value;
    bool connect = framing->protocol == RPC_CONNECT;
    framing->deadline_ns = BASE_NEVER;
    if (connect && http_request_header(req, "connect-protocol-version", &value) &&
        !base_bytes_is(value, "1"))
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT,
                         "connect-protocol-version is not 1");
    if (!read_encodings(req, connect ? "content-encoding" : "grpc-encoding",
                        connect ? "accept-encoding" : "grpc-accept-encoding", framing, err))
        return false;
    const char *name = connect ? "connect-timeout-ms" : "grpc-timeout";
    if (!header(req, name, &value))
        return true;
    return (connect ? rpc_connect_timeout : rpc_grpc_timeout)(value, now_ns,
                                                              &framing->deadline_ns) ||
           plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT, "%s is malformed", name);
}
