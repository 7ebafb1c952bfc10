/*
 * Protobuf JSON into messages, straight from the tokens: no tree of the document is ever built, so
 * memory stays near the size of what is wanted, and an unwanted member costs nothing but time.
 */
#include "wire/internal.h"

#include "wire/json_lex.h"

#include <float.h>
#include <math.h>

struct reader {
    wire_json_lexer lexer;
    base_arena *arena;
    base_buf elements; /* of the lists being read, the innermost on top */
    unsigned depth;
    plim_error *err;
};

static bool syntax(struct reader *r, const char *expected)
{
    return wire_malformed(r->err, "malformed JSON at byte %zu: %s",
                          (size_t)(r->lexer.at - r->lexer.start),
                          r->lexer.fault ? r->lexer.fault : expected);
}

static bool misfit(struct reader *r, const wire_field *field, const char *what)
{
    return wire_malformed(r->err, "the member \"%s\" is not %s", field->name, what);
}

/* Take the next token, which must be of `kind`. */
static bool expect(struct reader *r, wire_json_kind kind, const char *expected)
{
    wire_json_token token;
    return wire_json_next(&r->lexer, &token) == kind || syntax(r, expected);
}

/* After an element: true and `*more` for a comma, true for the end of the array or object. */
static bool more_elements(struct reader *r, wire_json_kind end, bool *more)
{
    wire_json_token token;
    wire_json_kind kind = wire_json_next(&r->lexer, &token);
    *more = kind == WIRE_JSON_COMMA;
    return *more || kind == end || syntax(r, "expected a comma or the end");
}

/* Take the bracket that opens an array or object; `*empty` when its end follows, which is taken
 * too.
 */
static bool open_nest(struct reader *r, wire_json_kind end, bool *empty)
{
    wire_json_token token;
    if (wire_json_next(&r->lexer, &token) == WIRE_JSON_BAD)
        return syntax(r, "");
    if (++r->depth > WIRE_DEPTH_MAX)
        return wire_malformed(r->err, "JSON nests deeper than %d", WIRE_DEPTH_MAX);
    *empty = wire_json_peek(&r->lexer) == end;
    return !*empty || wire_json_next(&r->lexer, &token) == end;
}

static bool skip_value(struct reader *r);

static bool skip_elements(struct reader *r, wire_json_kind end)
{
    bool empty = false;
    if (!open_nest(r, end, &empty))
        return false;
    for (bool more = !empty; more;) {
        if (end == WIRE_JSON_OBJECT_END &&
            (!expect(r, WIRE_JSON_STRING, "expected a member's name") ||
             !expect(r, WIRE_JSON_COLON, "expected a colon")))
            return false;
        if (!skip_value(r) || !more_elements(r, end, &more))
            return false;
    }
    r->depth--;
    return true;
}

/* The value of a member that no field wants: it must be JSON, and that is all. */
static bool skip_value(struct reader *r)
{
    wire_json_token token;
    switch (wire_json_peek(&r->lexer)) {
    case WIRE_JSON_OBJECT:
        return skip_elements(r, WIRE_JSON_OBJECT_END);
    case WIRE_JSON_ARRAY:
        return skip_elements(r, WIRE_JSON_ARRAY_END);
    case WIRE_JSON_STRING:
    case WIRE_JSON_NUMBER:
    case WIRE_JSON_TRUE:
    case WIRE_JSON_FALSE:
    case WIRE_JSON_NULL:
        return wire_json_next(&r->lexer, &token) != WIRE_JSON_BAD || syntax(r, "");
    default:
        return syntax(r, "expected a value");
    }
}

/* The text of a number, also when it stands in a string. */
static bool number_text(struct reader *r, const wire_json_token *token, plim_bytes *out)
{
    *out = token->text;
    if (token->kind == WIRE_JSON_NUMBER)
        return true;
    return token->kind == WIRE_JSON_STRING && wire_json_text(r->arena, token, out) &&
           wire_number_valid(*out);
}

static bool is_signed(const wire_field *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return false;
    default:
        return true;
    }
}

