/* The plan that a project's runner reads: one JSON document. Pure. */
#ifndef DOCKER_PLAN_H
#define DOCKER_PLAN_H

#include "core/core.h"

#include "guest/ctl/ctl.h"

/* On the heap, to be freed with base_free_secret (it holds the key); NULL when out of memory.
 * `env` are the image's variables. */
char *docker_plan_write(const plim_project_request *request, int64_t step_timeout_ms,
                        const char *const *env, size_t env_count,
                        const unsigned char key[CTL_KEY_BYTES]) PLIM_MUST_USE;

#endif
