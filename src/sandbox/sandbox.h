/*
 * The public handle: one type for a provider of this process and, with the client, for a daemon. It
 * adds to the core what an embedding program expects: option structs with sizes, a startup test
 * before the first run, cancel handles. The functions are declared in <plimsoll/sandbox.h>; nothing
 * else of this folder is for others.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "core/core.h"

#include <plimsoll/plimsoll.h>

#endif
