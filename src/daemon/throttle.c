#include "daemon/throttle.h"

static bool take(daemon_throttle *throttle, int64_t now_ns, bool flush, daemon_throttled *out)
{
    bool due = flush || !throttle->logged || now_ns - throttle->logged_ns >= DAEMON_THROTTLE_NS;
    if (!due || throttle->pending == 0)
        return false;
    out->count = throttle->pending;
    out->window_ms = throttle->logged ? (now_ns - throttle->logged_ns) / BASE_NS_PER_MS : 0;
    throttle->pending = 0;
    throttle->logged_ns = now_ns;
    throttle->logged = true;
    return true;
}

bool daemon_throttle_hit(daemon_throttle *throttle, int64_t now_ns, daemon_throttled *out)
{
    pthread_mutex_lock(&throttle->mutex);
    throttle->pending++;
    bool due = take(throttle, now_ns, false, out);
    pthread_mutex_unlock(&throttle->mutex);
    return due;
}

bool daemon_throttle_due(daemon_throttle *throttle, int64_t now_ns, bool flush,
                         daemon_throttled *out)
{
    pthread_mutex_lock(&throttle->mutex);
    bool due = take(throttle, now_ns, flush, out);
    pthread_mutex_unlock(&throttle->mutex);
    return due;
}
