#include "providers/docker/mac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

bool docker_mac_verifies(const unsigned char key[CTL_KEY_BYTES], plim_bytes bytes, const char *mac)
{
    unsigned char wanted[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    char hex[CTL_MAC_HEX + 1];
    if (!HMAC(EVP_sha256(), key, CTL_KEY_BYTES, (const unsigned char *)bytes.data, bytes.len,
              wanted, &length) ||
        length * 2 != CTL_MAC_HEX)
        return false;
    base_hex(wanted, length, hex);
    return base_equal_constant_time(hex, mac, CTL_MAC_HEX);
}