static bool read_integer(struct reader *r, const wire_field *field, const wire_json_token *token,
                         void *value)
{
    plim_bytes text;
    bool negative;
    uint64_t magnitude;
    if (!number_text(r, token, &text) || !wire_integer_read(text, &negative, &magnitude))
        return misfit(r, field, "an integer");
    unsigned bits = (unsigned)wire_value_size(field) * 8;
    uint64_t most = UINT64_MAX >> (64 - bits);
    if (is_signed(field))
        most = (most >> 1) + negative;
    else if (negative)
        most = 0;
    if (magnitude > most)
        return misfit(r, field, "within the range of its type");
    wire_store(field, value, negative ? ~magnitude + 1 : magnitude);
    return true;
}

static bool special_number(plim_bytes text, double *out)
{
    if (base_bytes_is(text, "NaN"))
        *out = NAN;
    else if (base_bytes_is(text, "Infinity"))
        *out = INFINITY;
    else if (base_bytes_is(text, "-Infinity"))
        *out = -INFINITY;
    else
        return false;
    return true;
}

static bool read_floating(struct reader *r, const wire_field *field, const wire_json_token *token,
                          void *value)
{
    plim_bytes text;
    double number;
    bool is_float = field->type == PROTOBUF_C_TYPE_FLOAT;
    bool special = token->kind == WIRE_JSON_STRING && special_number(token->text, &number);
    if (!special && !number_text(r, token, &text))
        return misfit(r, field, "a number");
    if (!special &&
        (!wire_number_read(text, &number) || (is_float && fabs(number) > (double)FLT_MAX)))
        return misfit(r, field, "within the range of its type");
    if (is_float) {
        float narrow = (float)number;
        memcpy(value, &narrow, sizeof(narrow));
    } else {
        memcpy(value, &number, sizeof(number));
    }
    return true;
}

static bool read_enum(struct reader *r, const wire_field *field, const wire_json_token *token,
                      void *value)
{
    if (token->kind == WIRE_JSON_NUMBER)
        return read_integer(r, field, token, value);
    plim_bytes text;
    if (token->kind != WIRE_JSON_STRING)
        return misfit(r, field, "the name or number of an enum value");
    if (!wire_json_text(r->arena, token, &text))
        return plim_refuse_nomem(r->err);
    const ProtobufCEnumDescriptor *names = field->descriptor;
    for (unsigned i = 0; i < names->n_value_names; i++) {
        if (!base_bytes_is(text, names->values_by_name[i].name))
            continue;
        wire_store(field, value, (uint64_t)names->values[names->values_by_name[i].index].value);
        return true;
    }
    return misfit(r, field, "a known name of an enum value");
}

static bool read_text(struct reader *r, const wire_field *field, const wire_json_token *token,
                      plim_bytes *out)
{
    plim_bytes text;
    if (token->kind != WIRE_JSON_STRING)
        return misfit(r, field, "a string");
    if (!wire_json_text(r->arena, token, &text))
        return plim_refuse_nomem(r->err);
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        *out = text;
        return true;
    }
    char *bytes = base_arena_alloc(r->arena, text.len / 4 * 3 + 3, 1);
    if (!bytes)
        return plim_refuse_nomem(r->err);
    out->data = bytes;
    return wire_base64_decode(text, bytes, &out->len) || misfit(r, field, "base64");
}

static bool read_bool(struct reader *r, const wire_field *field, const wire_json_token *token,
                      void *value)
{
    if (token->kind != WIRE_JSON_TRUE && token->kind != WIRE_JSON_FALSE)
        return misfit(r, field, "true or false");
    wire_store(field, value, token->kind == WIRE_JSON_TRUE);
    return true;
}

static bool read_message(struct reader *r, const wire_type *type, void *message);

/* One value of the field, which is not null. */
static bool read_value(struct reader *r, const wire_field *field, void *value)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        void *made = wire_new(r->arena, field->descriptor);
        if (!made)
            return plim_refuse_nomem(r->err);
        memcpy(value, &made, sizeof(made));
        if (wire_json_peek(&r->lexer) != WIRE_JSON_OBJECT)
            return misfit(r, field, "an object");
        return read_message(r, field->descriptor, made);
    }
    wire_json_token token;
    if (wire_json_next(&r->lexer, &token) == WIRE_JSON_BAD)
        return syntax(r, "");
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return read_text(r, field, &token, value);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(r, field, &token, value);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, field, &token, value);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_floating(r, field, &token, value);
    default:
        return read_integer(r, field, &token, value);
    }
}

