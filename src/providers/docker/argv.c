#include "providers/docker/argv.h"

#include "guest/ctl/ctl.h"

/* What `plimsoll-guest start` would do, for images without it. Every file is read by the shell
 * itself, which never forks. */
static const char start_script[] =
    "m=$1; shift; [ -z \"$m\" ] || printf %s \"$m\" >&2\n"
    "u=; while read -r k v x; do [ \"$k\" = Uid: ] && u=$v; done </proc/self/status\n"
    "h=/; [ ! -r /etc/passwd ] || while IFS=: read -r n p i g c d s; do\n"
    "[ \"$i\" = \"$u\" ] && h=$d; done </etc/passwd\n"
    "o=; [ ! -r /etc/hostname ] || read -r o </etc/hostname\n"
    "exec /usr/bin/env -i \"PATH=" CTL_PATH "\" \"HOME=$h\" \"HOSTNAME=$o\" \"$@\"\n";

static const char *program_of(const char *runtime)
{
    return docker_is_runsc(runtime) ? CTL_PROGRAM_RUNSC : CTL_PROGRAM;
}

static void add(docker_argv *argv, const char *item)
{
    argv->items[argv->count++] = item;
}

static bool begin(base_arena *arena, size_t room, docker_argv *out)
{
    *out = (docker_argv){base_arena_alloc(arena, room, sizeof(*out->items)), 0};
    if (!out->items)
        return false;
    add(out, "/usr/bin/env");
    add(out, "-i");
    add(out, "PATH=" CTL_PATH);
    return true;
}

bool docker_argv_control(base_arena *arena, const char *runtime, const char *verb,
                         const char *argument, docker_argv *out)
{
    if (!begin(arena, 8, out))
        return false;
    add(out, program_of(runtime));
    add(out, verb);
    if (argument)
        add(out, argument);
    return true;
}

bool docker_argv_start(base_arena *arena, const char *runtime, docker_control control,
                       const char *marker, const docker_image *image, const char *const *command,
                       size_t count, docker_argv *out)
{
    if (!begin(arena, 16 + image->env_count + count, out))
        return false;
    if (control == DOCKER_CONTROL_PROGRAM) {
        add(out, program_of(runtime));
        add(out, "supervise");
    } else {
        add(out, "/bin/sh");
        add(out, "-c");
        add(out, start_script);
        add(out, "start");
    }
    add(out, marker);
    for (size_t i = 0; i < image->env_count; i++)
        add(out, image->env[i]);
    for (size_t i = 0; i < count; i++)
        add(out, command[i]);
    return true;
}
