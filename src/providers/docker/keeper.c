#include "providers/docker/keeper.h"

#include "providers/docker/body.h"
#include "providers/docker/text.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>

enum {
    ATTEMPTS = 3,
    ATTEMPT_MS = 10000,
    LOOK_MS = 25, /* between two looks at a removal that somebody else does */
    ORPHAN_MARGIN_S = 300,
    THREADS_MAX = 8,
};

static const int pause_ms[ATTEMPTS] = {0, 1000, 2000};

typedef struct held {
    struct held *next;
    char name[DOCKER_NAME_MAX];
} held;

typedef struct job {
    struct job *next;
    docker_removal removal;
} job;

struct docker_keeper {
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t wake;
    held *names;
    job *first, **last;
    pthread_t threads[THREADS_MAX];
    size_t thread_count, thread_max, idle;
    bool stopping;
};

docker_keeper *docker_keeper_new(size_t threads)
{
    docker_keeper *keeper = base_new(docker_keeper);
    if (!keeper)
        return NULL;
    keeper->thread_max = threads < THREADS_MAX ? threads : THREADS_MAX;
    keeper->last = &keeper->first;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->wake, NULL);
    return keeper;
}

/* ---- names ---- */

bool docker_keeper_hold(docker_keeper *keeper, const char *name)
{
    held *entry = base_new(held);
    if (!entry)
        return false;
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    pthread_mutex_lock(&keeper->mutex);
    entry->next = keeper->names;
    keeper->names = entry;
    pthread_mutex_unlock(&keeper->mutex);
    return true;
}

void docker_keeper_forget(docker_keeper *keeper, const char *name)
{
    pthread_mutex_lock(&keeper->mutex);
    held **at = &keeper->names;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    held *entry = *at;
    if (entry)
        *at = entry->next;
    pthread_mutex_unlock(&keeper->mutex);
    base_free(entry);
}

static bool is_held(void *data, const char *name)
{
    docker_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    const held *entry = keeper->names;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    pthread_mutex_unlock(&keeper->mutex);
    return entry != NULL;
}

/* ---- one removal ---- */

static void sleep_ms(int ms)
{
    run_ctx ctx = {base_deadline_after_ms(ms), -1};
    run_ctx_poll(&ctx, NULL, 0);
}

/* Does a listing by that exact name come back empty? An unreadable one says nothing. */
static bool is_gone(docker_engine *engine, const char *name, const run_ctx *ctx)
{
    char target[256];
    snprintf(target, sizeof(target),
             "/containers/json?all=true&filters=%%7B%%22name%%22%%3A%%5B%%22%%5E%%2F%s%%24%%22%%5D"
             "%%7D",
             name);
    _cleanup_reply_ docker_reply reply;
    docker_engine_call(engine, "GET", target, (plim_bytes){NULL, 0}, ctx, &reply);
    json_t *list = docker_reply_ok(&reply)
                       ? json_loadb(base_buf_text(&reply.body), reply.body.len, 0, NULL)
                       : NULL;
    bool gone = json_is_array(list) && json_array_size(list) == 0;
    json_decref(list);
    return gone;
}

static bool wait_until_gone(docker_engine *engine, const char *name, const run_ctx *ctx)
{
    while (base_monotonic_ns() < ctx->deadline_ns) {
        if (is_gone(engine, name, ctx))
            return true;
        sleep_ms(LOOK_MS);
    }
    return false;
}

/* `absent_is_gone`: a container that is not there counts as removed. */
static bool try_remove(docker_engine *engine, const char *name, bool absent_is_gone)
{
    char target[128];
    run_ctx ctx = {base_deadline_after_ms(ATTEMPT_MS), -1};
    snprintf(target, sizeof(target), "/containers/%s?force=true&v=true", name);
    _cleanup_reply_ docker_reply reply;
    docker_engine_call(engine, "DELETE", target, (plim_bytes){NULL, 0}, &ctx, &reply);
    if (docker_reply_ok(&reply))
        return true;
    if (reply.end == NET_DONE && reply.status == 404)
        return absent_is_gone;
    /* 409: the Engine, or somebody else, is at it already. */
    if (reply.end == NET_DONE && reply.status == 409)
        return wait_until_gone(engine, name, &ctx);
    return absent_is_gone && is_gone(engine, name, &ctx);
}

/* `in_doubt`: the Engine may still be making it, so one look at a name that is not there says
 * nothing. */
static bool remove_by_force(docker_engine *engine, const char *name, bool in_doubt)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        sleep_ms(pause_ms[i]);
        if (try_remove(engine, name, !in_doubt || i == ATTEMPTS - 1))
            return true;
    }
    base_log(BASE_LOG_ERROR, "a container could not be removed", LOG_STR("name", name),
             LOG_INT("attempts", ATTEMPTS));
    return false;
}

/* Its program has ended: the Engine is about to remove it, and says when that is done. */
static bool await_removal(docker_engine *engine, const char *name)
{
    char target[128];
    run_ctx ctx = {base_deadline_after_ms(ATTEMPT_MS), -1};
    snprintf(target, sizeof(target), "/containers/%s/wait?condition=removed", name);
    _cleanup_reply_ docker_reply reply;
    docker_engine_call(engine, "POST", target, (plim_bytes){NULL, 0}, &ctx, &reply);
    if (reply.end == NET_DONE && reply.status == 404)
        return true;
    return docker_reply_ok(&reply) && is_gone(engine, name, &ctx);
}

