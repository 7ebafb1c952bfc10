/* What the files of the wire layer share and nobody else includes: fields of messages in memory,
 * limits of lists, numbers as text, the reader of binary fields, and the reader of JSON tokens. */
#ifndef WIRE_INTERNAL_H
#define WIRE_INTERNAL_H

#include "wire/wire.h"

typedef ProtobufCFieldDescriptor wire_field;

/* No message of any served package has more fields; larger ones are a programmer's error. */
enum { WIRE_FIELDS_MAX = 64 };

/* Malformed input: unmarked `invalid_argument`, since the transport says by itself that it came
 * before the handler. Always false. */
bool wire_malformed(plim_error *err, const char *format, ...) PLIM_PRINTF(2, 3);

/* ---- fields in memory (codec.c) ---- */

static inline void *wire_slot(void *message, const wire_field *field)
{
    return (char *)message + field->offset;
}

static inline const void *wire_slot_const(const void *message, const wire_field *field)
{
    return (const char *)message + field->offset;
}

static inline size_t *wire_count(void *message, const wire_field *field)
{
    return (size_t *)(void *)((char *)message + field->quantifier_offset);
}

static inline bool wire_is_list(const wire_field *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED;
}

static inline bool wire_in_oneof(const wire_field *field)
{
    return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

/* The number of the member set in the field's oneof, 0 for none. */
static inline uint32_t *wire_case(void *message, const wire_field *field)
{
    return (uint32_t *)(void *)((char *)message + field->quantifier_offset);
}

/* Bytes of one value of the field in memory. */
size_t wire_value_size(const wire_field *field);

/* Note that the singular field is set, where that is kept apart from its value: in a oneof. */
void wire_mark_present(void *message, const wire_field *field);

/* Is there anything to encode: a list with elements, the set member of a oneof, a set message, a
 * value that is not zero? (Negative zero is not zero.) */
bool wire_is_present(const void *message, const wire_field *field);

/* A value of a scalar field as 64 bits: signed types extended, floating point by its bits. */
uint64_t wire_load(const wire_field *field, const void *value);
void wire_store(const wire_field *field, void *value, uint64_t bits);

/* ---- limits of lists (limits.c) ---- */

/* The most elements of a list, SIZE_MAX without a limit. */
size_t wire_list_max(const wire_type *type, const wire_field *field);

/* A list is past its limit: marked `request`. Always false. */
bool wire_list_refused(const wire_field *field, size_t most, plim_error *err);

/* ---- numbers as text (number.c) ---- */

/* The shortest decimal text that reads back as `value`, which is finite; "-0" for negative zero. */
bool wire_number_add(base_buf *out, double value);

/* The value of a number that base_json_number_valid accepts; false when it is too large for a
 * double. */
bool wire_number_read(plim_bytes text, double *out);

/* The value of a valid number that is an integer ("2", "2.0", "20e-1") as sign and magnitude; false
 * when it has a fraction or more than 64 bits. */
bool wire_integer_read(plim_bytes text, bool *negative, uint64_t *magnitude);

/* ---- binary fields (proto_scan.c) ---- */

typedef enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_LENGTH = 2,
    WIRE_GROUP = 3,
    WIRE_GROUP_END = 4,
    WIRE_FIXED32 = 5
} wire_form;

typedef struct wire_cursor {
    const uint8_t *at, *end;
} wire_cursor;

static inline wire_cursor wire_cursor_of(plim_bytes bytes)
{
    const uint8_t *start = (const uint8_t *)bytes.data;
    return (wire_cursor){start, start ? start + bytes.len : start};
}

/* One field as it stands on the wire: `bits` of a number, or `bytes` of a length-delimited one. */
typedef struct wire_token {
    uint32_t number;
    wire_form form;
    uint64_t bits;
    plim_bytes bytes;
} wire_token;

/* Take the next field; a group is skipped whole. NULL, or what is malformed. */
const char *wire_take(wire_cursor *in, wire_token *out);

/* Take one value of a packed list; false at a malformed one. */
bool wire_take_value(wire_cursor *in, wire_form form, uint64_t *bits);

/* The form of one value of the field. */
wire_form wire_form_of(const wire_field *field);

/* The field that a token is of, NULL when it is unknown or has a form the field cannot have; a list
 * of numbers has two. */
const wire_field *wire_field_of(const wire_type *type, const wire_token *token);

/* How many values a token of the list holds: 1, or those packed in it. SIZE_MAX: malformed. */
size_t wire_packed_count(const wire_field *field, const wire_token *token);

/* Decode what wire_scan accepted. False: memory, or a merged list past its limit. */
bool wire_proto_read(base_arena *arena, const wire_type *type, plim_bytes in, void *message,
                     plim_error *err);
bool wire_proto_write(const void *message, base_buf *out);

/* ---- JSON ---- */

bool wire_json_read(base_arena *arena, const wire_type *type, plim_bytes in, void *message,
                    plim_error *err);
bool wire_json_write(const void *message, base_buf *out);

/* lowerCamelCase of a field's name, as it is written; `out` holds 64 bytes. */
enum { WIRE_NAME_MAX = 64 };
size_t wire_json_name(const wire_field *field, char out[WIRE_NAME_MAX]);

#endif
