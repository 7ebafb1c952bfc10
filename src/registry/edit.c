#include "registry/internal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

/* What one edit holds; undone in end_edit on every path. */
struct edit {
    const char *path;
    base_arena *arena; /* the names below */
    char *lock, *temporary, *folder;
    int folder_fd; /* to sync what was renamed; -1 while not open */
    bool locked, temporary_made;
    sigset_t signals;     /* the mask to go back to */
    bool new_file;        /* there was none */
    struct stat original; /* of the old file */
};

enum { EDIT_BYTES_MAX = 64 * 1024 };

/*
 * A keyboard interrupt or a stop of the terminal waits until the lock is gone again; an edit takes
 * milliseconds. A kill leaves the lock, and the next edit says so.
 */
static void defer_signals(struct edit *edit)
{
    sigset_t deferred;
    sigemptyset(&deferred);
    sigaddset(&deferred, SIGINT);
    sigaddset(&deferred, SIGTERM);
    sigaddset(&deferred, SIGHUP);
    sigaddset(&deferred, SIGQUIT);
    sigaddset(&deferred, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &deferred, &edit->signals);
}

static bool name_files(struct edit *edit, plim_error *err)
{
    const char *slash = strrchr(edit->path, '/');
    int length = slash ? (int)(slash - edit->path) : 0;
    edit->arena = base_arena_new(EDIT_BYTES_MAX);
    if (!edit->arena)
        return plim_refuse_nomem(err);
    edit->lock = base_arena_printf(edit->arena, "%s.lock", edit->path);
    edit->folder = !slash ? base_arena_printf(edit->arena, ".")
                          : base_arena_printf(edit->arena, "%.*s/", length, edit->path);
    edit->temporary =
        edit->folder ? base_arena_printf(edit->arena, "%s/.plimsoll-clients-XXXXXX", edit->folder)
                     : NULL;
    return (edit->lock && edit->temporary) || plim_refuse_nomem(err);
}

static bool take_lock(struct edit *edit, plim_error *err)
{
    edit->locked = mkdir(edit->lock, 0700) == 0;
    if (edit->locked)
        return true;
    if (errno == EEXIST)
        return registry_refuse(err,
                               "%s exists: another edit is running, or one was killed; remove that "
                               "directory only after checking that none runs",
                               edit->lock);
    return registry_refuse(err, "cannot create %s: %s", edit->lock, base_errno_text(errno));
}

static bool open_folder(struct edit *edit, plim_error *err)
{
    edit->folder_fd = open(edit->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return edit->folder_fd >= 0 ||
           registry_refuse(err, "cannot open %s: %s", edit->folder, base_errno_text(errno));
}

static bool begin_edit(struct edit *edit, plim_error *err)
{
    defer_signals(edit);
    return name_files(edit, err) && take_lock(edit, err) && open_folder(edit, err);
}

static void end_edit(struct edit *edit)
{
    if (edit->temporary_made)
        unlink(edit->temporary);
    if (edit->locked)
        rmdir(edit->lock);
    base_fd_close(&edit->folder_fd);
    base_arena_free(edit->arena);
    pthread_sigmask(SIG_SETMASK, &edit->signals, NULL);
}

/* NULL and an error when there is nothing to edit. */
static registry *load_original(struct edit *edit, bool may_create, plim_error *err)
{
    registry *loaded = NULL;
    if (lstat(edit->path, &edit->original) == 0)
        return registry_load_plain(edit->path, &loaded, err) ? loaded : NULL;
    if (errno != ENOENT || !may_create) {
        registry_refuse(err, "cannot read %s: %s", edit->path, base_errno_text(errno));
        return NULL;
    }
    edit->new_file = true;
    loaded = registry_new();
    if (!loaded)
        plim_refuse_nomem(err);
    return loaded;
}

/* The text to store; what it parses to must be a registry, so an edit can never store one that the
 * daemon refuses. */
static bool checked_text(const registry *changed, base_buf *text, plim_error *err)
{
    if (!registry_serialize(changed, text))
        return registry_refuse(err, "the registry would be larger than %d bytes",
                               REGISTRY_BYTES_MAX);
    _cleanup_(registry_freep)
    registry *again = NULL;
    return registry_parse(base_buf_bytes(text), &again, err);
}

/* The new file is read by whoever read the old one: same permission bits, owner and group. */
static bool keep_access(const struct edit *edit, int fd)
{
    struct stat made;
    if (edit->new_file)
        return fchmod(fd, 0600) == 0;
    if (fstat(fd, &made) != 0)
        return false;
    bool same_owner = made.st_uid == edit->original.st_uid && made.st_gid == edit->original.st_gid;
    return (same_owner || fchown(fd, edit->original.st_uid, edit->original.st_gid) == 0) &&
           fchmod(fd, edit->original.st_mode & 0777) == 0;
}

static bool write_temporary(struct edit *edit, plim_bytes text, plim_error *err)
{
    _cleanup_fd_ int fd = mkostemp(edit->temporary, O_CLOEXEC);
    edit->temporary_made = fd >= 0;
    bool written = fd >= 0 && base_write_all(fd, text) && keep_access(edit, fd) && fsync(fd) == 0;
    if (written && close(TAKE_FD(fd)) == 0)
        return true;
    return registry_refuse(err, "cannot write a new file beside %s: %s; the old one is unchanged",
                           edit->path, base_errno_text(errno));
}

static bool put_in_place(struct edit *edit, plim_error *err)
{
    if (rename(edit->temporary, edit->path) != 0)
        return registry_refuse(err, "cannot replace %s: %s; the old one is unchanged", edit->path,
                               base_errno_text(errno));
    edit->temporary_made = false;
    return fsync(edit->folder_fd) == 0 ||
           registry_refuse(err,
                           "%s was replaced, but its directory could not be written to disk (%s): "
                           "inspect it",
                           edit->path, base_errno_text(errno));
}

bool registry_edit(const char *path, bool may_create, registry_change *change, void *ctx,
                   size_t *left, plim_error *err)
{
    _cleanup_(end_edit)
    struct edit edit = {.path = path, .folder_fd = -1};
    _cleanup_(registry_freep)
    registry *reg = NULL;
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    if (!begin_edit(&edit, err))
        return false;
    reg = load_original(&edit, may_create, err);
    if (!reg || !change(reg, ctx, err) || !checked_text(reg, &text, err) ||
        !write_temporary(&edit, base_buf_bytes(&text), err) || !put_in_place(&edit, err))
        return false;
    *left = reg->count;
    return true;
}
