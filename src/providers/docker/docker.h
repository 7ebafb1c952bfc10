/* The provider `docker`: snippets and projects in containers of a local Engine; tier container, or
 * kernel under a proven gVisor. */
#ifndef DOCKER_DOCKER_H
#define DOCKER_DOCKER_H

#include "core/core.h"

extern const core_provider_ops docker_provider_ops;

#endif
