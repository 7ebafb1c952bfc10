/* What the files of this folder share: one way to refuse a registry. */
#ifndef REGISTRY_INTERNAL_H
#define REGISTRY_INTERNAL_H

#include "registry/registry.h"

#define registry_refuse(err, ...)                                                                  \
    plim_refuse((err), PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,         \
                __VA_ARGS__)

/* An empty registry; NULL when out of memory. */
registry *registry_new(void) PLIM_MUST_USE;

#endif
