#include "providers/wasm/pool.h"

#include "providers/wasm/host.h"

#include "guest_identity.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

enum {
    START_MS = 10000, /* the host is ready within this */
    RETRY_MS = 100, /* pause after a host or a fork failed, doubled each time up to RETRY_MS_MAX */
    RETRY_MS_MAX = 10000,
    END_NEWS_MS = 1000,    /* the host tells of a worker's end within this */
    SPARES = 1,            /* never-used workers kept ready for the next principal */
    SPARES_SINGLE_USE = 3, /* ahead of need, when every run uses one up */
};

/* A thread that waits for something to change; its descriptor is made readable at every change. */
struct waiter {
    struct waiter *next;
    int fd;
};

struct wasm_pool {
    size_t slots;
    bool single_use;

    pthread_mutex_t mutex; /* guards everything below */
    pthread_t supervisor;
    bool running, closing;
    int wake_fd;      /* wakes the supervisor */
    bool timer_armed; /* the supervisor looks again soon by itself */
    wasm_worker *workers;
    struct waiter *waiters;
    uint32_t next_id;
    int64_t retry_ns; /* no spawn and no fork before this */
    int64_t retry_ms;
    wasm_host host; /* used by the supervisor alone, but for asking for forks */
    bool host_ready;
    struct plim_host_ready ready;
    plim_error host_error; /* why there is no host */
    int probe_status;
    bool probed;
    bool many_processors; /* a worker can run beside its caller */
    wasm_eagerness eagerness;
};

static void notify(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written; /* a full counter is readable already */
}

/* A spawn or a fork failed: no other before a pause that doubles. */
static void pause_before_retry(wasm_pool *pool)
{
    pool->retry_ns = base_deadline_after_ms(pool->retry_ms);
    pool->retry_ms = pool->retry_ms * 2 < RETRY_MS_MAX ? pool->retry_ms * 2 : RETRY_MS_MAX;
}

/* Something changed: every waiter looks again. */
static void changed(wasm_pool *pool)
{
    for (struct waiter *waiter = pool->waiters; waiter; waiter = waiter->next)
        notify(waiter->fd);
}

/* That this process may use. */
static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

wasm_pool *wasm_pool_new(size_t slots, bool single_use)
{
    wasm_pool *pool = base_new(wasm_pool);
    if (!pool)
        return NULL;
    pool->slots = slots;
    pool->single_use = single_use;
    pool->retry_ms = RETRY_MS;
    pool->many_processors = processors() > 1;
    pool->host = WASM_HOST_NONE;
    pool->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->wake_fd < 0) {
        base_free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

/* ---- the table of workers; every function of this part is called with the mutex held ---- */

static wasm_worker *worker_new(wasm_pool *pool, int state)
{
    wasm_worker *worker = base_new(wasm_worker);
    char *input = base_alloc(WASM_INPUT_BYTES, 1);
    if (!worker || !input) {
        base_free(worker);
        base_free(input);
        return NULL;
    }
    worker->input = input;
    worker->socket = worker->pidfd = worker->outbox = -1;
    worker->state = state;
    worker->id = ++pool->next_id;
    wasm_frames_init(&worker->frames);
    worker->next = pool->workers;
    pool->workers = worker;
    return worker;
}

static void unlink_worker(wasm_pool *pool, wasm_worker *worker)
{
    wasm_worker **slot = &pool->workers;
    while (*slot != worker)
        slot = &(*slot)->next;
    *slot = worker->next;
}

/* Kill, close, forget. */
static void drop_worker(wasm_pool *pool, wasm_worker *worker)
{
    unlink_worker(pool, worker);
    if (worker->pidfd >= 0 && worker->end == WASM_END_NONE)
        pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0);
    base_fd_close(&worker->socket);
    base_fd_close(&worker->pidfd);
    base_fd_close(&worker->outbox);
    wasm_frames_free(&worker->frames);
    base_free(worker->owner);
    base_free(worker->input);
    base_free(worker);
}

static wasm_worker *find_worker(wasm_pool *pool, uint32_t id)
{
    wasm_worker *worker = pool->workers;
    while (worker && worker->id != id)
        worker = worker->next;
    return worker;
}

static bool owned_by(const wasm_worker *worker, plim_bytes principal)
{
    return worker->owner &&
           base_bytes_equal((plim_bytes){worker->owner, worker->owner_len}, principal);
}

static bool ask_for_one(wasm_pool *pool)
{
    wasm_worker *worker = worker_new(pool, WASM_WORKER_ASKED);
    if (!worker)
        return false;
    uint8_t flags = pool->single_use ? PLIM_FORK_SINGLE_USE : 0;
    if (wasm_host_ask_fork(&pool->host, worker->id, flags))
        return true;
    drop_worker(pool, worker);
    return false;
}

