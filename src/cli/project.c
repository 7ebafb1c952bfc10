#include "cli/project.h"

#include "cli/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- reading ---- */

typedef struct reader {
    base_arena *arena;
    plim_file *files; /* room for PLIM_FILES_MAX */
    size_t count, bytes;
    plim_error *err;
} reader;

static bool cannot_read(const reader *it, const char *path)
{
    return core_refuse_request(it->err, "cannot read %s: %s", path, base_errno_text(errno));
}

static bool too_much(const reader *it)
{
    return core_refuse_request(it->err,
                               "the folder holds more than %d files or %d bytes, or a path is "
                               "longer than %d bytes",
                               PLIM_FILES_MAX, PLIM_FILE_CONTENT_BYTES_MAX, PLIM_PATH_BYTES_MAX);
}

static bool is_special(const reader *it, const char *path)
{
    return core_refuse_request(it->err, "%s is a link or a special file; a project has none", path);
}

/* Never waits for a pipe that took the file's place, and never reads through a link. -1: the error
 * is set. */
static int open_file(const reader *it, int folder, const char *name, const char *path)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    if (fd >= 0)
        is_special(it, path);
    else
        cannot_read(it, path);
    base_fd_close(&fd);
    return -1;
}

static bool read_content(reader *it, int fd, const char *path, plim_bytes *out)
{
    _cleanup_buf_ base_buf content = BASE_BUF_INIT(PLIM_FILE_CONTENT_BYTES_MAX - it->bytes);
    if (!base_read_all(fd, &content))
        return errno == EFBIG ? too_much(it) : cannot_read(it, path);
    it->bytes += content.len;
    return base_arena_dup(it->arena, base_buf_bytes(&content), out) || plim_refuse_nomem(it->err);
}

static bool read_file(reader *it, int folder, const char *name, char *path)
{
    if (it->count == PLIM_FILES_MAX)
        return too_much(it);
    plim_file *file = &it->files[it->count++];
    file->path = plim_bytes_of(path);
    _cleanup_fd_ int fd = open_file(it, folder, name, path);
    return fd >= 0 && read_content(it, fd, path, &file->content);
}

static bool read_folder(reader *it, int fd, const char *prefix);

static bool read_entry(reader *it, int folder, const char *name, const char *prefix)
{
    struct stat status;
    char *path = base_arena_printf(it->arena, "%s%s", prefix, name);
    if (!path)
        return plim_refuse_nomem(it->err);
    if (strlen(path) > PLIM_PATH_BYTES_MAX)
        return too_much(it);
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return cannot_read(it, path);
    if (S_ISREG(status.st_mode))
        return read_file(it, folder, name, path);
    if (!S_ISDIR(status.st_mode))
        return is_special(it, path);
    int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    const char *deeper = base_arena_printf(it->arena, "%s/", path);
    if (below >= 0 && deeper)
        return read_folder(it, below, deeper);
    bool told = below < 0 ? cannot_read(it, path) : plim_refuse_nomem(it->err);
    base_fd_close(&below);
    return told;
}

/* Takes the descriptor. Every path below starts with `prefix`. */
static bool read_folder(reader *it, int fd, const char *prefix)
{
    DIR *stream = fdopendir(fd);
    if (!stream) {
        base_fd_close(&fd);
        return cannot_read(it, prefix);
    }
    bool good = true;
    for (const struct dirent *entry; good && (errno = 0, entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            good = read_entry(it, dirfd(stream), entry->d_name, prefix);
    if (good && errno)
        good = cannot_read(it, prefix);
    closedir(stream);
    return good;
}

static int by_path(const void *a, const void *b)
{
    return base_bytes_compare(((const plim_file *)a)->path, ((const plim_file *)b)->path);
}

bool cli_project_read(const char *folder, base_arena *arena, plim_project_request *out,
                      plim_error *err)
{
    reader it = {.arena = arena,
                 .files = base_arena_alloc(arena, PLIM_FILES_MAX, sizeof(plim_file)),
                 .err = err};
    if (!it.files)
        return plim_refuse_nomem(err);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(&it, folder);
    if (!read_folder(&it, fd, ""))
        return false;
    /* A folder has no order of its own; the request's digest has one. */
    qsort(it.files, it.count, sizeof(*it.files), by_path);
    out->files = it.files;
    out->file_count = it.count;
    return true;
}

/* ---- writing ---- */

bool cli_project_open_out(const char *folder, int *out, plim_error *err)
{
    bool there = mkdir(folder, 0777) == 0 || errno == EEXIST;
    *out = there ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return *out >= 0 ||
           core_refuse_request(err, "cannot write below %s: %s", folder, base_errno_text(errno));
}

static bool was_asked_for(const cli_list *asked, plim_bytes path)
{
    for (size_t i = 0; i < asked->count; i++)
        if (base_bytes_equal(asked->items[i], path))
            return true;
    return false;
}

/* Walk down to the folder of the last name, making what is missing; -1 with errno. `*path` becomes
 * the last name. */
static int open_parent(int folder, char **path)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char *slash; fd >= 0 && (slash = strchr(*path, '/')); *path = slash + 1) {
        *slash = '\0';
        int below = -1;
        if (mkdirat(fd, *path, 0777) == 0 || errno == EEXIST)
            below = openat(fd, *path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        base_fd_close(&fd);
        fd = below;
    }
    return fd;
}

/* A request's path: relative, without `.` or `..`. */
static bool write_one(int folder, const plim_artifact *artifact)
{
    char path[PLIM_PATH_BYTES_MAX + 1], *name = path;
    snprintf(path, sizeof(path), "%.*s", (int)artifact->path.len, artifact->path.data);
    _cleanup_fd_ int parent = open_parent(folder, &name);
    if (parent < 0)
        return false;
    _cleanup_fd_ int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd >= 0 && base_write_all(fd, artifact->content);
}

bool cli_project_write(int folder, const cli_list *asked, const plim_result *result)
{
    bool all = true;
    for (size_t i = 0; i < plim_result_artifact_count(result); i++) {
        plim_artifact artifact = plim_result_artifact(result, i);
        if (!was_asked_for(asked, artifact.path)) {
            cli_say("an artifact came that was not asked for; it is not written");
            all = false;
        } else if (!write_one(folder, &artifact)) {
            cli_say("cannot write the artifact %.*s: %s", (int)artifact.path.len,
                    artifact.path.data, base_errno_text(errno));
            all = false;
        }
    }
    return all;
}
