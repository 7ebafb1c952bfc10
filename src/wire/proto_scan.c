/* Reading binary fields, and judging a whole message before anything is made of it. */
#include "wire/internal.h"

enum { VARINT_BYTES_MAX = 10, NUMBER_MAX = (1 << 29) - 1 };

static bool take_varint(wire_cursor *in, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
        if (in->at == in->end)
            return false;
        uint8_t byte = *in->at++;
        /* The tenth byte has room for the one bit that is left of 64. */
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_fixed(wire_cursor *in, size_t size, uint64_t *out)
{
    if ((size_t)(in->end - in->at) < size)
        return false;
    *out = 0;
    for (size_t i = 0; i < size; i++)
        *out |= (uint64_t)in->at[i] << (8 * i);
    in->at += size;
    return true;
}

bool wire_take_value(wire_cursor *in, wire_form form, uint64_t *bits)
{
    return form == WIRE_VARINT    ? take_varint(in, bits)
           : form == WIRE_FIXED64 ? take_fixed(in, 8, bits)
                                  : take_fixed(in, 4, bits);
}

static bool take_bytes(wire_cursor *in, plim_bytes *out)
{
    uint64_t length;
    if (!take_varint(in, &length) || length > (uint64_t)(in->end - in->at))
        return false;
    *out = (plim_bytes){(const char *)in->at, (size_t)length};
    in->at += length;
    return true;
}

static const char *take_tag(wire_cursor *in, wire_token *out)
{
    uint64_t tag;
    if (!take_varint(in, &tag))
        return "a field's tag is cut off or too long";
    if (tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return "a field's number is out of range";
    if ((tag & 7) > WIRE_FIXED32)
        return "a field has an unknown wire type";
    out->number = (uint32_t)(tag >> 3);
    out->form = (wire_form)(tag & 7);
    return NULL;
}

static const char *take_content(wire_cursor *in, wire_token *out)
{
    bool taken = out->form == WIRE_LENGTH ? take_bytes(in, &out->bytes)
                                          : wire_take_value(in, out->form, &out->bits);
    return taken ? NULL : "a value is cut off or too long";
}

/* Skip the rest of a group whose start was taken, with all groups in it. */
static const char *skip_group(wire_cursor *in, uint32_t number)
{
    uint32_t open[WIRE_DEPTH_MAX] = {number};
    size_t depth = 1;
    while (depth) {
        wire_token token;
        const char *fault = take_tag(in, &token);
        if (fault)
            return fault;
        if (token.form == WIRE_GROUP) {
            if (depth == WIRE_DEPTH_MAX)
                return "groups nest too deeply";
            open[depth++] = token.number;
        } else if (token.form == WIRE_GROUP_END) {
            if (token.number != open[--depth])
                return "a group ends with another group's number";
        } else if ((fault = take_content(in, &token))) {
            return fault;
        }
    }
    return NULL;
}

const char *wire_take(wire_cursor *in, wire_token *out)
{
    const char *fault = take_tag(in, out);
    if (fault)
        return fault;
    if (out->form == WIRE_GROUP)
        return skip_group(in, out->number);
    if (out->form == WIRE_GROUP_END)
        return "a group ends that did not start";
    return take_content(in, out);
}

wire_form wire_form_of(const wire_field *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_LENGTH;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    default:
        return WIRE_VARINT;
    }
}

const wire_field *wire_field_of(const wire_type *type, const wire_token *token)
{
    const wire_field *field = protobuf_c_message_descriptor_get_field(type, token->number);
    if (!field)
        return NULL;
    bool packed = wire_is_list(field) && token->form == WIRE_LENGTH;
    return packed || token->form == wire_form_of(field) ? field : NULL;
}

size_t wire_packed_count(const wire_field *field, const wire_token *token)
{
    wire_form form = wire_form_of(field);
    if (form == token->form)
        return 1;
    size_t size = form == WIRE_FIXED64 ? 8 : 4;
    if (form != WIRE_VARINT)
        return token->bytes.len % size ? SIZE_MAX : token->bytes.len / size;
    wire_cursor in = wire_cursor_of(token->bytes);
    size_t count = 0;
    for (uint64_t bits; in.at < in.end; count++)
        if (!take_varint(&in, &bits))
            return SIZE_MAX;
    return count;
}

static bool scan(const wire_type *type, plim_bytes bytes, unsigned depth, plim_error *err)
{
    if (depth > WIRE_DEPTH_MAX)
        return wire_malformed(err, "messages nest deeper than %d", WIRE_DEPTH_MAX);
    if (type->n_fields > WIRE_FIELDS_MAX)
        return core_fail_internal(err, "%s has too many fields to decode", type->name);
    size_t counts[WIRE_FIELDS_MAX] = {0};
    wire_cursor in = wire_cursor_of(bytes);
    while (in.at < in.end) {
        wire_token token = {0};
        const char *fault = wire_take(&in, &token);
        if (fault)
            return wire_malformed(err, "%s: %s", type->name, fault);
        const wire_field *field = wire_field_of(type, &token);
        if (!field)
            continue;
        if (wire_is_list(field)) {
            size_t more = wire_packed_count(field, &token), most = wire_list_max(type, field);
            if (more == SIZE_MAX)
                return wire_malformed(err, "%s.%s: a packed list is malformed", type->name,
                                      field->name);
            size_t *count = &counts[field - type->fields];
            if (more > most || *count > most - more)
                return wire_list_refused(field, most, err);
            *count += more;
        }
        if (field->type == PROTOBUF_C_TYPE_STRING && !base_utf8_valid(token.bytes))
            return wire_malformed(err, "%s.%s is not valid UTF-8", type->name, field->name);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
            !scan(field->descriptor, token.bytes, depth + 1, err))
            return false;
    }
    return true;
}

bool wire_scan(const wire_type *type, plim_bytes in, plim_error *err)
{
    return scan(type, in, 1, err);
}