/*
 * Keep never-used spares ready; the host is asked, its answer comes later. When every place is
 * taken, the worker that has been idle the longest makes room: the next principal finds a spare,
 * and its old one lost a little speed.
 */
static void ask_for_spares(wasm_pool *pool)
{
    if (!pool->host_ready || pool->closing || base_monotonic_ns() < pool->retry_ns)
        return;
    size_t all = 0, spare = 0;
    wasm_worker *longest_idle = NULL;
    for (wasm_worker *worker = pool->workers; worker; worker = worker->next) {
        bool waiting = worker->state == WASM_WORKER_WAITING;
        all += worker->state != WASM_WORKER_PROBE;
        spare += worker->state == WASM_WORKER_ASKED || (waiting && !worker->owner);
        if (waiting && worker->owner &&
            (!longest_idle || worker->idle_due_ns < longest_idle->idle_due_ns))
            longest_idle = worker;
    }
    size_t wanted = pool->single_use ? SPARES_SINGLE_USE : SPARES;
    size_t most = pool->slots + wanted;
    if (spare < wanted && all >= most && longest_idle) {
        drop_worker(pool, longest_idle);
        all--;
    }
    for (; spare < wanted && all < most; spare++, all++) {
        if (ask_for_one(pool))
            continue;
        /* Nothing else will happen that makes anybody look again: the supervisor does, later. */
        pause_before_retry(pool);
        notify(pool->wake_fd);
        return;
    }
}

static bool set_owner(wasm_worker *worker, plim_bytes principal)
{
    char *copy = base_alloc(principal.len, 1);
    if (!copy)
        return false;
    if (principal.len)
        memcpy(copy, principal.data, principal.len);
    worker->owner = copy;
    worker->owner_len = principal.len;
    return true;
}

/* Has its `I` come? Does not wait. */
static bool says_idle(wasm_worker *worker)
{
    return wasm_worker_await_idle(worker, &(run_ctx){0, -1});
}

/* What of the table one principal can use. */
struct choice {
    wasm_worker *newest, *oldest; /* own ones, by when they were given back */
    wasm_worker *mine;            /* the newest of those that this thread took last */
    wasm_worker *unused;
    wasm_worker *foreign; /* idle, of another principal: to be replaced when nothing else is left */
    bool alone;           /* no other run is in flight */
};

static struct choice look(wasm_pool *pool, plim_bytes principal)
{
    struct choice found = {.alone = true};
    pthread_t self = pthread_self();
    for (wasm_worker *worker = pool->workers; worker; worker = worker->next) {
        found.alone = found.alone && worker->state != WASM_WORKER_TAKEN;
        if (worker->state != WASM_WORKER_WAITING)
            continue;
        if (!worker->owner) {
            found.unused = worker;
        } else if (!owned_by(worker, principal)) {
            found.foreign = worker;
        } else {
            if (!found.oldest || worker->idle_due_ns < found.oldest->idle_due_ns)
                found.oldest = worker;
            if (!found.newest || worker->idle_due_ns >= found.newest->idle_due_ns)
                found.newest = worker;
            if (pthread_equal(worker->user, self) &&
                (!found.mine || worker->idle_due_ns >= found.mine->idle_due_ns))
                found.mine = worker;
        }
    }
    return found;
}

/*
 * The one to use of those at hand, or NULL. The one that ran last for this thread has its memory in
 * the processor's caches: a run that may be eager asks for the end of its reset, another one takes
 * it only if that has come. The longest idle has restored its snapshot most surely.
 */
static wasm_worker *choose(const struct choice *found, bool eager)
{
    wasm_worker *last = found->mine ? found->mine : found->newest;
    if (!last)
        return found->unused;
    if (eager || says_idle(last))
        return last;
    return found->oldest != last || !found->unused ? found->oldest : found->unused;
}

/* The worker to use now, taken, or NULL; `*nomem` says that memory was the reason. */
static wasm_worker *pick(wasm_pool *pool, plim_bytes principal, bool *nomem)
{
    struct choice found = look(pool, principal);
    *nomem = false;
    if (!found.newest && !found.unused) {
        if (found.foreign) {
            drop_worker(pool, found.foreign);
            ask_for_spares(pool);
        }
        return NULL;
    }
    bool eager = pool->many_processors && found.alone && wasm_eager_may(&pool->eagerness);
    wasm_worker *worker = choose(&found, eager);
    *nomem = !worker->owner && !set_owner(worker, principal);
    if (*nomem)
        return NULL;
    worker->state = WASM_WORKER_TAKEN;
    worker->user = pthread_self();
    worker->eager = eager ? WASM_EAGER : WASM_EAGER_NOT;
    ask_for_spares(pool);
    return worker;
}

