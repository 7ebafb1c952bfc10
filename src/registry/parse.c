#include "registry/internal.h"

#include <jansson.h>

/* ---- text rules ---- */

/* White_Space of Unicode. */
static bool is_white(uint32_t point)
{
    return point == ' ' || (point >= '\t' && point <= '\r') || point == 0x85 || point == 0xA0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
           point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

/* Length of the white space at the end of `text`, at most one character; 0 when there is none. */
static size_t white_at_end(plim_bytes text)
{
    for (size_t length = 1; length <= 4 && length <= text.len; length++) {
        plim_bytes last = {text.data + text.len - length, length};
        uint32_t point;
        if (base_utf8_decode(last, &point) == length)
            return is_white(point) ? length : 0;
    }
    return 0;
}

plim_bytes registry_trim(plim_bytes text)
{
    uint32_t point;
    size_t length;
    while ((length = base_utf8_decode(text, &point)) && is_white(point))
        text = (plim_bytes){text.data + length, text.len - length};
    while ((length = white_at_end(text)))
        text.len -= length;
    return text;
}

/* Not empty, UTF-8, no control character and, unless `white_allowed`, no white space. */
static bool is_name(plim_bytes text, bool white_allowed)
{
    if (text.len == 0)
        return false;
    while (text.len) {
        uint32_t point;
        size_t length = base_utf8_decode(text, &point);
        if (length == 0 || base_is_control(point) || (!white_allowed && is_white(point)))
            return false;
        text = (plim_bytes){text.data + length, text.len - length};
    }
    return true;
}

/* ---- one caller ---- */

static plim_bytes json_text(const json_t *value)
{
    return (plim_bytes){json_string_value(value), json_string_length(value)};
}

static bool read_id(registry *into, const json_t *value, registry_caller *caller, plim_error *err)
{
    if (!json_is_string(value))
        return registry_refuse(err, "\"id\" must be a string");
    plim_bytes id = registry_trim(json_text(value));
    if (base_bytes_is(id, "*"))
        return registry_refuse(err, "\"id\" may not be \"*\"");
    if (!is_name(id, true))
        return registry_refuse(err, "\"id\" must be text without control characters, not empty");
    return base_arena_dup(into->arena, id, &caller->id) || plim_refuse_nomem(err);
}

static bool read_fingerprint(const json_t *value, registry_caller *caller, plim_error *err)
{
    plim_bytes hex = json_is_string(value) ? registry_trim(json_text(value)) : (plim_bytes){0};
    if (hex.len != BASE_SHA256_HEX)
        return registry_refuse(err, "\"token_sha256\" must be a string of 64 hex digits");
    for (size_t i = 0; i < hex.len; i++) {
        char c = base_lower(hex.data[i]);
        if (!base_is_lower_hex(c))
            return registry_refuse(err, "\"token_sha256\" must be a string of 64 hex digits");
        caller->fingerprint[i] = c;
    }
    return true;
}

/* Quadratic in one caller's scopes, so there is a bound that nobody meets. */
enum { SCOPES_MAX = 64 };

static bool read_scopes(registry *into, const json_t *value, registry_caller *caller,
                        plim_error *err)
{
    if (!json_is_array(value))
        return registry_refuse(err, "\"scopes\" must be an array of strings");
    size_t count = json_array_size(value);
    if (count > SCOPES_MAX)
        return registry_refuse(err, "\"scopes\" has more than %d entries", SCOPES_MAX);
    plim_bytes *scopes = base_arena_alloc(into->arena, count, sizeof(*scopes));
    if (!scopes)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item) || !is_name(json_text(item), false))
            return registry_refuse(
                err, "a scope must be text without white space or control characters, not empty");
        if (!base_arena_dup(into->arena, json_text(item), &scopes[i]))
            return plim_refuse_nomem(err);
        for (size_t j = 0; j < i; j++)
            if (base_bytes_equal(scopes[i], scopes[j]))
                return registry_refuse(err, "a scope is listed twice");
    }
    caller->scopes = scopes;
    caller->scope_count = count;
    return true;
}

static bool read_allowance(const json_t *value, registry_caller *caller, plim_error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return registry_refuse(err, "\"paid_seconds_per_day\" must be a whole number of 0 or more");
    caller->paid_seconds_per_day = json_integer_value(value);
    return true;
}

