#include "net/net.h"

/* A request of a usual client has fewer fields and fewer bytes; more costs a reallocation. */
enum { FIELDS_AT_FIRST = 16, TEXT_AT_FIRST = 512 };

void net_head_init(net_head *head, size_t text_bytes_max)
{
    *head = (net_head){.text = BASE_BUF_INIT(text_bytes_max)};
}

void net_head_reset(net_head *head)
{
    base_buf_clear(&head->text);
    head->count = 0;
    head->method = head->target = (net_span){0, 0};
}

void net_head_free(net_head *head)
{
    size_t max = head->text.max;
    base_buf_free(&head->text);
    base_free(head->fields);
    net_head_init(head, max);
}

/* Room for a usual head at once instead of by doubling from nothing. */
static bool reserve_first(net_head *head)
{
    size_t want = head->text.max < TEXT_AT_FIRST ? head->text.max : TEXT_AT_FIRST;
    return head->text.data || base_buf_reserve(&head->text, want);
}

bool net_head_extend(net_head *head, net_span *span, plim_bytes bytes)
{
    if (!reserve_first(head))
        return false;
    if (span->len == 0)
        span->at = (uint32_t)head->text.len;
    if (!base_buf_add(&head->text, bytes))
        return false;
    span->len += (uint32_t)bytes.len;
    return true;
}

bool net_head_field_begin(net_head *head)
{
    if (head->count == head->capacity) {
        size_t capacity = head->capacity ? head->capacity * 2 : FIELDS_AT_FIRST;
        net_field *fields = base_realloc(head->fields, capacity, sizeof(*fields));
        if (!fields)
            return false;
        head->fields = fields;
        head->capacity = capacity;
    }
    head->fields[head->count++] = (net_field){{0, 0}, {0, 0}};
    return true;
}

bool net_head_field_name(net_head *head, plim_bytes bytes)
{
    net_field *field = &head->fields[head->count - 1];
    if (!net_head_extend(head, &field->name, bytes))
        return false;
    char *added = head->text.data + head->text.len - bytes.len;
    for (size_t i = 0; i < bytes.len; i++)
        added[i] = base_lower(added[i]);
    return true;
}

bool net_head_field_value(net_head *head, plim_bytes bytes)
{
    return net_head_extend(head, &head->fields[head->count - 1].value, bytes);
}

void net_head_field_end(net_head *head)
{
    net_field *field = &head->fields[head->count - 1];
    plim_bytes whole = net_head_bytes(head, field->value), value = base_trim(whole);
    field->value.at += value.len ? (uint32_t)(value.data - whole.data) : 0;
    field->value.len = (uint32_t)value.len;
}

bool net_head_find(const net_head *head, const char *name, plim_bytes *value, size_t *count)
{
    size_t found = 0, length = strlen(name);
    *value = (plim_bytes){NULL, 0};
    for (size_t i = 0; i < head->count; i++) {
        plim_bytes have = net_head_bytes(head, head->fields[i].name);
        if (!have.data || have.len != length || memcmp(have.data, name, length) != 0)
            continue;
        if (found++ == 0)
            *value = net_head_bytes(head, head->fields[i].value);
        if (!count)
            break;
    }
    if (count)
        *count = found;
    return found > 0;
}
