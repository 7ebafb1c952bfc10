#include "client/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { HOST_BYTES_MAX = 255, LABEL_BYTES_MAX = 63 };

/* The pieces of the text, borrowed from it. */
typedef struct pieces {
    plim_bytes scheme, authority, host, port, path;
    bool literal_v6, has_port;
} pieces;

static bool invalid(plim_error *err, const char *what)
{
    return plim_refuse(err, PLIM_E_INVALID_BASE_URL, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                       "the base URL %s", what);
}

static plim_bytes slice(plim_bytes text, size_t from, size_t to)
{
    return (plim_bytes){text.data + from, to - from};
}

/* The first of the bytes `set` at or after `from`, or the length. */
static size_t find_any(plim_bytes text, size_t from, const char *set)
{
    while (from < text.len && (text.data[from] == '\0' || !strchr(set, text.data[from])))
        from++;
    return from;
}

static bool split_port(plim_bytes rest, pieces *out)
{
    out->has_port = rest.len > 0;
    out->port = out->has_port ? slice(rest, 1, rest.len) : rest;
    return !out->has_port || rest.data[0] == ':';
}

/* host, [v6], with :port or without */
static bool split_authority(plim_bytes authority, pieces *out)
{
    if (authority.len && authority.data[0] == '[') {
        size_t close = find_any(authority, 1, "]");
        if (close == authority.len)
            return false;
        out->literal_v6 = true;
        out->host = slice(authority, 1, close);
        return split_port(slice(authority, close + 1, authority.len), out);
    }
    size_t colon = find_any(authority, 0, ":");
    out->host = slice(authority, 0, colon);
    return split_port(slice(authority, colon, authority.len), out);
}

static bool port_valid(const pieces *in)
{
    int64_t port;
    return !in->has_port || (in->port.len && base_is_digit(in->port.data[0]) &&
                             base_parse_int(in->port, &port) && port >= 1 && port <= 65535);
}

static bool visible_ascii(plim_bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < 0x21 || text.data[i] > 0x7E)
            return false;
    return true;
}

static bool host_character(char c)
{
    return base_is_alnum(c) || c == '-' || c == '_';
}

static bool name_valid(plim_bytes host)
{
    size_t label = 0;
    if (host.len > HOST_BYTES_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        if (host.data[i] == '.' ? label == 0 : !host_character(host.data[i]))
            return false;
        label = host.data[i] == '.' ? 0 : label + 1;
        if (label > LABEL_BYTES_MAX)
            return false;
    }
    return label > 0;
}

/*
 * Loopback is the name or an address literal, never a prefix of one. A short form like 127.1 is a
 * name here, so it is not loopback, whatever a resolver makes of it.
 */
static bool is_loopback(const pieces *in, const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (in->literal_v6)
        return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return base_ascii_equal_ignore_case(in->host, "localhost");
}

static bool host_valid(const pieces *in, const char *host)
{
    struct in6_addr v6;
    return in->literal_v6 ? inet_pton(AF_INET6, host, &v6) == 1 : name_valid(in->host);
}

/* Checks 1 to 4 of the contract, but for the host's own grammar. */
static bool split(plim_bytes text, pieces *out, plim_error *err)
{
    *out = (pieces){.literal_v6 = false};
    if (text.len == 0 || base_trim(text).len != text.len)
        return invalid(err, "is empty or has white space around it");
    size_t colon = find_any(text, 0, ":/?#");
    if (colon + 3 > text.len || memcmp(text.data + colon, "://", 3) != 0 || colon == 0)
        return invalid(err, "is not an absolute URL");
    size_t start = colon + 3, end = find_any(text, start, "/?#");
    out->scheme = slice(text, 0, colon);
    out->authority = slice(text, start, end);
    if (find_any(out->authority, 0, "@") < out->authority.len)
        return invalid(err, "has a user name or password");
    if (!split_authority(out->authority, out) || out->host.len == 0 || !port_valid(out))
        return invalid(err, "has no host, or a port that is not a number");
    if (!base_ascii_equal_ignore_case(out->scheme, "http") &&
        !base_ascii_equal_ignore_case(out->scheme, "https"))
        return invalid(err, "is neither http nor https");
    if (find_any(text, 0, "?#") < text.len)
        return invalid(err, "has a query or a fragment");
    if (!visible_ascii(text))
        return invalid(err, "has characters other than visible ASCII");
    while (text.len > end && text.data[text.len - 1] == '/')
        text.len--;
    out->path = slice(text, end, text.len);
    return true;
}

bool client_url_parse(base_arena *arena, plim_bytes text, bool insecure_http, client_url *out,
                      plim_error *err)
{
    pieces in;
    if (!split(text, &in, err))
        return false;
    const char *host = base_arena_text(arena, in.host);
    if (!host)
        return plim_refuse_nomem(err);
    if (!host_valid(&in, host))
        return invalid(err, "has a host that is neither a name nor an address");
    out->tls = base_ascii_equal_ignore_case(in.scheme, "https");
    out->loopback = is_loopback(&in, host);
    if (!out->tls && !out->loopback && !insecure_http)
        return plim_refuse(err, PLIM_E_INSECURE_HTTP, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                           "cleartext http goes to this machine only; use https, or allow it with "
                           "insecure_http (--insecure-http)");
    out->authority = base_arena_text(arena, in.authority);
    out->path = base_arena_text(arena, in.path);
    out->origin = base_arena_printf(arena, "%s://%.*s/", out->tls ? "https" : "http",
                                    (int)in.authority.len, in.authority.data);
    return (out->authority && out->path && out->origin) || plim_refuse_nomem(err);
}
