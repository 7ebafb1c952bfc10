/* SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104) for a program that links no library. Plain values,
 * no allocation, any thread. Whoever holds a key or a state of one wipes it. */
#ifndef GUEST_CTL_SHA256_H
#define GUEST_CTL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { CTL_SHA256_BYTES = 32, CTL_SHA256_BLOCK = 64 };

struct ctl_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* hashed so far */
    unsigned char block[CTL_SHA256_BLOCK];
};

void ctl_sha256_begin(struct ctl_sha256 *hash);
void ctl_sha256_add(struct ctl_sha256 *hash, const void *data, size_t len);
void ctl_sha256_end(struct ctl_sha256 *hash, unsigned char out[CTL_SHA256_BYTES]);

struct ctl_hmac {
    struct ctl_sha256 inner, outer;
};

/* `key_len` is at most CTL_SHA256_BLOCK: longer keys are not used here. */
void ctl_hmac_begin(struct ctl_hmac *mac, const unsigned char *key, size_t key_len);
void ctl_hmac_add(struct ctl_hmac *mac, const void *data, size_t len);
void ctl_hmac_end(struct ctl_hmac *mac, unsigned char out[CTL_SHA256_BYTES]);

#endif
