/* What the control program takes from src/base: bytes, memory, scope cleanup. Not through that
 * folder's door, which brings the crypto library along and bans fork for the daemon's sake: there
 * are no threads here. */
#ifndef GUEST_CTL_COMMON_H
#define GUEST_CTL_COMMON_H

#include <plimsoll/types.h>

#include "base/cleanup.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/fd.h"

#endif
