#include "core/core.h"

#include <arpa/inet.h>

struct address {
    plim_bytes host, port;
    bool bracketed;
};

static bool split(plim_bytes text, struct address *out)
{
    size_t colon = text.len;
    while (colon > 0 && text.data[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return false;
    *out = (struct address){{text.data, colon - 1}, {text.data + colon, text.len - colon}, false};
    plim_bytes *host = &out->host;
    if (host->len >= 2 && host->data[0] == '[' && host->data[host->len - 1] == ']') {
        out->bracketed = true;
        *host = (plim_bytes){host->data + 1, host->len - 2};
    }
    return true;
}

static bool port_valid(plim_bytes port)
{
    int64_t number;
    return port.len >= 1 && port.len <= 5 && base_is_digit(port.data[0]) &&
           base_parse_int(port, &number) && number <= UINT16_MAX;
}

/* The binary form of a literal; false when it is none of that family. */
static bool literal(int family, plim_bytes host, void *out)
{
    char text[INET6_ADDRSTRLEN];
    if (host.len >= sizeof(text))
        return false;
    if (host.len)
        memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    return inet_pton(family, text, out) == 1;
}

static bool name_valid(plim_bytes host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.data[i];
        if (!base_is_alnum(c) && c != '.' && c != '-' && c != '_')
            return false;
    }
    return true;
}

bool core_address_valid(plim_bytes address)
{
    struct address parts;
    struct in6_addr ip6;
    return address.len < CORE_ADDRESS_MAX && split(address, &parts) && port_valid(parts.port) &&
           (parts.bracketed ? literal(AF_INET6, parts.host, &ip6) : name_valid(parts.host));
}

bool core_address_is_loopback(plim_bytes address)
{
    struct address parts;
    struct in_addr ip4;
    struct in6_addr ip6;
    if (!split(address, &parts))
        return false;
    if (parts.bracketed)
        return literal(AF_INET6, parts.host, &ip6) && IN6_IS_ADDR_LOOPBACK(&ip6);
    return base_ascii_equal_ignore_case(parts.host, "localhost") ||
           (literal(AF_INET, parts.host, &ip4) && ntohl(ip4.s_addr) >> 24 == 127);
}
