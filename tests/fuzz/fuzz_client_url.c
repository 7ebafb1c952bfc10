/* A base URL: what is accepted holds nothing that could change the request it is written into, and
 * is accepted in the same way when it is put together again. */
#include "client/url.h"

#include "fuzz.h"

static void check_text(const char *text, const char *never)
{
    for (; *text; text++)
        if (*text < 0x21 || *text > 0x7E || strchr(never, *text))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    base_arena *arena = base_arena_new(1 << 20);
    client_url url, again;
    if (client_url_parse(arena, (plim_bytes){(const char *)data, size}, false, &url, NULL)) {
        if (!url.tls && !url.loopback)
            abort();
        char *text = base_arena_printf(arena, "%s://%s%s///", url.tls ? "HTTPS" : "http",
                                       url.authority, url.path);
        if (!client_url_parse(arena, plim_bytes_of(text), false, &again, NULL) ||
            strcmp(url.path, again.path) != 0 || strcmp(url.origin, again.origin) != 0)
            abort();
        check_text(url.path, "?#");
        check_text(url.authority, "?#@/\\");
    }
    base_arena_free(arena);
    return 0;
}
