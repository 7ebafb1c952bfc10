/* Encoding binary messages: fields in the order of their numbers, numeric lists packed. */
#include "wire/internal.h"

static size_t varint_size(uint64_t value)
{
    size_t size = 1;
    while (value >>= 7)
        size++;
    return size;
}

static void add_varint(base_buf *out, uint64_t value)
{
    char bytes[10];
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (char)(value | 0x80);
    bytes[size++] = (char)value;
    base_buf_add(out, (plim_bytes){bytes, size});
}

static void add_fixed(base_buf *out, size_t size, uint64_t bits)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(bits >> (8 * i));
    base_buf_add(out, (plim_bytes){bytes, size});
}

static uint64_t number_bits(const wire_field *field, const void *value)
{
    uint64_t bits = wire_load(field, value);
    if (field->type != PROTOBUF_C_TYPE_SINT32 && field->type != PROTOBUF_C_TYPE_SINT64)
        return bits;
    return (bits << 1) ^ (~(bits >> 63) + 1);
}

static size_t number_size(const wire_field *field, const void *value)
{
    switch (wire_form_of(field)) {
    case WIRE_FIXED64:
        return 8;
    case WIRE_FIXED32:
        return 4;
    default:
        return varint_size(number_bits(field, value));
    }
}

static void add_number(base_buf *out, const wire_field *field, const void *value)
{
    uint64_t bits = number_bits(field, value);
    wire_form form = wire_form_of(field);
    if (form == WIRE_VARINT)
        add_varint(out, bits);
    else
        add_fixed(out, form == WIRE_FIXED64 ? 8 : 4, bits);
}

/* The values of a present field: where they are, and how many. */
static const char *values_of(const void *message, const wire_field *field, size_t *count)
{
    const void *slot = wire_slot_const(message, field);
    if (!wire_is_list(field)) {
        *count = 1;
        return slot;
    }
    *count = *wire_count((void *)message, field);
    return *(const char *const *)slot;
}

static size_t message_size(const void *message);

/* Content of one length-delimited value. */
static size_t content_size(const wire_field *field, const void *value)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return message_size(*(const void *const *)value);
    return ((const plim_bytes *)value)->len;
}

static size_t packed_size(const wire_field *field, const char *values, size_t count)
{
    size_t size = 0, step = wire_value_size(field);
    for (size_t i = 0; i < count; i++)
        size += number_size(field, values + i * step);
    return size;
}

static size_t field_size(const void *message, const wire_field *field)
{
    size_t count, total = 0, tag = varint_size((uint64_t)field->id << 3);
    const char *values = values_of(message, field, &count);
    if (wire_form_of(field) != WIRE_LENGTH) {
        size_t size = packed_size(field, values, count);
        return tag + size + (wire_is_list(field) ? varint_size(size) : 0);
    }
    for (size_t i = 0; i < count; i++) {
        size_t size = content_size(field, values + i * wire_value_size(field));
        total += tag + varint_size(size) + size;
    }
    return total;
}

static size_t message_size(const void *message)
{
    const wire_type *type = ((const wire_message *)message)->descriptor;
    size_t size = 0;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (wire_is_present(message, &type->fields[i]))
            size += field_size(message, &type->fields[i]);
    return size;
}

static void add_message(base_buf *out, const void *message);

static void add_field(base_buf *out, const void *message, const wire_field *field)
{
    size_t count, step = wire_value_size(field);
    const char *values = values_of(message, field, &count);
    wire_form form = wire_form_of(field);
    bool packed = wire_is_list(field) && form != WIRE_LENGTH;
    uint64_t tag = (uint64_t)field->id << 3 | (packed ? WIRE_LENGTH : form);
    if (packed) {
        add_varint(out, tag);
        add_varint(out, packed_size(field, values, count));
        for (size_t i = 0; i < count; i++)
            add_number(out, field, values + i * step);
        return;
    }
    for (size_t i = 0; i < count && !out->failed; i++) {
        const void *value = values + i * step;
        add_varint(out, tag);
        if (form != WIRE_LENGTH) {
            add_number(out, field, value);
            continue;
        }
        add_varint(out, content_size(field, value));
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            add_message(out, *(const void *const *)value);
        else
            base_buf_add(out, *(const plim_bytes *)value);
    }
}

static void add_message(base_buf *out, const void *message)
{
    const wire_type *type = ((const wire_message *)message)->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (wire_is_present(message, &type->fields[i]))
            add_field(out, message, &type->fields[i]);
}

bool wire_proto_write(const void *message, base_buf *out)
{
    /* One allocation for the whole, and at once the answer whether it fits. */
    if (!base_buf_reserve(out, message_size(message)))
        return false;
    add_message(out, message);
    return !out->failed;
}
