/* The default provider: runs nothing and says so. It holds no state, so one object serves every
 * handle and thread. */
#ifndef PROVIDERS_DISABLED_DISABLED_H
#define PROVIDERS_DISABLED_DISABLED_H

#include "core/core.h"

extern const core_provider_ops disabled_provider_ops;

#endif
