#include "base/base.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

struct base_sha256 {
    EVP_MD_CTX *ctx;
    bool failed;
};

base_sha256 *base_sha256_new(void)
{
    base_sha256 *digest = base_new(base_sha256);
    if (!digest)
        return NULL;
    digest->ctx = EVP_MD_CTX_new();
    if (!digest->ctx || EVP_DigestInit_ex(digest->ctx, EVP_sha256(), NULL) != 1) {
        base_sha256_free(digest);
        return NULL;
    }
    return digest;
}

void base_sha256_update(base_sha256 *digest, plim_bytes bytes)
{
    if (bytes.len && EVP_DigestUpdate(digest->ctx, bytes.data, bytes.len) != 1)
        digest->failed = true;
}

bool base_sha256_final(base_sha256 *digest, unsigned char out[BASE_SHA256_BYTES])
{
    return !digest->failed && EVP_DigestFinal_ex(digest->ctx, out, NULL) == 1;
}

void base_sha256_free(base_sha256 *digest)
{
    if (!digest)
        return;
    EVP_MD_CTX_free(digest->ctx);
    base_free(digest);
}

bool base_sha256_of(plim_bytes bytes, unsigned char out[BASE_SHA256_BYTES])
{
    return EVP_Digest(bytes.len ? bytes.data : "", bytes.len, out, NULL, EVP_sha256(), NULL) == 1;
}

bool base_sha256_hex_of(plim_bytes bytes, char out[BASE_SHA256_HEX + 1])
{
    unsigned char digest[BASE_SHA256_BYTES];
    if (!base_sha256_of(bytes, digest))
        return false;
    base_hex(digest, sizeof(digest), out);
    return true;
}

void base_hex(const unsigned char *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = '\0';
}

bool base_equal_constant_time(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

bool base_random(void *out, size_t size)
{
    return size <= INT_MAX && RAND_bytes(out, (int)size) == 1;
}
