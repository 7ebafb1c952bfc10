/*
 * Decoding binary messages that wire_scan accepted, in two passes over the fields of each message:
 * the first counts, so that lists are allocated once and exactly; the second fills. Occurrences of
 * one singular message are merged by decoding their concatenation, which is what merging means.
 */
#include "wire/internal.h"

/* What the first pass knows of a field. */
struct tally {
    size_t count;        /* values of a list, occurrences of anything else */
    size_t bytes;        /* of a singular message's occurrences together */
    const uint8_t *from; /* of a oneof's member: where its present life began */
    size_t filled;       /* by the second pass: values, or bytes of a merge */
    char *merged;        /* room for a merge */
};

struct reading {
    base_arena *arena;
    const wire_type *type;
    char *message;
    struct tally *tallies; /* one for each field of the type */
    plim_error *err;
};

/* Another member of the oneof was set: what was there before is forgotten. */
static void forget_siblings(struct reading *r, const wire_field *field)
{
    for (unsigned i = 0; i < r->type->n_fields; i++) {
        const wire_field *other = &r->type->fields[i];
        if (other != field && wire_in_oneof(other) &&
            other->quantifier_offset == field->quantifier_offset)
            r->tallies[i] = (struct tally){0};
    }
}

static bool count_fields(struct reading *r, wire_cursor in)
{
    while (in.at < in.end) {
        const uint8_t *start = in.at;
        wire_token token = {0};
        if (wire_take(&in, &token))
            return core_fail_internal(r->err, "a message changed while it was decoded");
        const wire_field *field = wire_field_of(r->type, &token);
        if (!field)
            continue;
        struct tally *tally = &r->tallies[field - r->type->fields];
        if (wire_in_oneof(field)) {
            forget_siblings(r, field);
            if (tally->count == 0)
                tally->from = start;
        }
        tally->count += wire_is_list(field) ? wire_packed_count(field, &token) : 1;
        tally->bytes += token.bytes.len;
    }
    return true;
}

/* Lists, messages and merges get their memory. */
static bool make_room(struct reading *r)
{
    for (unsigned i = 0; i < r->type->n_fields; i++) {
        const wire_field *field = &r->type->fields[i];
        struct tally *tally = &r->tallies[i];
        void *slot = wire_slot(r->message, field);
        if (tally->count == 0)
            continue;
        if (wire_is_list(field)) {
            size_t most = wire_list_max(r->type, field);
            if (tally->count > most)
                return wire_list_refused(field, most, r->err);
            *wire_count(r->message, field) = tally->count;
            *(void **)slot = base_arena_alloc(r->arena, tally->count, wire_value_size(field));
            if (!*(void **)slot)
                return plim_refuse_nomem(r->err);
        } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            *(void **)slot = wire_new(r->arena, field->descriptor);
            if (tally->count > 1)
                tally->merged = base_arena_alloc(r->arena, tally->bytes, 1);
            if (!*(void **)slot || (tally->count > 1 && !tally->merged))
                return plim_refuse_nomem(r->err);
        }
    }
    return true;
}

static bool fill_message(struct reading *r, const wire_field *field, void *made, plim_bytes bytes)
{
    return wire_proto_read(r->arena, field->descriptor, bytes, made, r->err);
}

/* A number as it is on the wire, into memory. */
static void store_wire(const wire_field *field, void *value, uint64_t bits)
{
    bool zigzag = field->type == PROTOBUF_C_TYPE_SINT32 || field->type == PROTOBUF_C_TYPE_SINT64;
    wire_store(field, value, zigzag ? (bits >> 1) ^ (~(bits & 1) + 1) : bits);
}

static bool fill_list(struct reading *r, const wire_field *field, const wire_token *token)
{
    struct tally *tally = &r->tallies[field - r->type->fields];
    size_t size = wire_value_size(field);
    char *next = *(char **)wire_slot(r->message, field) + tally->filled * size;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        void *made = wire_new(r->arena, field->descriptor);
        if (!made)
            return plim_refuse_nomem(r->err);
        memcpy(next, &made, sizeof(made));
        tally->filled++;
        return fill_message(r, field, made, token->bytes);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES) {
        memcpy(next, &token->bytes, sizeof(token->bytes));
        tally->filled++;
        return true;
    }
    if (token->form != WIRE_LENGTH) {
        store_wire(field, next, token->bits);
        tally->filled++;
        return true;
    }
    wire_cursor in = wire_cursor_of(token->bytes);
    for (uint64_t bits; in.at < in.end && wire_take_value(&in, wire_form_of(field), &bits);) {
        store_wire(field, next, bits);
        next += size;
        tally->filled++;
    }
    return true;
}

static bool fill_single(struct reading *r, const wire_field *field, const wire_token *token)
{
    struct tally *tally = &r->tallies[field - r->type->fields];
    void *slot = wire_slot(r->message, field);
    wire_mark_present(r->message, field);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (!tally->merged)
            return fill_message(r, field, *(void **)slot, token->bytes);
        if (token->bytes.len)
            memcpy(tally->merged + tally->filled, token->bytes.data, token->bytes.len);
        tally->filled += token->bytes.len;
        /* The last occurrence brings the count down to none. */
        return --tally->count ||
               fill_message(r, field, *(void **)slot, (plim_bytes){tally->merged, tally->filled});
    }
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES) {
        *(plim_bytes *)slot = token->bytes;
        return true;
    }
    store_wire(field, slot, token->bits);
    return true;
}

static bool fill_fields(struct reading *r, wire_cursor in)
{
    while (in.at < in.end) {
        const uint8_t *start = in.at;
        wire_token token = {0};
        if (wire_take(&in, &token))
            return core_fail_internal(r->err, "a message changed while it was decoded");
        const wire_field *field = wire_field_of(r->type, &token);
        if (!field)
            continue;
        const struct tally *tally = &r->tallies[field - r->type->fields];
        if (tally->count == 0 || start < tally->from)
            continue;
        if (!(wire_is_list(field) ? fill_list(r, field, &token) : fill_single(r, field, &token)))
            return false;
    }
    return true;
}

bool wire_proto_read(base_arena *arena, const wire_type *type, plim_bytes in, void *message,
                     plim_error *err)
{
    /* Zeroing all of it for each of 100,000 rows would cost more than reading them. */
    __attribute__((uninitialized)) struct tally tallies[WIRE_FIELDS_MAX];
    memset(tallies, 0, type->n_fields * sizeof(*tallies));
    struct reading r = {arena, type, message, tallies, err};
    return count_fields(&r, wire_cursor_of(in)) && make_room(&r) &&
           fill_fields(&r, wire_cursor_of(in));
}
