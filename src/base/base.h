/*
 * The door of the base layer: memory, bytes, errors, time, descriptors, digests, logging. It knows
 * nothing of sandboxes. Every other folder includes this header and no other of base. All of it is
 * safe from any thread as long as one object is used by one thread at a time; the log sink is the
 * only process-wide state.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <alloca.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <plimsoll/error.h>
#include <plimsoll/types.h>

#include "base/cleanup.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/chars.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/run_ctx.h"
#include "base/text.h"

#include "base/banned.h"

#endif
