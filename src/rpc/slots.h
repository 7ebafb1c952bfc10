/* Decode slots: how many calls may be between their header and their handler, in all and of one
 * caller. Taken on the loop thread, given back on any: the mutex guards every member. */
#ifndef RPC_SLOTS_H
#define RPC_SLOTS_H

#include "base/base.h"

#include <pthread.h>

struct rpc_slot_holder;

typedef struct rpc_slots {
    pthread_mutex_t mutex;
    size_t most, each_most; /* constant */
    size_t held;
    struct rpc_slot_holder *holders; /* callers that hold one; at most `most` */
    size_t holder_count;
} rpc_slots;

bool rpc_slots_init(rpc_slots *slots, size_t most) PLIM_MUST_USE;
void rpc_slots_destroy(rpc_slots *slots);

/* A slot for the caller `id`, which must outlive it; false: refused, marked `capacity`. */
bool rpc_slots_take(rpc_slots *slots, plim_bytes id, plim_error *err);
void rpc_slots_release(rpc_slots *slots, plim_bytes id);

#endif
