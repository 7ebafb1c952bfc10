#include "wire/internal.h"

bool wire_malformed(plim_error *err, const char *format, ...)
{
    char text[PLIM_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return plim_fail(err, PLIM_E_MALFORMED, PLIM_CODE_INVALID_ARGUMENT, "%s", text);
}

size_t wire_value_size(const wire_field *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(plim_bytes);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}

uint64_t wire_load(const wire_field *field, const void *value)
{
    if (wire_value_size(field) == 8) {
        uint64_t bits;
        memcpy(&bits, value, 8);
        return bits;
    }
    int32_t narrow;
    memcpy(&narrow, value, 4);
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return (uint32_t)narrow;
    default:
        return (uint64_t)(int64_t)narrow;
    }
}

void wire_store(const wire_field *field, void *value, uint64_t bits)
{
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        bits = bits != 0;
    if (wire_value_size(field) == 8) {
        memcpy(value, &bits, 8);
    } else {
        uint32_t narrow = (uint32_t)bits;
        memcpy(value, &narrow, 4);
    }
}

void wire_mark_present(void *message, const wire_field *field)
{
    if (wire_in_oneof(field))
        *wire_case(message, field) = field->id;
}

bool wire_is_present(const void *message, const wire_field *field)
{
    const void *value = wire_slot_const(message, field);
    if (wire_is_list(field))
        return *wire_count((void *)message, field) > 0;
    if (wire_in_oneof(field))
        return *wire_case((void *)message, field) == field->id;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return ((const plim_bytes *)value)->len > 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(void *const *)value != NULL;
    default:
        return wire_load(field, value) != 0;
    }
}

void *wire_new(base_arena *arena, const wire_type *type)
{
    wire_message *message = base_arena_alloc(arena, 1, type->sizeof_message);
    if (message)
        message->descriptor = type;
    return message;
}

void *wire_decode(base_arena *arena, wire_codec codec, const wire_type *type, plim_bytes in,
                  plim_error *err)
{
    void *message = wire_new(arena, type);
    if (!message) {
        plim_refuse_nomem(err);
        return NULL;
    }
    bool read = codec == WIRE_JSON
                    ? wire_json_read(arena, type, in, message, err)
                    : wire_scan(type, in, err) && wire_proto_read(arena, type, in, message, err);
    return read ? message : NULL;
}

bool wire_encode(wire_codec codec, const void *message, base_buf *out)
{
    return codec == WIRE_JSON ? wire_json_write(message, out) : wire_proto_write(message, out);
}
