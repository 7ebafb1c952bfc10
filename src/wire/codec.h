/*
 * Both encodings of a message. Decoding bounds depth (WIRE_DEPTH_MAX), list lengths (the table in
 * limits.c) and, by the arena's maximum, memory; it never recurses deeper than the depth.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

typedef enum { WIRE_PROTO, WIRE_JSON } wire_codec;

/* How deep messages, groups, and JSON objects and arrays may nest. */
enum { WIRE_DEPTH_MAX = 100 };

/* Give the arena of a decode this maximum: with 8 MiB as sent and 8 MiB inflated it keeps one
 * decode below the contract's 96 MiB. */
enum { WIRE_DECODE_BYTES_MAX = 64 * 1024 * 1024 };

/*
 * Decode `in`; the message, or NULL. An unmarked `invalid_argument` says what is malformed; a list
 * past its limit is the same marked `request`; a full arena is `resource_exhausted`, marked.
 */
void *wire_decode(base_arena *arena, wire_codec codec, const wire_type *type, plim_bytes in,
                  plim_error *err) PLIM_MUST_USE;

/*
 * The rules of binary decoding without making anything: structure, UTF-8, depth, list lengths.
 * wire_decode does it first. Errors as above.
 */
bool wire_scan(const wire_type *type, plim_bytes in, plim_error *err) PLIM_MUST_USE;

/*
 * Append `message` (a wire_<name>) to `out`: false when the buffer is full. Texts must be valid
 * UTF-8. Two equal messages have equal encodings.
 */
bool wire_encode(wire_codec codec, const void *message, base_buf *out) PLIM_MUST_USE;

/* A JSON string of `text`, quotes and all; it must be valid UTF-8. */
bool wire_json_add_text(base_buf *out, plim_bytes text);

/* Base64 of the standard alphabet, padded or not, as JSON and details of errors have it. */
bool wire_base64_add(base_buf *out, plim_bytes bytes, bool padded);

/* Base64 in either alphabet, padded or not; `out` holds at least text.len / 4 * 3 + 2 bytes. False
 * when it is not base64. */
bool wire_base64_decode(plim_bytes text, char *out, size_t *length) PLIM_MUST_USE;

#endif
