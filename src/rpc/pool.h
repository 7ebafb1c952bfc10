/* A bounded pool of worker threads with one queue. Threads are started when there is work and none
 * is idle, and kept. A task is a member of what it works on; whoever queues tasks bounds their
 * number. */
#ifndef RPC_POOL_H
#define RPC_POOL_H

#include "base/base.h"

typedef struct rpc_task {
    struct rpc_task *next;
    void (*run)(struct rpc_task *task);
} rpc_task;

typedef struct rpc_pool rpc_pool;

rpc_pool *rpc_pool_new(size_t threads_max) PLIM_MUST_USE;

/* Wait until every queued task has run, and end the threads. NULL allowed. */
void rpc_pool_free(rpc_pool *pool);

/* Queue a task. False when no thread is there and none can be started: the task was not taken. */
bool rpc_pool_add(rpc_pool *pool, rpc_task *task) PLIM_MUST_USE;

#endif
