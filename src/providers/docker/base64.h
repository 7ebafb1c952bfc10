/* Strict base64 (RFC 4648, padded, no white space): a pure function over hostile text. */
#ifndef DOCKER_BASE64_H
#define DOCKER_BASE64_H

#include "base/base.h"

/* Decode into `arena`. False: not base64 in its one canonical form, or no room. */
bool docker_base64_decode(plim_bytes text, base_arena *arena, plim_bytes *out);

#endif
