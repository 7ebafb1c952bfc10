/*
 * The registry of providers: one row each. A provider is chosen by name, once, when a sandbox is
 * opened; there is no fallback from one to another.
 */
#ifndef PROVIDERS_PROVIDERS_H
#define PROVIDERS_PROVIDERS_H

#include "core/core.h"

/* Every provider of this build, `disabled` first; the table ends with NULL. */
extern const core_provider_ops *const providers_table[];

/* The provider that settings name; `disabled` when they name none. Errors: PLIM_E_INVALID_OPTION
 * listing the names. */
const core_provider_ops *providers_find(const core_settings *settings, plim_error *err);

#endif