static bool read_list(struct reader *r, const wire_type *type, const wire_field *field,
                      void *message)
{
    if (wire_json_peek(&r->lexer) != WIRE_JSON_ARRAY)
        return misfit(r, field, "an array");
    bool empty = false;
    if (!open_nest(r, WIRE_JSON_ARRAY_END, &empty))
        return false;
    size_t size = wire_value_size(field), start = r->elements.len, count = 0;
    size_t most = wire_list_max(type, field);
    for (bool more = !empty; more;) {
        _Alignas(max_align_t) char value[sizeof(plim_bytes)] = {0};
        if (++count > most)
            return wire_list_refused(field, most, r->err);
        if (!read_value(r, field, value))
            return false;
        if (!base_buf_add(&r->elements, (plim_bytes){value, size}))
            return plim_refuse_nomem(r->err);
        if (!more_elements(r, WIRE_JSON_ARRAY_END, &more))
            return false;
    }
    r->depth--;
    plim_bytes made = {count ? r->elements.data + start : NULL, count * size}, kept = {0};
    if (count && !base_arena_dup(r->arena, made, &kept))
        return plim_refuse_nomem(r->err);
    r->elements.len = start;
    memcpy(wire_slot(message, field), &kept.data, sizeof(kept.data));
    *wire_count(message, field) = count;
    return true;
}

static const wire_field *find_field(const wire_type *type, plim_bytes name)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        char camel[WIRE_NAME_MAX];
        const wire_field *field = &type->fields[i];
        size_t length = wire_json_name(field, camel);
        if (base_bytes_equal(name, (plim_bytes){camel, length}) || base_bytes_is(name, field->name))
            return field;
    }
    return NULL;
}

static bool read_member(struct reader *r, const wire_type *type, void *message, uint64_t *seen)
{
    wire_json_token key;
    plim_bytes name;
    if (wire_json_next(&r->lexer, &key) != WIRE_JSON_STRING)
        return syntax(r, "expected a member's name");
    if (!wire_json_text(r->arena, &key, &name))
        return plim_refuse_nomem(r->err);
    if (!expect(r, WIRE_JSON_COLON, "expected a colon"))
        return false;
    const wire_field *field = find_field(type, name);
    if (!field)
        return skip_value(r);
    uint64_t bit = UINT64_C(1) << (field - type->fields);
    if (*seen & bit)
        return wire_malformed(r->err, "the member \"%s\" is there twice", field->name);
    *seen |= bit;
    if (wire_json_peek(&r->lexer) == WIRE_JSON_NULL)
        return skip_value(r);
    if (wire_is_list(field))
        return read_list(r, type, field, message);
    if (wire_in_oneof(field) && *wire_case(message, field))
        return wire_malformed(r->err, "the member \"%s\" excludes one that is there too",
                              field->name);
    wire_mark_present(message, field);
    return read_value(r, field, wire_slot(message, field));
}

static bool read_message(struct reader *r, const wire_type *type, void *message)
{
    if (type->n_fields > WIRE_FIELDS_MAX)
        return core_fail_internal(r->err, "%s has too many fields to decode", type->name);
    bool empty = false;
    if (!open_nest(r, WIRE_JSON_OBJECT_END, &empty))
        return false;
    uint64_t seen = 0;
    for (bool more = !empty; more;)
        if (!read_member(r, type, message, &seen) || !more_elements(r, WIRE_JSON_OBJECT_END, &more))
            return false;
    r->depth--;
    return true;
}

bool wire_json_read(base_arena *arena, const wire_type *type, plim_bytes in, void *message,
                    plim_error *err)
{
    if (!in.data)
        in = PLIM_LIT("");
    struct reader r = {.lexer = {in.data, in.data, in.data + in.len, NULL},
                       .arena = arena,
                       .elements = BASE_BUF_INIT(WIRE_DECODE_BYTES_MAX),
                       .err = err};
    bool read = false;
    if (!base_utf8_valid(in))
        wire_malformed(err, "the JSON is not valid UTF-8");
    else if (wire_json_peek(&r.lexer) != WIRE_JSON_OBJECT)
        syntax(&r, "expected an object");
    else
        read = read_message(&r, type, message) && (wire_json_peek(&r.lexer) == WIRE_JSON_END ||
                                                   syntax(&r, "expected nothing after the object"));
    base_buf_free(&r.elements);
    return read;
}