/* ---- the supervisor ---- */

/* A worker that did not say idle in time is discarded even if nobody takes it: it may be spinning.
 */
static void discard_overdue(wasm_pool *pool, int64_t now)
{
    for (wasm_worker *worker = pool->workers, *next; worker; worker = next) {
        next = worker->next;
        if (worker->state != WASM_WORKER_WAITING || worker->frames.phase == WASM_PHASE_IDLE ||
            worker->idle_due_ns > now)
            continue;
        if (!wasm_worker_await_idle(worker, &(run_ctx){now, -1}))
            drop_worker(pool, worker);
    }
}

/* When the supervisor must look again although nothing happened; BASE_NEVER when it need not. */
static int64_t next_look(const wasm_pool *pool)
{
    int64_t soonest = BASE_NEVER;
    for (const wasm_worker *worker = pool->workers; worker; worker = worker->next)
        if (worker->state == WASM_WORKER_WAITING && worker->frames.phase != WASM_PHASE_IDLE &&
            worker->idle_due_ns < soonest)
            soonest = worker->idle_due_ns;
    int64_t now = base_monotonic_ns();
    if (pool->retry_ns > now && pool->retry_ns < soonest)
        soonest = pool->retry_ns;
    return soonest;
}

static void on_worker(wasm_pool *pool, wasm_packet *packet)
{
    wasm_worker *worker = find_worker(pool, packet->worker.id);
    if (!worker || worker->socket >= 0) {
        /* Not asked for any more: the worker ends when its socket does. */
        wasm_packet_close(packet);
        return;
    }
    worker->socket = packet->fds[PLIM_HOST_WORKER_SOCKET];
    worker->pidfd = packet->fds[PLIM_HOST_WORKER_PIDFD];
    worker->outbox = packet->fds[PLIM_HOST_WORKER_OUTBOX];
    worker->pid = packet->worker.pid;
    pool->retry_ms = RETRY_MS;
    worker->idle_due_ns = base_deadline_after_ms(WASM_IDLE_DUE_MS);
    if (worker->state == WASM_WORKER_ASKED)
        worker->state = WASM_WORKER_WAITING;
}

static void on_exited(wasm_pool *pool, const struct plim_host_exited *exited)
{
    wasm_worker *worker = find_worker(pool, exited->id);
    if (!worker)
        return;
    worker->end = WASM_END_STATUS;
    worker->status = exited->status;
    if (worker->state == WASM_WORKER_PROBE) {
        pool->probed = true;
        pool->probe_status = exited->status;
    }
    if (worker->state != WASM_WORKER_TAKEN)
        drop_worker(pool, worker);
}

static void on_host_gone(wasm_pool *pool, const char *reason)
{
    if (reason)
        core_refuse_environment(&pool->host_error, "the worker host does not start: %s", reason);
    else if (!pool->host_ready)
        core_refuse_environment(&pool->host_error,
                                "the worker host ended before it was ready; it may be another "
                                "program, or memory or a limit (ulimit -v) too small for it");
    pool->host_ready = false;
    pause_before_retry(pool);
    for (wasm_worker *worker = pool->workers, *next; worker; worker = next) {
        next = worker->next;
        if (worker->state != WASM_WORKER_TAKEN)
            drop_worker(pool, worker);
        else if (worker->end == WASM_END_NONE)
            worker->end = WASM_END_LOST;
    }
}

/* The host has ended, has given a reason why it will, or has said what no host says. */
static void give_host_up(wasm_pool *pool, const char *reason)
{
    wasm_host_kill(&pool->host);
    on_host_gone(pool, reason);
}

/* Is this the host this library was built with? The file on disk may have been replaced since. */
static const char *why_unfit(const struct plim_host_ready *ready)
{
    if (ready->version != PLIM_WORKER_PROTOCOL_VERSION)
        return "it speaks another protocol version; install the library and its worker host "
               "together";
    if (memcmp(ready->identity, PLIM_GUEST_SHA256, sizeof(ready->identity)) != 0)
        return "its engine is not the one this library was built with; install both together";
    if ((ready->walls & PLIM_WALLS_REQUIRED) != PLIM_WALLS_REQUIRED)
        return "it could not confine itself";
    return NULL;
}

