/* A throwaway host socket for the startup proof: it answers every connection `pong`. One thread of
 * its own; private directory, removed with it. */
#ifndef DOCKER_PONG_H
#define DOCKER_PONG_H

#include "core/core.h"

#include <pthread.h>

typedef struct docker_pong {
    char directory[128], path[160];
    int listener, stop;
    pthread_t thread;
    bool running;
} docker_pong;

bool docker_pong_start(docker_pong *pong, const char *tmpdir, plim_error *err);
void docker_pong_stop(docker_pong *pong);

#endif
