/*
 * Where the Engine is: DOCKER_HOST, else a named context of the Docker client, else the usual
 * socket. Reads at most two small files of the client's configuration and nothing else of it. Only
 * a Unix socket of this machine is accepted.
 */
#ifndef DOCKER_DISCOVER_H
#define DOCKER_DISCOVER_H

#include "core/core.h"

#define DOCKER_DEFAULT_SOCKET "/var/run/docker.sock"

enum { DOCKER_SOCKET_MAX = 108 }; /* what a Unix address holds */

/* The path of a local endpoint: `unix://<path>` or an absolute path. False: refused, `environment`,
 * naming the scheme but never the whole value. */
bool docker_endpoint_parse(plim_bytes endpoint, const char *source, char out[DOCKER_SOCKET_MAX],
                           plim_error *err);

/* Resolve from settings. False: refused, `environment`. */
bool docker_discover(const core_settings *settings, char out[DOCKER_SOCKET_MAX], plim_error *err);

#endif
