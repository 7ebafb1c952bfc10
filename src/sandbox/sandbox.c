#include "sandbox/sandbox.h"

#include <sys/eventfd.h>

struct plim_sandbox {
    sandbox_backend *backend;
};

struct plim_cancel {
    int fd; /* an eventfd that becomes readable and stays so */
};

struct plim_info {
    core_description description;
};

const char *plim_version(void)
{
    return PLIM_VERSION;
}

/* ---- cancel ---- */

plim_cancel *plim_cancel_new(void)
{
    plim_cancel *cancel = base_new(plim_cancel);
    if (!cancel)
        return NULL;
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd >= 0)
        return cancel;
    base_free(cancel);
    return NULL;
}

void plim_cancel_fire(plim_cancel *cancel)
{
    uint64_t one = 1;
    ssize_t written = write(cancel->fd, &one, sizeof(one));
    (void)written; /* a full counter is readable already */
}

bool plim_cancel_fired(const plim_cancel *cancel)
{
    return run_ctx_is_canceled(&(run_ctx){BASE_NEVER, cancel->fd});
}

void plim_cancel_free(plim_cancel *cancel)
{
    if (!cancel)
        return;
    base_fd_close(&cancel->fd);
    base_free(cancel);
}

static run_ctx context_of(const plim_cancel *cancel)
{
    return (run_ctx){BASE_NEVER, cancel ? cancel->fd : -1};
}

/* ---- opening ---- */

/* What every call of the interface returns: the class of the error. `err` may be NULL, so the class
 * is kept apart. */
static plim_status status_of(bool good, plim_error *local, plim_error *err)
{
    plim_status status = good ? PLIM_OK : local->status;
    plim_error_move(err, local);
    return status;
}

/* Open a handle on the backend that `new_backend` makes of the options. */
#define DEFINE_OPEN(name, options_type, new_backend)                                               \
    static bool open_##name(const options_type *given, plim_sandbox **out, plim_error *err)        \
    {                                                                                              \
        options_type options = {.size = sizeof(options)};                                          \
        if (!core_read_sized(&options, sizeof(options), given, err))                               \
            return false;                                                                          \
        plim_sandbox *sandbox = base_new(plim_sandbox);                                            \
        if (!sandbox)                                                                              \
            return plim_refuse_nomem(err);                                                         \
        if (!new_backend(&options, &sandbox->backend, err)) {                                      \
            base_free(sandbox);                                                                    \
            return false;                                                                          \
        }                                                                                          \
        *out = sandbox;                                                                            \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    plim_status plim_sandbox_##name(const options_type *given, plim_sandbox **out,                 \
                                    plim_error *err)                                               \
    {                                                                                              \
        plim_error local = PLIM_ERROR_INIT;                                                        \
        *out = NULL;                                                                               \
        return status_of(open_##name(given, out, &local), &local, err);                            \
    }

DEFINE_OPEN(local, plim_local_options, sandbox_local_new)
DEFINE_OPEN(connect, plim_client_options, sandbox_remote_new)

void plim_sandbox_free(plim_sandbox *sandbox)
{
    if (!sandbox)
        return;
    sandbox->backend->ops->free(sandbox->backend);
    base_free(sandbox);
}

plim_status plim_sandbox_ready(plim_sandbox *sandbox, plim_cancel *cancel, plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    run_ctx ctx = context_of(cancel);
    return status_of(sandbox->backend->ops->ready(sandbox->backend, &ctx, &local), &local, err);
}

/* ---- running ---- */

#define DEFINE_RUN(name, kind_name)                                                                \
    plim_status plim_run_##name(plim_sandbox *sandbox, const plim_##name##_request *given,         \
                                plim_cancel *cancel, plim_result **out, plim_error *err)           \
    {                                                                                              \
        plim_error local = PLIM_ERROR_INIT;                                                        \
        plim_##name##_request request = {.size = 0};                                               \
        core_request inner = {                                                                     \
            .kind = PLIM_KIND_##kind_name, .options = &request.options, .name = &request};         \
        run_ctx ctx = context_of(cancel);                                                          \
        *out = NULL;                                                                               \
        bool good = core_read_sized(&request, sizeof(request), given, &local) &&                   \
                    sandbox->backend->ops->run(sandbox->backend, &inner, &ctx, out, &local);       \
        return status_of(good, &local, err);                                                       \
    }

DEFINE_RUN(javascript, JAVASCRIPT)
DEFINE_RUN(project, PROJECT)
DEFINE_RUN(module, MODULE)

plim_status plim_exchange(plim_sandbox *sandbox, plim_bytes request, plim_cancel *cancel,
                          plim_result **out, plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    run_ctx ctx = context_of(cancel);
    *out = NULL;
    return status_of(sandbox->backend->ops->exchange(sandbox->backend, request, &ctx, out, &local),
                     &local, err);
}

/* ---- describing ---- */

static bool describe(plim_sandbox *sandbox, const run_ctx *ctx, plim_info **out, plim_error *err)
{
    plim_info *info = base_new(plim_info);
    if (!info)
        return plim_refuse_nomem(err);
    bool good = sandbox->backend->ops->describe(sandbox->backend, ctx, &info->description, err);
    /* A daemon of another protocol is described all the same. */
    if (good || plim_error_status(err) == PLIM_E_PROTOCOL_MISMATCH)
        *out = info;
    else
        base_free(info);
    return good;
}

plim_status plim_describe(plim_sandbox *sandbox, plim_cancel *cancel, plim_info **out,
                          plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    run_ctx ctx = context_of(cancel);
    *out = NULL;
    return status_of(describe(sandbox, &ctx, out, &local), &local, err);
}

static bool is_kind(plim_kind kind)
{
    return kind > PLIM_KIND_NONE && kind <= PLIM_KIND_CELL;
}

const char *plim_info_provider(const plim_info *info)
{
    return info->description.provider;
}

plim_tier plim_info_tier(const plim_info *info)
{
    return info->description.tier;
}

bool plim_info_supports(const plim_info *info, plim_kind kind)
{
    return is_kind(kind) && info->description.supports[kind];
}

bool plim_info_supports_grant(const plim_info *info, plim_kind kind)
{
    return is_kind(kind) && info->description.supports_grant[kind];
}

bool plim_info_supports_sessions(const plim_info *info)
{
    return info->description.supports_sessions;
}

plim_environment plim_info_environment(const plim_info *info, plim_kind kind)
{
    if (!is_kind(kind))
        return (plim_environment){"", "", 0};
    const core_environment *found = &info->description.environment[kind];
    return (plim_environment){found->identity, found->software_identity, found->max_timeout_ms};
}

int64_t plim_info_memory_mb(const plim_info *info)
{
    return info->description.memory_mb;
}

double plim_info_cpus(const plim_info *info)
{
    return info->description.cpus;
}

int64_t plim_info_pids(const plim_info *info)
{
    return info->description.pids;
}

int64_t plim_info_disk_mb(const plim_info *info)
{
    return info->description.disk_mb;
}

plim_info *plim_info_copy(const plim_info *info)
{
    plim_info *copy = base_new(plim_info);
    if (copy)
        *copy = *info;
    return copy;
}

void plim_info_free(plim_info *info)
{
    base_free(info);
}
