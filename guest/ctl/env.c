#include "env.h"

#include "ctl.h"
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <unistd.h>

enum {
    PASSWD_BYTES_MAX = 64 << 10,
    HOSTNAME_BYTES_MAX = 256,
};

bool ctl_env_init(struct ctl_env *env)
{
    *env = (struct ctl_env){.arena = base_arena_new(CTL_ENV_COPIED_MAX)};
    return env->arena != NULL;
}

/* Where the entry with that name is, or the end. */
static size_t find(const struct ctl_env *env, plim_bytes name)
{
    size_t i = 0;
    for (; i < env->count; i++) {
        if (!strncmp(env->entries[i], name.data, name.len) && env->entries[i][name.len] == '=')
            break;
    }
    return i;
}

bool ctl_env_put(struct ctl_env *env, char *entry)
{
    const char *equals = strchr(entry, '=');
    if (!equals || equals == entry)
        return false;
    size_t at = find(env, (plim_bytes){entry, (size_t)(equals - entry)});
    if (at == CTL_ENV_ENTRIES_MAX)
        return false;
    env->entries[at] = entry;
    if (at == env->count)
        env->entries[++env->count] = NULL;
    return true;
}

bool ctl_env_set(struct ctl_env *env, const char *name, const char *before, const char *value)
{
    char *entry = base_arena_printf(env->arena, "%s=%s%s", name, before, value);
    return entry && ctl_env_put(env, entry);
}

const char *ctl_env_get(const struct ctl_env *env, const char *name)
{
    size_t at = find(env, plim_bytes_of(name));
    return at < env->count ? env->entries[at] + strlen(name) + 1 : NULL;
}

/* Cut the next field off `*rest`, up to `stop` or the end. */
static plim_bytes next_field(plim_bytes *rest, char stop)
{
    const char *end = rest->len ? memchr(rest->data, stop, rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    plim_bytes field = {rest->data, len};
    size_t used = end ? len + 1 : len;
    *rest = (plim_bytes){rest->data + used, rest->len - used};
    return field;
}

plim_bytes ctl_home_of(plim_bytes passwd, plim_bytes uid)
{
    while (passwd.len) {
        plim_bytes line = next_field(&passwd, '\n');
        next_field(&line, ':'); /* name */
        next_field(&line, ':'); /* password */
        bool found = base_bytes_equal(next_field(&line, ':'), uid);
        next_field(&line, ':'); /* group */
        next_field(&line, ':'); /* description */
        plim_bytes home = next_field(&line, ':');
        if (found && home.len)
            return home;
    }
    return (plim_bytes){NULL, 0};
}

static bool set_home(struct ctl_env *env)
{
    char uid[16], passwd[PASSWD_BYTES_MAX], home[PATH_MAX];
    plim_bytes found = {NULL, 0};
    snprintf(uid, sizeof uid, "%u", (unsigned)getuid());
    if (ctl_read_text("/etc/passwd", passwd, sizeof passwd))
        found = ctl_home_of(plim_bytes_of(passwd), plim_bytes_of(uid));
    if (!found.len || found.len >= sizeof home)
        found = PLIM_LIT("/");
    memcpy(home, found.data, found.len);
    home[found.len] = '\0';
    return ctl_env_set(env, "HOME", "", home);
}

static bool set_hostname(struct ctl_env *env)
{
    char name[HOSTNAME_BYTES_MAX];
    ctl_read_text("/etc/hostname", name, sizeof name);
    name[strcspn(name, "\n")] = '\0';
    return ctl_env_set(env, "HOSTNAME", "", name);
}

bool ctl_env_add_identity(struct ctl_env *env)
{
    return (ctl_env_get(env, "PATH") || ctl_env_set(env, "PATH", "", CTL_PATH)) &&
           (ctl_env_get(env, "HOME") || set_home(env)) &&
           (ctl_env_get(env, "HOSTNAME") || set_hostname(env));
}

/* Let nothing but the three standard descriptors through, whatever a runtime or a host has left
 * open in us. */
static void keep_three(void)
{
    enum { FIRST = STDERR_FILENO + 1, FALLBACK_LAST = 1023 };
    if (close_range(FIRST, UINT_MAX, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = FIRST; fd <= FALLBACK_LAST; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void ctl_exec(char *const argv[], const struct ctl_env *env)
{
    const char *path = ctl_env_get(env, "PATH");
    char file[PATH_MAX];
    int error = ENOENT;
    keep_three();
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env->entries);
        return;
    }
    plim_bytes rest = plim_bytes_of(path ? path : CTL_PATH);
    for (bool more = true; more;) {
        more = rest.len && memchr(rest.data, ':', rest.len);
        plim_bytes folder = next_field(&rest, ':');
        int len = snprintf(file, sizeof file, "%.*s%s%s", (int)folder.len,
                           folder.len ? folder.data : "", folder.len ? "/" : "", argv[0]);
        if (len < 0 || (size_t)len >= sizeof file)
            continue;
        execve(file, argv, env->entries);
        if (errno != ENOENT && errno != ENOTDIR)
            error = errno; /* it is there: say so unless another one works */
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            break;
    }
    errno = error;
}
