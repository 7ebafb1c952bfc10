#include "rpc/slots.h"

#include "core/core.h"

struct rpc_slot_holder {
    plim_bytes id;
    size_t held;
};

bool rpc_slots_init(rpc_slots *slots, size_t most)
{
    *slots = (rpc_slots){.most = most, .each_most = most / 2 ? most / 2 : 1};
    slots->holders = base_alloc(most, sizeof(*slots->holders));
    if (!slots->holders)
        return false;
    pthread_mutex_init(&slots->mutex, NULL);
    return true;
}

void rpc_slots_destroy(rpc_slots *slots)
{
    if (!slots->holders)
        return;
    pthread_mutex_destroy(&slots->mutex);
    base_free(slots->holders);
    slots->holders = NULL;
}

/* The caller's entry, or the first free one. There is one: each entry in use holds a slot. */
static struct rpc_slot_holder *find(rpc_slots *slots, plim_bytes id)
{
    struct rpc_slot_holder *holder = slots->holders;
    while (holder < slots->holders + slots->holder_count && !base_bytes_equal(holder->id, id))
        holder++;
    return holder;
}

bool rpc_slots_take(rpc_slots *slots, plim_bytes id, plim_error *err)
{
    const char *refusal = NULL;
    pthread_mutex_lock(&slots->mutex);
    if (slots->held == slots->most) {
        refusal = "too many requests are being read";
    } else {
        struct rpc_slot_holder *holder = find(slots, id);
        if (holder == slots->holders + slots->holder_count) {
            *holder = (struct rpc_slot_holder){.id = id};
            slots->holder_count++;
        }
        if (holder->held == slots->each_most) {
            refusal = "too many requests of this caller are being read";
        } else {
            holder->held++;
            slots->held++;
        }
    }
    pthread_mutex_unlock(&slots->mutex);
    return !refusal || core_refuse_capacity(err, "%s", refusal);
}

void rpc_slots_release(rpc_slots *slots, plim_bytes id)
{
    pthread_mutex_lock(&slots->mutex);
    struct rpc_slot_holder *holder = find(slots, id);
    slots->held--;
    if (--holder->held == 0)
        *holder = slots->holders[--slots->holder_count];
    pthread_mutex_unlock(&slots->mutex);
}
