/*
 * A plimsolld for an example: started from the build tree on a free loopback port, with a caller of
 * its own in a private folder, and stopped again. One at a time per struct; public headers only.
 */
#ifndef LOCAL_DAEMON_H
#define LOCAL_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct local_daemon {
    pid_t pid;         /* 0 while none runs */
    char folder[64];   /* private and temporary; "" before it exists */
    char clients[96];  /* the registry of callers in it */
    char token[80];    /* of the one caller; known to this process alone */
    char base_url[40]; /* where it listens */
    char problem[256]; /* why the last call failed */
    int port;
} local_daemon;

/*
 * Start `bin`/plimsolld with this provider ("" for none) and wait until it is ready, at most half a
 * minute. Its log goes to `log_fd`. False: `problem` says why, and local_daemon_stop is still to be
 * called.
 */
bool local_daemon_start(local_daemon *daemon, const char *bin, const char *provider, int log_fd);

/* End it as a crash would: SIGKILL. local_daemon_stop is still to be called. */
void local_daemon_kill(local_daemon *daemon);

/* Stop what runs, wait for its end, remove the folder. Harmless when nothing was started. */
void local_daemon_stop(local_daemon *daemon);

#endif
