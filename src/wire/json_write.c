/* Messages as compact protobuf JSON: what is zero is left out, but for set messages and the set
 * member of a oneof. */
#include "wire/internal.h"

#include <math.h>

size_t wire_json_name(const wire_field *field, char out[WIRE_NAME_MAX])
{
    size_t made = 0;
    bool upper = false;
    for (const char *c = field->name; *c && made < WIRE_NAME_MAX; c++) {
        if (*c == '_') {
            upper = true;
            continue;
        }
        char letter = *c;
        if (upper && letter >= 'a' && letter <= 'z')
            letter = (char)(letter - 'a' + 'A');
        out[made++] = letter;
        upper = false;
    }
    return made;
}

static void add_escape(base_buf *out, char c)
{
    static const char names[] = "\"\\bfnrt", meanings[] = "\"\\\b\f\n\r\t";
    const char *known = memchr(meanings, c, sizeof(meanings) - 1);
    if (known)
        base_buf_add(out, (plim_bytes){(char[]){'\\', names[known - meanings]}, 2});
    else
        base_buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
}

bool wire_json_add_text(base_buf *out, plim_bytes text)
{
    base_buf_add_byte(out, '"');
    size_t start = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.data[at];
        if (c != '"' && c != '\\' && (unsigned char)c >= 0x20)
            continue;
        base_buf_add(out, (plim_bytes){text.data + start, at - start});
        add_escape(out, c);
        start = at + 1;
    }
    if (text.len)
        base_buf_add(out, (plim_bytes){text.data + start, text.len - start});
    return base_buf_add_byte(out, '"');
}

static void add_floating(base_buf *out, double value)
{
    if (isnan(value))
        base_buf_add(out, PLIM_LIT("\"NaN\""));
    else if (isinf(value))
        base_buf_add_text(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        wire_number_add(out, value);
}

/* A float has fewer digits than the double of the same value. */
static void add_float(base_buf *out, float value)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        double read;
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (isfinite(value) && wire_number_read(plim_bytes_of(text), &read) &&
            (float)read == value) {
            add_floating(out, read);
            return;
        }
    }
    add_floating(out, (double)value);
}

static void add_enum(base_buf *out, const wire_field *field, int number)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(field->descriptor, number);
    if (value)
        base_buf_printf(out, "\"%s\"", value->name);
    else
        base_buf_printf(out, "%d", number);
}

/* A number of 64 bits is a string, for JavaScript's have 53. */
static void add_number(base_buf *out, const wire_field *field, const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        add_float(out, *(const float *)value);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        add_floating(out, *(const double *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        base_buf_printf(out, "%" PRIu64, wire_load(field, value));
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        base_buf_printf(out, "\"%" PRIu64 "\"", wire_load(field, value));
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        base_buf_printf(out, "\"%" PRId64 "\"", (int64_t)wire_load(field, value));
        break;
    default:
        base_buf_printf(out, "%" PRId64, (int64_t)wire_load(field, value));
    }
}

static void add_message(base_buf *out, const void *message);

static void add_value(base_buf *out, const wire_field *field, const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        wire_json_add_text(out, *(const plim_bytes *)value);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        base_buf_add_byte(out, '"');
        wire_base64_add(out, *(const plim_bytes *)value, true);
        base_buf_add_byte(out, '"');
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        add_message(out, *(const void *const *)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        base_buf_add_text(out, wire_load(field, value) ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        add_enum(out, field, *(const int *)value);
        break;
    default:
        add_number(out, field, value);
    }
}

static void add_list(base_buf *out, const void *message, const wire_field *field)
{
    const char *values = *(const char *const *)wire_slot_const(message, field);
    size_t count = *wire_count((void *)message, field), size = wire_value_size(field);
    base_buf_add_byte(out, '[');
    for (size_t i = 0; i < count && !out->failed; i++) {
        if (i)
            base_buf_add_byte(out, ',');
        add_value(out, field, values + i * size);
    }
    base_buf_add_byte(out, ']');
}

static void add_message(base_buf *out, const void *message)
{
    const wire_type *type = ((const wire_message *)message)->descriptor;
    char separator = '{';
    for (unsigned i = 0; i < type->n_fields; i++) {
        const wire_field *field = &type->fields[i];
        if (!wire_is_present(message, field))
            continue;
        char name[WIRE_NAME_MAX];
        size_t length = wire_json_name(field, name);
        base_buf_add(out, (plim_bytes){(char[]){separator, '"'}, 2});
        base_buf_add(out, (plim_bytes){name, length});
        base_buf_add(out, PLIM_LIT("\":"));
        if (wire_is_list(field))
            add_list(out, message, field);
        else
            add_value(out, field, wire_slot_const(message, field));
        separator = ',';
    }
    if (separator == '{')
        base_buf_add_byte(out, '{');
    base_buf_add_byte(out, '}');
}

bool wire_json_write(const void *message, base_buf *out)
{
    add_message(out, message);
    return !out->failed;
}
