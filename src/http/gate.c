#include "http/server.h"

#include "http/request.h"

http_gate *http_gate_new(void)
{
    http_gate *gate = base_new(http_gate);
    if (!gate)
        return NULL;
    pthread_mutex_init(&gate->lock, NULL);
    gate->refs = 1;
    gate->thread = pthread_self();
    return gate;
}

void http_gate_ref(http_gate *gate)
{
    atomic_fetch_add(&gate->refs, 1);
}

void http_gate_unref(http_gate *gate)
{
    if (atomic_fetch_sub(&gate->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&gate->lock);
    base_free(gate);
}

bool http_gate_is_current(const http_gate *gate, const http_request *req)
{
    return pthread_equal(gate->thread, pthread_self()) && gate->current == req;
}

bool http_gate_push(http_gate *gate, http_request *req)
{
    pthread_mutex_lock(&gate->lock);
    bool open = gate->wakeup != NULL;
    if (open) {
        req->next = NULL;
        if (gate->last)
            gate->last->next = req;
        else
            gate->first = req;
        /* One wake-up serves all that is queued when the loop comes. */
        if (!gate->last)
            uv_async_send(gate->wakeup);
        gate->last = req;
    }
    pthread_mutex_unlock(&gate->lock);
    return open;
}

static http_request *take(http_gate *gate, bool close)
{
    pthread_mutex_lock(&gate->lock);
    http_request *first = gate->first;
    gate->first = gate->last = NULL;
    if (close)
        gate->wakeup = NULL;
    pthread_mutex_unlock(&gate->lock);
    return first;
}

http_request *http_gate_take(http_gate *gate)
{
    return take(gate, /* close= */ false);
}

http_request *http_gate_close(http_gate *gate)
{
    return take(gate, /* close= */ true);
}
