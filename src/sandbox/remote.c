/* The remote backend: a daemon, through the client that checks its answers. */
#include "sandbox/sandbox.h"

#include "client/client.h"

typedef struct remote_backend {
    sandbox_backend base;
    client *client;
} remote_backend;

static void remote_free(sandbox_backend *base)
{
    remote_backend *backend = (remote_backend *)base;
    client_free(backend->client);
    base_free(backend);
}

static bool remote_describe(sandbox_backend *base, const run_ctx *ctx, core_description *out,
                            plim_error *err)
{
    return client_describe(((remote_backend *)base)->client, ctx, out, err);
}

/* A daemon that answers Describe is ready: it serves nothing before its own startup test passed. */
static bool remote_ready(sandbox_backend *base, const run_ctx *ctx, plim_error *err)
{
    core_description ignored;
    return remote_describe(base, ctx, &ignored, err);
}

static bool remote_run(sandbox_backend *base, const core_request *request, const run_ctx *ctx,
                       plim_result **out, plim_error *err)
{
    return client_run(((remote_backend *)base)->client, request, ctx, out, err);
}

static bool remote_exchange(sandbox_backend *base, plim_bytes request, const run_ctx *ctx,
                            plim_result **out, plim_error *err)
{
    return client_exchange(((remote_backend *)base)->client, request, ctx, out, err);
}

static const sandbox_backend_ops remote_ops = {
    .free = remote_free,
    .ready = remote_ready,
    .run = remote_run,
    .exchange = remote_exchange,
    .describe = remote_describe,
};

bool sandbox_remote_new(const plim_client_options *options, sandbox_backend **out, plim_error *err)
{
    remote_backend *backend = base_new(remote_backend);
    if (!backend)
        return plim_refuse_nomem(err);
    if (!client_new(options, &backend->client, err)) {
        base_free(backend);
        return false;
    }
    backend->base.ops = &remote_ops;
    *out = &backend->base;
    return true;
}