static void on_ready(wasm_pool *pool, const struct plim_host_ready *ready)
{
    const char *unfit = why_unfit(ready);
    if (unfit) {
        give_host_up(pool, unfit);
        return;
    }
    pool->ready = *ready;
    pool->host_ready = true;
    pool->retry_ms = RETRY_MS;
    plim_error_clear(&pool->host_error);
}

/* Of a worker that is there already, and may have a run in flight, that is a lie. */
static void on_no_worker(wasm_pool *pool, const struct plim_host_no_worker *answer)
{
    wasm_worker *worker = find_worker(pool, answer->id);
    if (worker && worker->socket >= 0) {
        give_host_up(pool, NULL);
        return;
    }
    if (worker)
        drop_worker(pool, worker);
    pause_before_retry(pool);
}

static void on_packet(wasm_pool *pool, wasm_packet *packet)
{
    switch (packet->tag) {
    case PLIM_HOST_READY:
        on_ready(pool, &packet->ready);
        break;
    case PLIM_HOST_WORKER:
        on_worker(pool, packet);
        break;
    case PLIM_HOST_NO_WORKER:
        on_no_worker(pool, &packet->no_worker);
        break;
    case PLIM_HOST_EXITED:
        on_exited(pool, &packet->exited);
        break;
    case PLIM_HOST_REFUSED:
        give_host_up(pool, packet->reason);
        break;
    }
}

static void receive_all(wasm_pool *pool)
{
    for (;;) {
        wasm_packet packet;
        wasm_packet_result result = wasm_host_receive(&pool->host, &packet);
        if (result == WASM_PACKET_NONE)
            return;
        if (result == WASM_PACKET_GONE)
            give_host_up(pool, NULL);
        else
            on_packet(pool, &packet);
        if (pool->host.control < 0)
            return;
    }
}

static void supervise_once(wasm_pool *pool)
{
    /* One host at a time: the next is started when the one before has ended. */
    if (pool->host.control < 0 && wasm_host_reap(&pool->host, 0) &&
        base_monotonic_ns() >= pool->retry_ns && !wasm_host_spawn(&pool->host, &pool->host_error))
        pause_before_retry(pool);
    ask_for_spares(pool);
    changed(pool);

    int64_t look_ns = next_look(pool);
    pool->timer_armed = look_ns != BASE_NEVER;
    bool ending = pool->host.control < 0;
    struct pollfd fds[] = {{.fd = ending ? pool->host.pidfd : pool->host.control, .events = POLLIN},
                           {.fd = pool->wake_fd, .events = POLLIN}};
    pthread_mutex_unlock(&pool->mutex);
    run_ctx_poll(&(run_ctx){look_ns, -1}, fds, PLIM_COUNT(fds));
    uint64_t ignored;
    ssize_t drained = read(pool->wake_fd, &ignored, sizeof(ignored));
    (void)drained;
    pthread_mutex_lock(&pool->mutex);

    if (pool->host.control >= 0)
        receive_all(pool);
    discard_overdue(pool, base_monotonic_ns());
}

static void *supervise(void *argument)
{
    wasm_pool *pool = argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&pool->mutex);
    while (!pool->closing)
        supervise_once(pool);
    while (pool->workers)
        drop_worker(pool, pool->workers);
    pthread_mutex_unlock(&pool->mutex);
    wasm_host_end(&pool->host);
    return NULL;
}

/* ---- for the threads that run ---- */

/* Wait, the mutex held before and after, until something changed. */
static run_wait await_change(wasm_pool *pool, const run_ctx *ctx)
{
    struct waiter waiter = {.next = pool->waiters, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (waiter.fd < 0)
        return RUN_FAILED;
    /* cppcheck-suppress autoVariables  # taken off again below, before it ends */
    pool->waiters = &waiter;
    pthread_mutex_unlock(&pool->mutex);
    struct pollfd fd = {.fd = waiter.fd, .events = POLLIN};
    run_wait result = run_ctx_poll(ctx, &fd, 1);
    pthread_mutex_lock(&pool->mutex);
    struct waiter **slot = &pool->waiters;
    while (*slot != &waiter)
        slot = &(*slot)->next;
    *slot = waiter.next;
    base_fd_close(&waiter.fd);
    return result;
}

static bool start_supervisor(wasm_pool *pool, plim_error *err)
{
    if (pool->running)
        return true;
    int failed = pthread_create(&pool->supervisor, NULL, supervise, pool);
    if (failed)
        return core_refuse_environment(err, "cannot start a thread: %s", base_errno_text(failed));
    pool->running = true;
    return true;
}

static bool start_locked(wasm_pool *pool, const run_ctx *ctx, plim_error *err)
{
    if (!start_supervisor(pool, err))
        return false;
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(START_MS));
    while (!pool->host_ready) {
        if (plim_error_status(&pool->host_error) != PLIM_OK) {
            if (err)
                *err = pool->host_error;
            return false;
        }
        run_wait result = await_change(pool, &bounded);
        if (result != RUN_READY)
            return result == RUN_CANCELED
                       ? core_refuse_gone(err, result)
                       : core_refuse_environment(err, "the worker host is not ready in time");
    }
    return true;
}

