#include "placement/pool.h"

enum { BACKENDS_MAX = 1024, NAME_BYTES_MAX = 256 };

/* ---- descriptions ---- */

static pool_info *info_hold(pool_info *info)
{
    if (info)
        atomic_fetch_add(&info->holders, 1);
    return info;
}

void pool_info_release(pool_info *info)
{
    if (!info || atomic_fetch_sub(&info->holders, 1) > 1)
        return;
    plim_info_free(info->info);
    base_free(info);
}

static pool_info *take_fresh(plim_pool *pool, pool_backend *backend)
{
    pthread_mutex_lock(&pool->mutex);
    bool fresh = backend->known && base_monotonic_ns() - backend->asked_ns < pool->ttl_ns;
    pool_info *info = fresh ? info_hold(backend->known) : NULL;
    pthread_mutex_unlock(&pool->mutex);
    return info;
}

/* Keep an outcome (NULL: asking failed) unless a later question was answered already. */
static void keep(plim_pool *pool, pool_backend *backend, uint64_t asked, int64_t asked_ns,
                 pool_info *info)
{
    pool_info *old = NULL;
    pthread_mutex_lock(&pool->mutex);
    if (asked > backend->asked) {
        old = backend->known;
        backend->known = info_hold(info);
        backend->asked = asked;
        backend->asked_ns = asked_ns;
    }
    pthread_mutex_unlock(&pool->mutex);
    pool_info_release(old);
}

/* Ask, and keep the outcome whatever it is. */
static pool_info *ask(plim_pool *pool, pool_backend *backend, plim_cancel *cancel, plim_error *err)
{
    pool_info *info = base_new(pool_info);
    if (!info) {
        plim_refuse_nomem(err);
        return NULL;
    }
    atomic_init(&info->holders, 1);
    pthread_mutex_lock(&pool->mutex);
    uint64_t asked = ++pool->questions;
    pthread_mutex_unlock(&pool->mutex);
    int64_t asked_ns = base_monotonic_ns();
    if (plim_describe(backend->sandbox, cancel, &info->info, err) != PLIM_OK) {
        pool_info_release(info);
        info = NULL;
    }
    keep(pool, backend, asked, asked_ns, info);
    return info;
}

pool_info *pool_describe(plim_pool *pool, pool_backend *backend, plim_cancel *cancel,
                         plim_error *err)
{
    pool_info *info = take_fresh(pool, backend);
    return info ? info : ask(pool, backend, cancel, err);
}

/* ---- the pool ---- */

pool_backend *pool_find(plim_pool *pool, plim_bytes name)
{
    for (size_t i = 0; i < pool->count; i++)
        if (base_bytes_is(name, pool->backends[i].name))
            return &pool->backends[i];
    return NULL;
}

static bool invalid(plim_error *err, const char *what)
{
    return plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                       "%s", what);
}

static bool add_backend(plim_pool *pool, const plim_backend *given, plim_error *err)
{
    plim_bytes name = given->name;
    if (base_trim(name).len == 0 || name.len > NAME_BYTES_MAX || memchr(name.data, '\0', name.len))
        return invalid(err, "the name of a backend is blank, too long or holds a NUL byte");
    if (pool_find(pool, name))
        return invalid(err, "two backends have the same name");
    if (!given->sandbox)
        return invalid(err, "a backend has no sandbox");
    pool_backend *backend = &pool->backends[pool->count];
    backend->name = base_arena_text(pool->arena, name);
    backend->sandbox = given->sandbox;
    if (!backend->name)
        return plim_refuse_nomem(err);
    pool->count++;
    return true;
}

static bool fill(plim_pool *pool, const plim_backend *backends, size_t count, plim_error *err)
{
    pool->backends = base_arena_alloc(pool->arena, count, sizeof(*pool->backends));
    if (!pool->backends)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < count; i++)
        if (!add_backend(pool, &backends[i], err))
            return false;
    return true;
}

static bool pool_new(const plim_backend *backends, size_t count, int64_t ttl_ms, plim_pool **out,
                     plim_error *err)
{
    if (count < 1 || count > BACKENDS_MAX)
        return invalid(err, "a pool has 1 to 1024 backends");
    base_arena *arena = base_arena_new(1 << 20);
    plim_pool *pool = arena ? base_arena_alloc(arena, 1, sizeof(*pool)) : NULL;
    if (!pool || pthread_mutex_init(&pool->mutex, NULL) != 0) {
        base_arena_free(arena);
        return plim_refuse_nomem(err);
    }
    pool->arena = arena;
    if (ttl_ms <= 0)
        ttl_ms = PLIM_POOL_TTL_MS;
    pool->ttl_ns = ttl_ms < INT64_MAX / BASE_NS_PER_MS ? ttl_ms * BASE_NS_PER_MS : INT64_MAX;
    if (!fill(pool, backends, count, err)) {
        plim_pool_free(pool);
        return false;
    }
    *out = pool;
    return true;
}

plim_status plim_pool_new(const plim_backend *backends, size_t count, int64_t ttl_ms,
                          plim_pool **out, plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    *out = NULL;
    plim_status status =
        pool_new(backends, count, ttl_ms, out, &local) ? PLIM_OK : plim_error_status(&local);
    plim_error_move(err, &local);
    return status;
}

void plim_pool_free(plim_pool *pool)
{
    if (!pool)
        return;
    for (size_t i = 0; i < pool->count; i++)
        pool_info_release(pool->backends[i].known);
    pthread_mutex_destroy(&pool->mutex);
    base_arena_free(pool->arena);
}

plim_status plim_pool_describe(plim_pool *pool, plim_bytes name, plim_cancel *cancel,
                               plim_info **out, plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    *out = NULL;
    pool_backend *backend = pool_find(pool, name);
    if (!backend)
        invalid(&local, "the pool has no backend of that name");
    _cleanup_(pool_info_releasep)
    pool_info *info = backend ? pool_describe(pool, backend, cancel, &local) : NULL;
    if (info && !(*out = plim_info_copy(info->info)))
        plim_refuse_nomem(&local);
    plim_status status = plim_error_status(&local);
    plim_error_move(err, &local);
    return status;
}

/* ---- refresh ---- */

typedef struct refresh {
    plim_pool *pool;
    pool_backend *backend;
    plim_cancel *cancel;
    plim_error err;
    pthread_t thread;
    bool has_thread;
} refresh;

static void *refresh_one(void *arg)
{
    refresh *one = arg;
    pool_info_release(ask(one->pool, one->backend, one->cancel, &one->err));
    return NULL;
}

plim_status plim_pool_refresh(plim_pool *pool, plim_cancel *cancel, plim_error *err)
{
    plim_error first = PLIM_ERROR_INIT;
    refresh *all = base_alloc(pool->count, sizeof(*all));
    if (!all)
        plim_refuse_nomem(&first);
    for (size_t i = 0; all && i < pool->count; i++) {
        all[i] = (refresh){pool, &pool->backends[i], cancel, PLIM_ERROR_INIT, 0, false};
        all[i].has_thread = pthread_create(&all[i].thread, NULL, refresh_one, &all[i]) == 0;
        if (!all[i].has_thread)
            refresh_one(&all[i]);
    }
    for (size_t i = 0; all && i < pool->count; i++) {
        if (all[i].has_thread)
            pthread_join(all[i].thread, NULL);
        if (plim_error_status(&first) == PLIM_OK)
            plim_error_move(&first, &all[i].err);
        plim_error_clear(&all[i].err);
    }
    base_free(all);
    plim_status status = plim_error_status(&first);
    plim_error_move(err, &first);
    return status;
}
