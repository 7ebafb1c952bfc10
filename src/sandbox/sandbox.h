/*
 * The public handle: one type for a provider of this process and for a daemon. sandbox.c is the
 * surface (sized structs, errors, cancel handles); a backend does the work: local.c through the
 * core's gate. The functions are declared in <plimsoll/sandbox.h>; nothing else of this folder is
 * for others.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "core/core.h"

#include <plimsoll/plimsoll.h>

/* What stands behind a handle. Every operation may be called from any thread, but for free. */
typedef struct sandbox_backend sandbox_backend;

typedef struct sandbox_backend_ops {
    void (*free)(sandbox_backend *backend);
    bool (*ready)(sandbox_backend *backend, const run_ctx *ctx, plim_error *err);
    bool (*run)(sandbox_backend *backend, const core_request *request, const run_ctx *ctx,
                plim_result **out, plim_error *err);
    /* A binary RunRequest, exactly as given. */
    bool (*exchange)(sandbox_backend *backend, plim_bytes request, const run_ctx *ctx,
                     plim_result **out, plim_error *err);
    bool (*describe)(sandbox_backend *backend, const run_ctx *ctx, core_description *out,
                     plim_error *err);
} sandbox_backend_ops;

/* Every backend starts with this. */
struct sandbox_backend {
    const sandbox_backend_ops *ops;
};

/* A provider of this process, by settings. Errors as of plim_sandbox_local. */
bool sandbox_local_new(const plim_local_options *options, sandbox_backend **out, plim_error *err);

/* A daemon. Sends nothing. Errors as of plim_sandbox_connect. */
bool sandbox_remote_new(const plim_client_options *options, sandbox_backend **out, plim_error *err);

#endif