bool wasm_pool_start(wasm_pool *pool, const run_ctx *ctx, struct plim_host_ready *ready,
                     plim_error *err)
{
    pthread_mutex_lock(&pool->mutex);
    bool started = start_locked(pool, ctx, err);
    if (started)
        *ready = pool->ready;
    pthread_mutex_unlock(&pool->mutex);
    return started;
}

static bool fail_take(plim_error *err, run_wait why)
{
    if (why == RUN_CANCELED)
        return core_refuse_gone(err, why);
    return core_fail_internal(err, "no worker could be had in time");
}

wasm_worker *wasm_pool_take(wasm_pool *pool, plim_bytes principal, const run_ctx *ctx,
                            plim_error *err)
{
    for (;;) {
        pthread_mutex_lock(&pool->mutex);
        wasm_worker *worker;
        run_wait waited = RUN_READY;
        bool nomem;
        while (!(worker = pick(pool, principal, &nomem)) && !nomem && waited == RUN_READY)
            waited = await_change(pool, ctx);
        pthread_mutex_unlock(&pool->mutex);
        if (nomem) {
            plim_refuse_nomem(err);
            return NULL;
        }
        if (!worker) {
            fail_take(err, waited);
            return NULL;
        }
        if (wasm_worker_await_idle(worker, ctx))
            return worker;
        wasm_pool_discard(pool, worker);
    }
}

void wasm_pool_give_back(wasm_pool *pool, wasm_worker *worker)
{
    if (pool->single_use) {
        wasm_pool_discard(pool, worker);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    wasm_eager_learn(&pool->eagerness, worker->eager);
    worker->eager = WASM_EAGER_NOT;
    if (worker->end == WASM_END_NONE)
        worker->state = WASM_WORKER_WAITING;
    else
        drop_worker(pool, worker);
    if (!pool->timer_armed) {
        pool->timer_armed = true;
        notify(pool->wake_fd);
    }
    changed(pool);
    pthread_mutex_unlock(&pool->mutex);
}

void wasm_pool_discard(wasm_pool *pool, wasm_worker *worker)
{
    pthread_mutex_lock(&pool->mutex);
    wasm_eager_learn(&pool->eagerness, worker->eager);
    drop_worker(pool, worker);
    ask_for_spares(pool);
    changed(pool);
    pthread_mutex_unlock(&pool->mutex);
}

int wasm_pool_end_of(wasm_pool *pool, wasm_worker *worker, int *status)
{
    run_ctx bounded = {base_deadline_after_ms(END_NEWS_MS), -1};
    pthread_mutex_lock(&pool->mutex);
    while (worker->end == WASM_END_NONE && await_change(pool, &bounded) == RUN_READY)
        continue;
    int end = worker->end;
    *status = worker->status;
    pthread_mutex_unlock(&pool->mutex);
    return end;
}

bool wasm_pool_probe(wasm_pool *pool, const run_ctx *ctx, int *status, plim_error *err)
{
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(WASM_IDLE_DUE_MS));
    run_wait waited = RUN_READY;
    pthread_mutex_lock(&pool->mutex);
    pool->probed = false;
    wasm_worker *probe = worker_new(pool, WASM_WORKER_PROBE);
    bool asked = probe && wasm_host_ask_fork(&pool->host, probe->id, PLIM_FORK_PROBE);
    if (probe && !asked)
        drop_worker(pool, probe);
    while (asked && !pool->probed && waited == RUN_READY)
        waited = await_change(pool, &bounded);
    bool probed = asked && pool->probed;
    *status = pool->probe_status;
    pthread_mutex_unlock(&pool->mutex);
    return probed || core_refuse_environment(err, "a probe worker did not end");
}

void wasm_pool_free(wasm_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->closing = true;
    bool running = pool->running;
    notify(pool->wake_fd);
    pthread_mutex_unlock(&pool->mutex);
    if (running)
        pthread_join(pool->supervisor, NULL);
    base_fd_close(&pool->wake_fd);
    plim_error_clear(&pool->host_error);
    pthread_mutex_destroy(&pool->mutex);
    base_free(pool);
}
