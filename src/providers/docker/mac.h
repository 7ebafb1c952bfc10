/* The MAC that a control program signs with: HMAC-SHA256 under the key of a run, as lower-case hex
 * digits. Pure. */
#ifndef DOCKER_MAC_H
#define DOCKER_MAC_H

#include "core/core.h"

#include "guest/ctl/ctl.h"

/* Is `mac`, of CTL_MAC_HEX digits, that of the bytes? Compared in constant time. */
bool docker_mac_verifies(const unsigned char key[CTL_KEY_BYTES], plim_bytes bytes, const char *mac);

#endif
