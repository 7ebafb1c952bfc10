/* Small pure functions over text that the files of this provider share. */
#ifndef DOCKER_TEXT_H
#define DOCKER_TEXT_H

#include "core/core.h"

/* Printable ASCII of `bytes`, anything else as '?', cut to what `out` holds. Returns `out`. */
const char *docker_printable(plim_bytes bytes, char *out, size_t size);

/* `sha256:` and 64 lower-case hex digits. */
bool docker_content_id_valid(plim_bytes text);
bool docker_hex_valid(plim_bytes text, size_t digits);

/* The first 12 hex digits of a content ID, for messages. */
const char *docker_short_id(const char *id, char out[13]);

/* A name of ours: `prefix` and 16 random hex digits. False when there is no randomness. */
bool docker_random_name(const char *prefix, char *out, size_t size) PLIM_MUST_USE;

/* Append `text` percent-encoded as one path segment or query value. */
void docker_url_encode(base_buf *out, plim_bytes text);

/* The unix second at which a deadline of `left_ms` from now is over, rounded up. */
int64_t docker_expiry(int64_t now_unix_ms, int64_t left_ms);

/* A label's value: decimal digits, nothing else. */
bool docker_expiry_parse(plim_bytes text, int64_t *out);

/*
 * The platform in its usual form, lower case, per the contract's table: `linux/x86_64` is
 * `linux/amd64`. Fewer than 2 or more than 3 parts stay as they are. False when `out` is too small.
 */
bool docker_platform_normalise(plim_bytes platform, char *out, size_t size);

#endif