static bool carry_out(docker_keeper *keeper, const docker_removal *removal)
{
    bool gone = (removal->ended && await_removal(removal->engine, removal->name)) ||
                remove_by_force(removal->engine, removal->name, removal->in_doubt);
    docker_keeper_forget(keeper, removal->name);
    core_slot_release(removal->slot);
    if (removal->gone)
        removal->gone(removal->data);
    return gone;
}

bool docker_keeper_remove_now(docker_keeper *keeper, const docker_removal *removal)
{
    return carry_out(keeper, removal);
}

/* ---- removals in the background ---- */

static void *work(void *data)
{
    docker_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    for (;;) {
        while (!keeper->first && !keeper->stopping) {
            keeper->idle++;
            pthread_cond_wait(&keeper->wake, &keeper->mutex);
            keeper->idle--;
        }
        job *next = keeper->first;
        if (!next)
            break;
        keeper->first = next->next;
        if (!keeper->first)
            keeper->last = &keeper->first;
        pthread_mutex_unlock(&keeper->mutex);
        if (next->removal.ended)
            sleep_ms(DOCKER_ANSWER_FIRST_MS);
        carry_out(keeper, &next->removal);
        base_free(next);
        pthread_mutex_lock(&keeper->mutex);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

/* Signals are for the program's own threads. */
static bool add_thread(docker_keeper *keeper)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool added = pthread_create(&keeper->threads[keeper->thread_count], NULL, work, keeper) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    keeper->thread_count += added;
    return added;
}

void docker_keeper_remove(docker_keeper *keeper, const docker_removal *removal)
{
    job *entry = base_new(job);
    bool queued = false;
    pthread_mutex_lock(&keeper->mutex);
    if (entry && keeper->idle == 0 && keeper->thread_count < keeper->thread_max)
        add_thread(keeper);
    if (entry && keeper->thread_count > 0) {
        entry->removal = *removal;
        *keeper->last = entry;
        keeper->last = &entry->next;
        queued = true;
        pthread_cond_signal(&keeper->wake);
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (queued)
        return;
    base_free(entry);
    carry_out(keeper, removal);
}

void docker_keeper_free(docker_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->mutex);
    keeper->stopping = true;
    pthread_cond_broadcast(&keeper->wake);
    pthread_mutex_unlock(&keeper->mutex);
    for (size_t i = 0; i < keeper->thread_count; i++)
        pthread_join(keeper->threads[i], NULL);
    while (keeper->names) {
        held *next = keeper->names->next;
        base_free(keeper->names);
        keeper->names = next;
    }
    pthread_cond_destroy(&keeper->wake);
    pthread_mutex_destroy(&keeper->mutex);
    base_free(keeper);
}

/* ---- the sweep ---- */

static bool any_name_held(const json_t *names, bool (*asked)(void *, const char *), void *data)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name && asked(data, name + (name[0] == '/')))
            return true;
    }
    return false;
}

bool docker_sweep_choose(plim_bytes listing, int64_t now_unix_s,
                         bool (*asked)(void *data, const char *name), void *data, base_buf *out)
{
    json_t *list =
        listing.len ? json_loadb(listing.data, listing.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_array(list)) {
        json_decref(list);
        return false;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *id = json_string_value(json_object_get(entry, "Id"));
        const char *label = json_string_value(
            json_object_get(json_object_get(entry, "Labels"), DOCKER_LABEL_EXPIRES));
        int64_t expires;
        if (!id || !label || !docker_hex_valid(plim_bytes_of(id), BASE_SHA256_HEX) ||
            !docker_expiry_parse(plim_bytes_of(label), &expires) ||
            now_unix_s - ORPHAN_MARGIN_S <= expires ||
            any_name_held(json_object_get(entry, "Names"), asked, data))
            continue;
        base_buf_add(out, (plim_bytes){id, BASE_SHA256_HEX + 1});
    }
    json_decref(list);
    return !out->failed;
}

bool docker_keeper_sweep(docker_keeper *keeper, docker_engine *engine, const run_ctx *ctx,
                         size_t *removed, plim_error *err)
{
    char text[400];
    _cleanup_reply_ docker_reply reply;
    _cleanup_buf_ base_buf ids = BASE_BUF_INIT(DOCKER_ANSWER_BYTES_MAX);
    docker_engine_call(
        engine, "GET",
        "/containers/json?all=true&filters=%7B%22label%22%3A%5B%22" DOCKER_LABEL_EXPIRES
        "%22%5D%7D",
        (plim_bytes){NULL, 0}, ctx, &reply);
    if (!docker_reply_ok(&reply))
        return core_fail_internal(err, "%s",
                                  docker_reply_text(&reply, "list containers", text, sizeof(text)));
    if (!docker_sweep_choose(base_buf_bytes(&reply.body), base_wall_unix_ms() / 1000, is_held,
                             keeper, &ids))
        return core_fail_internal(err, "the Engine's listing of containers cannot be read");
    for (size_t at = 0; at < ids.len; at += BASE_SHA256_HEX + 1)
        if (remove_by_force(engine, ids.data + at, false))
            ++*removed;
    return true;
}
