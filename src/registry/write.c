#include "registry/internal.h"

#include <jansson.h>

static json_t *scopes_json(const registry_caller *caller)
{
    json_t *made = json_array();
    int failed = made ? 0 : -1;
    for (size_t i = 0; i < caller->scope_count; i++)
        failed |= json_array_append_new(
            made, json_stringn(caller->scopes[i].data, caller->scopes[i].len));
    if (!failed)
        return made;
    json_decref(made);
    return NULL;
}

/* jansson writes members in the order they were set, and a NULL value fails the set. */
static json_t *caller_json(const registry_caller *caller, bool fingerprint)
{
    json_t *made = json_object();
    int failed = json_object_set_new(made, "id", json_stringn(caller->id.data, caller->id.len));
    if (fingerprint)
        failed |= json_object_set_new(made, "token_sha256", json_string(caller->fingerprint));
    failed |= json_object_set_new(made, "scopes", scopes_json(caller));
    if (caller->paid_seconds_per_day)
        failed |= json_object_set_new(made, "paid_seconds_per_day",
                                      json_integer(caller->paid_seconds_per_day));
    if (!failed)
        return made;
    json_decref(made);
    return NULL;
}

static int add_text(const char *text, size_t size, void *buf)
{
    return base_buf_add(buf, (plim_bytes){text, size}) ? 0 : -1;
}

/* Takes `root`, which may be NULL. */
static bool write_json(json_t *root, base_buf *out)
{
    bool written = root && json_dump_callback(root, add_text, out, JSON_INDENT(2)) == 0 &&
                   base_buf_add_byte(out, '\n');
    json_decref(root);
    return written;
}

bool registry_serialize(const registry *reg, base_buf *out)
{
    json_t *root = json_object(), *clients = json_array();
    int failed = json_object_set(root, "clients", clients);
    for (size_t i = 0; !failed && i < reg->count; i++)
        failed = json_array_append_new(clients, caller_json(&reg->callers[i], true));
    json_decref(clients);
    if (!failed)
        return write_json(root, out);
    json_decref(root);
    return false;
}

bool registry_serialize_list(const registry_caller *const *callers, size_t count, base_buf *out)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; !failed && i < count; i++)
        failed = json_array_append_new(list, caller_json(callers[i], false));
    if (!failed)
        return write_json(list, out);
    json_decref(list);
    return false;
}
