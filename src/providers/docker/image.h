/*
 * What an Engine says of an image, judged: one inspection answer in, facts or a refusal out. Pure
 * functions over hostile JSON. The memory of facts is an arena that the caller owns.
 */
#ifndef DOCKER_IMAGE_H
#define DOCKER_IMAGE_H

#include "core/core.h"

enum { DOCKER_ID_MAX = 72 }; /* sha256: and 64 digits, with a terminator */

typedef struct docker_image {
    char id[DOCKER_ID_MAX];
    const char **env; /* NAME=value each, the image's own order */
    size_t env_count;
    char platform[64];              /* Os/Architecture[/Variant], normalised; "" when not stated */
    char descriptor[DOCKER_ID_MAX]; /* digest of a single-platform manifest; "" when not one */
} docker_image;

/*
 * Read the answer to an inspection. Refused: not an object, no `sha256:` ID, any volume, a variable
 * without a name, or one that a loader reads. `reference` is for messages.
 */
bool docker_image_read(plim_bytes json, const char *reference, base_arena *arena, docker_image *out,
                       plim_error *err);

/* `oci-manifest:<platform>@<id>`, or "" when the answer does not show that `platform` and the ID
 * belong together. */
void docker_image_identity(const docker_image *image, const char *platform, char *out, size_t size);

#endif
