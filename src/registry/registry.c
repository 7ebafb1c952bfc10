#include "registry/internal.h"

#include <fcntl.h>
#include <sys/stat.h>

registry *registry_new(void)
{
    base_arena *arena = base_arena_new((size_t)4 * REGISTRY_BYTES_MAX);
    registry *made = arena ? base_arena_alloc(arena, 1, sizeof(*made)) : NULL;
    if (!made) {
        base_arena_free(arena);
        return NULL;
    }
    made->arena = arena;
    return made;
}

void registry_free(registry *reg)
{
    if (reg)
        base_arena_free(reg->arena);
}

registry_caller *registry_find(const registry *reg, plim_bytes id)
{
    for (size_t i = 0; i < reg->count; i++)
        if (base_bytes_equal(reg->callers[i].id, id))
            return &reg->callers[i];
    return NULL;
}

bool registry_add(registry *reg, const registry_caller *caller, plim_error *err)
{
    registry_caller *grown = base_arena_alloc(reg->arena, reg->count + 1, sizeof(*reg->callers));
    if (!grown)
        return plim_refuse_nomem(err);
    if (reg->count)
        memcpy(grown, reg->callers, reg->count * sizeof(*grown));
    grown[reg->count++] = *caller;
    reg->callers = grown;
    return true;
}

void registry_remove(registry *reg, registry_caller *caller)
{
    size_t after = reg->count - (size_t)(caller - reg->callers) - 1;
    memmove(caller, caller + 1, after * sizeof(*caller));
    reg->count--;
}

static bool load_from(int fd, const char *path, registry **out, plim_error *err)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    if (!base_read_all(fd, &text)) {
        if (errno == EFBIG)
            return registry_refuse(err, "%s is larger than %d bytes", path, REGISTRY_BYTES_MAX);
        return registry_refuse(err, "cannot read %s: %s", path, base_errno_text(errno));
    }
    return registry_parse(base_buf_bytes(&text), out, err) || plim_error_wrap(err, "%s", path);
}

bool registry_load(const char *path, registry **out, plim_error *err)
{
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return registry_refuse(err, "cannot read %s: %s", path, base_errno_text(errno));
    return load_from(fd, path, out, err);
}

bool registry_load_plain(const char *path, registry **out, plim_error *err)
{
    struct stat found;
    if (lstat(path, &found) != 0)
        return registry_refuse(err, "cannot read %s: %s", path, base_errno_text(errno));
    if (!S_ISREG(found.st_mode))
        return registry_refuse(err, "%s is not a regular file (a symbolic link is not one)", path);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return registry_refuse(err, "cannot read %s: %s", path, base_errno_text(errno));
    return load_from(fd, path, out, err);
}
