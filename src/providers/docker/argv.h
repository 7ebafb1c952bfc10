/* The command lines of control programs: nothing of an image's environment, our PATH, our program;
 * and of a snippet, which our start program becomes. Built in an arena, NULL when out of memory. */
#ifndef DOCKER_ARGV_H
#define DOCKER_ARGV_H

#include "providers/docker/state.h"

typedef struct docker_argv {
    const char **items;
    size_t count;
} docker_argv;

/* How a control program is started in an image. */
typedef enum {
    DOCKER_CONTROL_SHELL,  /* the image may lack it: the text of a script for /bin/sh instead */
    DOCKER_CONTROL_PROGRAM /* its own */
} docker_control;

/* `plimsoll-guest <verb> <argument or nothing>`. */
bool docker_argv_control(base_arena *arena, const char *runtime, const char *verb,
                         const char *argument, docker_argv *out) PLIM_MUST_USE;

/* The start of `command`, which gets the image's variables. */
bool docker_argv_start(base_arena *arena, const char *runtime, docker_control control,
                       const char *marker, const docker_image *image, const char *const *command,
                       size_t count, docker_argv *out) PLIM_MUST_USE;

#endif
