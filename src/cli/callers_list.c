#include "cli/callers_options.h"

static int by_id(const void *a, const void *b)
{
    const registry_caller *const *x = a, *const *y = b;
    return base_bytes_compare((*x)->id, (*y)->id);
}

static const char heading_caller[] = "CALLER", heading_scopes[] = "SCOPES";

/* How many columns UTF-8 text takes, one for each character. */
static size_t width_of(plim_bytes text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++)
        width += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return width;
}

static size_t scopes_width(const registry_caller *caller)
{
    size_t width = caller->scope_count ? 2 * (caller->scope_count - 1) : 0;
    for (size_t i = 0; i < caller->scope_count; i++)
        width += width_of(caller->scopes[i]);
    return width;
}

static void add_gap(base_buf *out, size_t used, size_t column)
{
    base_buf_printf(out, "%*s", (int)(column - used + 2), "");
}

static void add_row(base_buf *out, const registry_caller *caller, size_t ids, size_t scopes)
{
    base_buf_add(out, caller->id);
    add_gap(out, width_of(caller->id), ids);
    for (size_t i = 0; i < caller->scope_count; i++) {
        base_buf_add_text(out, i ? ", " : "");
        base_buf_add(out, caller->scopes[i]);
    }
    add_gap(out, scopes_width(caller), scopes);
    if (caller->paid_seconds_per_day)
        base_buf_printf(out, "%" PRId64 "\n", caller->paid_seconds_per_day);
    else
        base_buf_add_text(out, "none\n");
}

static bool list_text(const registry_caller *const *order, size_t count, base_buf *out)
{
    size_t ids = sizeof(heading_caller) - 1, scopes = sizeof(heading_scopes) - 1;
    for (size_t i = 0; i < count; i++) {
        size_t id = width_of(order[i]->id), names = scopes_width(order[i]);
        ids = id > ids ? id : ids;
        scopes = names > scopes ? names : scopes;
    }
    base_buf_add_text(out, heading_caller);
    add_gap(out, sizeof(heading_caller) - 1, ids);
    base_buf_add_text(out, heading_scopes);
    add_gap(out, sizeof(heading_scopes) - 1, scopes);
    base_buf_add_text(out, "PAID SECONDS/DAY\n");
    for (size_t i = 0; i < count; i++)
        add_row(out, order[i], ids, scopes);
    return !out->failed;
}

bool callers_list(const registry *reg, bool json, base_buf *out)
{
    _cleanup_free_ const registry_caller **order =
        base_alloc(reg->count, sizeof(const registry_caller *));
    if (!order)
        return false;
    for (size_t i = 0; i < reg->count; i++)
        order[i] = &reg->callers[i];
    qsort(order, reg->count, sizeof(*order), by_id);
    return json ? registry_serialize_list(order, reg->count, out)
                : list_text(order, reg->count, out);
}
