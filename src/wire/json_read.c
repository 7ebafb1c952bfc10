/*
 * Protobuf JSON into messages, straight from the tokens: no tree of the document is ever built, so
 * memory stays near the size of what is wanted, and an unwanted member costs nothing but time.
 */
#include "wire/internal.h"

#include <float.h>
#include <math.h>

/* Room for the names of 8 MiB of the smallest members. */
enum { NAMES_BYTES_MAX = 32 * 1024 * 1024 };

struct reader {
    base_json_lexer lexer;
    base_arena *arena;
    base_buf elements; /* of the lists being read, the innermost on top */
    base_buf names;    /* of members that no field wants, of the objects being read, likewise */
    unsigned depth;
    plim_error *err;
};

/* The characters of a string token: itself, or a copy in the arena. False when memory is out. */
static bool text_of(base_arena *arena, const base_json_token *token, plim_bytes *out)
{
    *out = token->text;
    if (!token->escaped)
        return true;
    char *to = base_arena_alloc(arena, token->text.len, 1);
    if (!to)
        return false;
    *out = (plim_bytes){to, base_json_unescape(token, to)};
    return true;
}

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
static bool expect(struct reader *r, base_json_kind kind, const char *expected)
{
    base_json_token token;
    return base_json_next(&r->lexer, &token) == kind || syntax(r, expected);
}

/* After an element: true and `*more` for a comma, true for the end of the array or object. */
static bool more_elements(struct reader *r, base_json_kind end, bool *more)
{
    base_json_token token;
    base_json_kind kind = base_json_next(&r->lexer, &token);
    *more = kind == BASE_JSON_COMMA;
    return *more || kind == end || syntax(r, "expected a comma or the end");
}

/* Take the bracket that opens an array or object; `*empty` when its end follows, which is taken
 * too.
 */
static bool open_nest(struct reader *r, base_json_kind end, bool *empty)
{
    base_json_token token;
    if (base_json_next(&r->lexer, &token) == BASE_JSON_BAD)
        return syntax(r, "");
    if (++r->depth > WIRE_DEPTH_MAX)
        return wire_malformed(r->err, "JSON nests deeper than %d", WIRE_DEPTH_MAX);
    *empty = base_json_peek(&r->lexer) == end;
    return !*empty || base_json_next(&r->lexer, &token) == end;
}

/* Take a member's name and the colon after it. */
static bool take_name(struct reader *r, plim_bytes *out)
{
    base_json_token token;
    if (base_json_next(&r->lexer, &token) != BASE_JSON_STRING)
        return syntax(r, "expected a member's name");
    if (!text_of(r->arena, &token, out))
        return plim_refuse_nomem(r->err);
    return expect(r, BASE_JSON_COLON, "expected a colon");
}

/* ---- members that no field wants: well-formed JSON with distinct names, and that is all ---- */

static bool keep_name(struct reader *r, plim_bytes name)
{
    return base_buf_add(&r->names, (plim_bytes){(const char *)&name, sizeof(name)}) ||
           plim_refuse_nomem(r->err);
}

static int compare_names(const void *a, const void *b)
{
    return base_bytes_compare(*(const plim_bytes *)a, *(const plim_bytes *)b);
}

/* At the end of an object, whose first name was kept at `start`: are they distinct? */
static bool drop_names(struct reader *r, size_t start)
{
    size_t count = (r->names.len - start) / sizeof(plim_bytes);
    r->names.len = start;
    if (count < 2)
        return true;
    /* What was added in pieces of one size lies aligned, as the buffer itself does. */
    plim_bytes *names = (plim_bytes *)(void *)(r->names.data + start);
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 1; i < count; i++)
        if (base_bytes_equal(names[i - 1], names[i]))
            return wire_malformed(r->err, "an object has two members of one name");
    return true;
}

static bool skip_value(struct reader *r);

static bool skip_elements(struct reader *r, base_json_kind end)
{
    bool empty = false;
    size_t start = r->names.len;
    if (!open_nest(r, end, &empty))
        return false;
    for (bool more = !empty; more;) {
        plim_bytes name = {NULL, 0};
        if (end == BASE_JSON_OBJECT_END && (!take_name(r, &name) || !keep_name(r, name)))
            return false;
        if (!skip_value(r) || !more_elements(r, end, &more))
            return false;
    }
    r->depth--;
    return drop_names(r, start);
}

static bool skip_value(struct reader *r)
{
    base_json_token token;
    switch (base_json_peek(&r->lexer)) {
    case BASE_JSON_OBJECT:
        return skip_elements(r, BASE_JSON_OBJECT_END);
    case BASE_JSON_ARRAY:
        return skip_elements(r, BASE_JSON_ARRAY_END);
    case BASE_JSON_STRING:
    case BASE_JSON_NUMBER:
    case BASE_JSON_TRUE:
    case BASE_JSON_FALSE:
    case BASE_JSON_NULL:
        return base_json_next(&r->lexer, &token) != BASE_JSON_BAD || syntax(r, "");
    default:
        return syntax(r, "expected a value");
    }
}

