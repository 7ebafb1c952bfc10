#include "rpc/pool.h"

#include <pthread.h>
#include <signal.h>

struct rpc_pool {
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t work;
    rpc_task *first, **last;
    size_t queued, idle;
    bool stopping;
    size_t thread_count, threads_max;
    pthread_t threads[];
};

rpc_pool *rpc_pool_new(size_t threads_max)
{
    size_t size;
    if (!base_size_mul(threads_max, sizeof(pthread_t), &size) ||
        !base_size_add(size, sizeof(rpc_pool), &size))
        return NULL;
    rpc_pool *pool = base_alloc(1, size);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->last = &pool->first;
    pool->threads_max = threads_max;
    return pool;
}

/* The next task, or NULL when there is none and the pool ends. */
static rpc_task *take(rpc_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->idle++;
    while (!pool->first && !pool->stopping)
        pthread_cond_wait(&pool->work, &pool->mutex);
    pool->idle--;
    rpc_task *task = pool->first;
    if (task) {
        pool->first = task->next;
        pool->queued--;
        if (!pool->first)
            pool->last = &pool->first;
    }
    pthread_mutex_unlock(&pool->mutex);
    return task;
}

static void *work(void *data)
{
    for (rpc_task *task; (task = take(data));)
        task->run(task);
    return NULL;
}

/* One thread more, with every signal blocked: signals are the loop's. */
static void start_thread(rpc_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&pool->threads[pool->thread_count], NULL, work, pool) == 0)
        pool->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool rpc_pool_add(rpc_pool *pool, rpc_task *task)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->queued >= pool->idle && pool->thread_count < pool->threads_max)
        start_thread(pool);
    bool taken = pool->thread_count > 0;
    if (taken) {
        task->next = NULL;
        *pool->last = task;
        pool->last = &task->next;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    return taken;
}

void rpc_pool_free(rpc_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    base_free(pool);
}