/* jansson refuses duplicates, so what is counted here and present is all there is. */
static bool read_caller(registry *into, const json_t *value, registry_caller *caller,
                        plim_error *err)
{
    if (!json_is_object(value))
        return registry_refuse(err, "must be an object");
    const json_t *id = json_object_get(value, "id");
    const json_t *fingerprint = json_object_get(value, "token_sha256");
    const json_t *scopes = json_object_get(value, "scopes");
    const json_t *allowance = json_object_get(value, "paid_seconds_per_day");
    if (!id || !fingerprint)
        return registry_refuse(err, "\"id\" and \"token_sha256\" are required");
    size_t known = 2 + (scopes != NULL) + (allowance != NULL);
    if (json_object_size(value) != known)
        return registry_refuse(err, "there is a member other than \"id\", \"token_sha256\", "
                                    "\"scopes\" and \"paid_seconds_per_day\"");
    return read_id(into, id, caller, err) && read_fingerprint(fingerprint, caller, err) &&
           (!scopes || read_scopes(into, scopes, caller, err)) &&
           (!allowance || read_allowance(allowance, caller, err));
}

/* ---- uniqueness, by sorting: the file may hold tens of thousands ---- */

static int by_id(const void *a, const void *b)
{
    const registry_caller *const *x = a, *const *y = b;
    return base_bytes_compare((*x)->id, (*y)->id);
}

static int by_fingerprint(const void *a, const void *b)
{
    const registry_caller *const *x = a, *const *y = b;
    return memcmp((*x)->fingerprint, (*y)->fingerprint, BASE_SHA256_HEX);
}

static bool check_unique(const registry *of, plim_error *err)
{
    const registry_caller **order =
        base_arena_alloc(of->arena, of->count, sizeof(const registry_caller *));
    if (!order)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < of->count; i++)
        order[i] = &of->callers[i];
    qsort(order, of->count, sizeof(*order), by_id);
    for (size_t i = 1; i < of->count; i++)
        if (by_id(&order[i - 1], &order[i]) == 0)
            return registry_refuse(err, "the id \"%.*s\" is used twice", (int)order[i]->id.len,
                                   order[i]->id.data);
    qsort(order, of->count, sizeof(*order), by_fingerprint);
    for (size_t i = 1; i < of->count; i++)
        if (by_fingerprint(&order[i - 1], &order[i]) == 0)
            return registry_refuse(err, "\"%.*s\" and \"%.*s\" have the same token",
                                   (int)order[i - 1]->id.len, order[i - 1]->id.data,
                                   (int)order[i]->id.len, order[i]->id.data);
    return true;
}

/* ---- the file ---- */

static bool read_clients(registry *into, const json_t *clients, plim_error *err)
{
    size_t count = json_array_size(clients);
    into->callers = base_arena_alloc(into->arena, count, sizeof(*into->callers));
    if (!into->callers)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < count; i++)
        if (!read_caller(into, json_array_get(clients, i), &into->callers[i], err))
            return plim_error_wrap(err, "clients[%zu]", i);
    into->count = count;
    return check_unique(into, err);
}

static bool read_root(registry *into, const json_t *root, plim_error *err)
{
    const json_t *clients = json_object_get(root, "clients");
    if (!json_is_object(root) || !json_is_array(clients))
        return registry_refuse(err, "the file must be an object with an array \"clients\"");
    if (json_object_size(root) != 1)
        return registry_refuse(err, "there is a member other than \"clients\"");
    return read_clients(into, clients, err);
}

static void json_freep(json_t **value)
{
    json_decref(*value);
}

bool registry_parse(plim_bytes text, registry **out, plim_error *err)
{
    *out = NULL;
    json_error_t fault;
    _cleanup_(json_freep)
    json_t *root = json_loadb(text.len ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &fault);
    if (!root && json_error_code(&fault) == json_error_out_of_memory)
        return plim_refuse_nomem(err);
    /* jansson's own text may quote the file, so only the place is told. */
    if (!root)
        return registry_refuse(err, "line %d, column %d: not one well-formed JSON document",
                               fault.line, fault.column);
    _cleanup_(registry_freep)
    registry *made = registry_new();
    if (!made)
        return plim_refuse_nomem(err);
    if (!read_root(made, root, err))
        return false;
    *out = TAKE_PTR(made);
    return true;
}
