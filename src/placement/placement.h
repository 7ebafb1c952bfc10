/*
 * The door of placement: a pool of sandboxes behind <plimsoll/placement.h>. It sees sandboxes
 * through their public functions only, so local and remote ones are the same to it.
 */
#ifndef PLACEMENT_PLACEMENT_H
#define PLACEMENT_PLACEMENT_H

#include "client/client.h"

#include <plimsoll/placement.h>

#endif
