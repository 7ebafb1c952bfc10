/*
 * A log line that is due at most every so often and then says how many events it stands for. Any
 * thread; the mutex guards every member.
 */
#ifndef DAEMON_THROTTLE_H
#define DAEMON_THROTTLE_H

#include "base/base.h"

#include <pthread.h>

/* Both lines of the contract that are throttled share this period. */
#define DAEMON_THROTTLE_NS (30 * BASE_NS_PER_S)

typedef struct daemon_throttle {
    pthread_mutex_t mutex;
    int64_t logged_ns; /* when a line was last due */
    uint64_t pending;  /* events since then */
    bool logged;       /* a line was ever due */
} daemon_throttle;

#define DAEMON_THROTTLE_INIT                                                                       \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

/* What a due line says: how many events, over how long. */
typedef struct daemon_throttled {
    uint64_t count;
    int64_t window_ms; /* 0 for the very first event */
} daemon_throttled;

/* One more event at `now_ns`. True when a line is due: at once for the first event, later at most
 * every DAEMON_THROTTLE_NS. */
bool daemon_throttle_hit(daemon_throttle *throttle, int64_t now_ns, daemon_throttled *out);

/* The same without an event: true when events wait and their time has come, or at the end
 * (`flush`). */
bool daemon_throttle_due(daemon_throttle *throttle, int64_t now_ns, bool flush,
                         daemon_throttled *out);

#endif