/* Is the token a number, perhaps in a string? Its escapes are undone already, as in all that
 * follow.
 */
static bool is_number(const base_json_token *token)
{
    return token->kind == BASE_JSON_NUMBER ||
           (token->kind == BASE_JSON_STRING && base_json_number_valid(token->text));
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

static bool read_integer(struct reader *r, const wire_field *field, const base_json_token *token,
                         void *value)
{
    bool negative;
    uint64_t magnitude;
    if (!is_number(token) || !wire_integer_read(token->text, &negative, &magnitude))
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

static bool read_floating(struct reader *r, const wire_field *field, const base_json_token *token,
                          void *value)
{
    double number;
    bool is_float = field->type == PROTOBUF_C_TYPE_FLOAT;
    bool special = token->kind == BASE_JSON_STRING && special_number(token->text, &number);
    if (!special && !is_number(token))
        return misfit(r, field, "a number");
    if (!special &&
        (!wire_number_read(token->text, &number) || (is_float && fabs(number) > (double)FLT_MAX)))
        return misfit(r, field, "within the range of its type");
    if (is_float) {
        float narrow = (float)number;
        memcpy(value, &narrow, sizeof(narrow));
    } else {
        memcpy(value, &number, sizeof(number));
    }
    return true;
}

static bool read_enum(struct reader *r, const wire_field *field, const base_json_token *token,
                      void *value)
{
    if (token->kind == BASE_JSON_NUMBER)
        return read_integer(r, field, token, value);
    if (token->kind != BASE_JSON_STRING)
        return misfit(r, field, "the name or number of an enum value");
    const ProtobufCEnumDescriptor *names = field->descriptor;
    for (unsigned i = 0; i < names->n_value_names; i++) {
        if (!base_bytes_is(token->text, names->values_by_name[i].name))
            continue;
        wire_store(field, value, (uint64_t)names->values[names->values_by_name[i].index].value);
        return true;
    }
    return misfit(r, field, "a known name of an enum value");
}

static bool read_text(struct reader *r, const wire_field *field, const base_json_token *token,
                      plim_bytes *out)
{
    plim_bytes text = token->text;
    if (token->kind != BASE_JSON_STRING)
        return misfit(r, field, "a string");
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

static bool read_bool(struct reader *r, const wire_field *field, const base_json_token *token,
                      void *value)
{
    if (token->kind != BASE_JSON_TRUE && token->kind != BASE_JSON_FALSE)
        return misfit(r, field, "true or false");
    wire_store(field, value, token->kind == BASE_JSON_TRUE);
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
        if (base_json_peek(&r->lexer) != BASE_JSON_OBJECT)
            return misfit(r, field, "an object");
        return read_message(r, field->descriptor, made);
    }
    base_json_token token;
    if (base_json_next(&r->lexer, &token) == BASE_JSON_BAD)
        return syntax(r, "");
    if (!text_of(r->arena, &token, &token.text))
        return plim_refuse_nomem(r->err);
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
    if (base_json_peek(&r->lexer) != BASE_JSON_ARRAY)
        return misfit(r, field, "an array");
    bool empty = false;
    if (!open_nest(r, BASE_JSON_ARRAY_END, &empty))
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
        if (!more_elements(r, BASE_JSON_ARRAY_END, &more))
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
    plim_bytes name = {NULL, 0};
    if (!take_name(r, &name))
        return false;
    const wire_field *field = find_field(type, name);
    if (!field)
        return keep_name(r, name) && skip_value(r);
    uint64_t bit = UINT64_C(1) << (field - type->fields);
    if (*seen & bit)
        return wire_malformed(r->err, "the member \"%s\" is there twice", field->name);
    *seen |= bit;
    if (base_json_peek(&r->lexer) == BASE_JSON_NULL)
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
    size_t start = r->names.len;
    if (!open_nest(r, BASE_JSON_OBJECT_END, &empty))
        return false;
    uint64_t seen = 0;
    for (bool more = !empty; more;)
        if (!read_member(r, type, message, &seen) || !more_elements(r, BASE_JSON_OBJECT_END, &more))
            return false;
    r->depth--;
    return drop_names(r, start);
}

bool wire_json_read(base_arena *arena, const wire_type *type, plim_bytes in, void *message,
                    plim_error *err)
{
    if (!in.data)
        in = PLIM_LIT("");
    struct reader r = {.lexer = {in.data, in.data, in.data + in.len, NULL},
                       .arena = arena,
                       .elements = BASE_BUF_INIT(WIRE_DECODE_BYTES_MAX),
                       .names = BASE_BUF_INIT(NAMES_BYTES_MAX),
                       .err = err};
    bool read = false;
    if (!base_utf8_valid(in))
        wire_malformed(err, "the JSON is not valid UTF-8");
    else if (base_json_peek(&r.lexer) != BASE_JSON_OBJECT)
        syntax(&r, "expected an object");
    else
        read = read_message(&r, type, message) && (base_json_peek(&r.lexer) == BASE_JSON_END ||
                                                   syntax(&r, "expected nothing after the object"));
    base_buf_free(&r.elements);
    base_buf_free(&r.names);
    return read;
}
