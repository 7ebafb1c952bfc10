#include "sha256.h"

#include <assert.h>
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static uint32_t load_big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void store_big_endian(unsigned char *at, uint32_t word)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(word >> (24 - 8 * i));
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    for (unsigned i = 0; i < 16; i++)
        w[i] = load_big_endian(block + 4 * (size_t)i);
    for (unsigned i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t sum1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + sum1 + choice + round_constants[i] + w[i];
        uint32_t sum0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + sum0 + majority;
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += v[i];
}

void ctl_sha256_begin(struct ctl_sha256 *hash)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->bytes = 0;
}

void ctl_sha256_add(struct ctl_sha256 *hash, const void *data, size_t len)
{
    const unsigned char *at = data;
    size_t held = hash->bytes % CTL_SHA256_BLOCK;
    hash->bytes += len;
    if (held && len >= CTL_SHA256_BLOCK - held) {
        memcpy(hash->block + held, at, CTL_SHA256_BLOCK - held);
        compress(hash->state, hash->block);
        at += CTL_SHA256_BLOCK - held;
        len -= CTL_SHA256_BLOCK - held;
        held = 0;
    }
    for (; held == 0 && len >= CTL_SHA256_BLOCK; at += CTL_SHA256_BLOCK, len -= CTL_SHA256_BLOCK)
        compress(hash->state, at);
    if (len)
        memcpy(hash->block + held, at, len);
}

void ctl_sha256_end(struct ctl_sha256 *hash, unsigned char out[CTL_SHA256_BYTES])
{
    static const unsigned char padding[CTL_SHA256_BLOCK] = {0x80};
    unsigned char length[8];
    uint64_t bits = hash->bytes * 8;
    store_big_endian(length, (uint32_t)(bits >> 32));
    store_big_endian(length + 4, (uint32_t)bits);
    size_t held = hash->bytes % CTL_SHA256_BLOCK;
    ctl_sha256_add(hash, padding, (held < 56 ? 56 : 56 + CTL_SHA256_BLOCK) - held);
    ctl_sha256_add(hash, length, sizeof length);
    for (unsigned i = 0; i < 8; i++)
        store_big_endian(out + 4 * (size_t)i, hash->state[i]);
}

void ctl_hmac_begin(struct ctl_hmac *mac, const unsigned char *key, size_t key_len)
{
    unsigned char inner[CTL_SHA256_BLOCK], outer[CTL_SHA256_BLOCK];
    assert(key_len <= CTL_SHA256_BLOCK);
    for (size_t i = 0; i < CTL_SHA256_BLOCK; i++) {
        unsigned char byte = i < key_len ? key[i] : 0;
        inner[i] = byte ^ 0x36;
        outer[i] = byte ^ 0x5c;
    }
    ctl_sha256_begin(&mac->inner);
    ctl_sha256_add(&mac->inner, inner, sizeof inner);
    ctl_sha256_begin(&mac->outer);
    ctl_sha256_add(&mac->outer, outer, sizeof outer);
    explicit_bzero(inner, sizeof inner);
    explicit_bzero(outer, sizeof outer);
}

void ctl_hmac_add(struct ctl_hmac *mac, const void *data, size_t len)
{
    ctl_sha256_add(&mac->inner, data, len);
}

void ctl_hmac_end(struct ctl_hmac *mac, unsigned char out[CTL_SHA256_BYTES])
{
    ctl_sha256_end(&mac->inner, out);
    ctl_sha256_add(&mac->outer, out, CTL_SHA256_BYTES);
    ctl_sha256_end(&mac->outer, out);
}
