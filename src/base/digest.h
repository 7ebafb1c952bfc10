/* SHA-256, constant-time comparison, hex and random bytes; all of OpenSSL's making. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <plimsoll/types.h>

enum { BASE_SHA256_BYTES = 32, BASE_SHA256_HEX = 64 };

typedef struct base_sha256 base_sha256;

/* An incremental digest; NULL when out of memory. A failed update makes base_sha256_final fail. */
base_sha256 *base_sha256_new(void) PLIM_MUST_USE;
void base_sha256_update(base_sha256 *digest, plim_bytes bytes);
bool base_sha256_final(base_sha256 *digest, unsigned char out[BASE_SHA256_BYTES]) PLIM_MUST_USE;
void base_sha256_free(base_sha256 *digest);
BASE_CLEANUP_FN(base_sha256, base_sha256_free, base_sha256_freep)

/* One shot. False only when the crypto library fails. */
bool base_sha256_of(plim_bytes bytes, unsigned char out[BASE_SHA256_BYTES]) PLIM_MUST_USE;
bool base_sha256_hex_of(plim_bytes bytes, char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;

/* Lowercase hex of `size` bytes and a terminator into `out`, which holds 2 * size + 1. */
void base_hex(const unsigned char *bytes, size_t size, char *out);

/* Are `size` bytes equal? Takes the same time whatever they hold. */
bool base_equal_constant_time(const void *a, const void *b, size_t size);

/* Fill from the system's cryptographic source; false when it fails. */
bool base_random(void *out, size_t size) PLIM_MUST_USE;

#endif
