#include "providers/docker/limits.h"

#include "providers/docker/text.h"

#include <jansson.h>

enum { SECCOMP_BYTES_MAX = 1024 * 1024, ACCOUNT_BYTES_MAX = 8 * 1024 * 1024, UID_MAX = 65532 };

bool docker_disk_resolve(docker_disk *disk, plim_error *err)
{
    if (disk->budget < 0 || disk->tmp < 0 || disk->shm < 0 || disk->work < 0)
        return core_refuse_environment(err, "a writable size is negative");
    if (disk->work == 0)
        disk->work = disk->budget ? disk->budget - disk->tmp - disk->shm : DOCKER_WORK_MB;
    if (disk->budget == 0)
        return true;
    if (disk->work < 1)
        return core_refuse_environment(
            err, "SANDBOX_DISK_MB is %" PRId64 ": no room for /work beside %" PRId64 " MiB",
            disk->budget, disk->tmp + disk->shm);
    int64_t sum = disk->tmp + disk->shm + disk->work;
    if (sum > disk->budget)
        return core_refuse_environment(
            err, "the writable mounts hold %" PRId64 " MiB, above SANDBOX_DISK_MB=%" PRId64, sum,
            disk->budget);
    return true;
}

bool docker_image_ref_valid(const char *reference)
{
    plim_bytes all = plim_bytes_of(reference);
    return all.len && base_trim(all).len == all.len && reference[0] != '-';
}

bool docker_image_ref_pinned(const char *reference)
{
    const char *at = strrchr(reference, '@');
    return at && at > reference && docker_content_id_valid(plim_bytes_of(at + 1));
}

bool docker_guest_uid_valid(int64_t uid)
{
    static const struct {
        int64_t first, last;
    } bands[] = {{60001, 60513}, {60578, 60705}, {61184, 65519}};
    if (uid < 1 || uid > UID_MAX)
        return false;
    for (size_t i = 0; i < PLIM_COUNT(bands); i++)
        if (uid + 1 >= bands[i].first && uid <= bands[i].last)
            return false;
    return true;
}

/* Column `number` of a line, from 0; no bytes when there are fewer. */
static plim_bytes column(plim_bytes line, size_t number)
{
    for (;;) {
        const char *end = line.len ? memchr(line.data, ':', line.len) : NULL;
        plim_bytes field = {line.data, end ? (size_t)(end - line.data) : line.len};
        if (number-- == 0)
            return field;
        if (!end)
            return (plim_bytes){NULL, 0};
        line = (plim_bytes){end + 1, line.len - field.len - 1};
    }
}

static bool is_taken(plim_bytes number, int64_t uid)
{
    int64_t value;
    return docker_expiry_parse(number, &value) && (value == uid || value == uid + 1);
}

bool docker_account_collides(plim_bytes text, bool is_group, int64_t uid, char *entry, size_t size)
{
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len);
        plim_bytes line = {text.data, end ? (size_t)(end - text.data) : text.len};
        size_t used = line.len + (end ? 1 : 0);
        text = (plim_bytes){text.data + used, text.len - used};
        if (is_taken(column(line, 2), uid) || (!is_group && is_taken(column(line, 3), uid))) {
            docker_printable(column(line, 0), entry, size);
            return true;
        }
    }
    return false;
}

bool docker_check_accounts(int64_t uid, plim_error *err)
{
    static const struct {
        const char *path;
        bool is_group;
    } files[] = {{"/etc/passwd", false}, {"/etc/group", true}};
    for (size_t i = 0; i < PLIM_COUNT(files); i++) {
        _cleanup_buf_ base_buf text = BASE_BUF_INIT(ACCOUNT_BYTES_MAX);
        _cleanup_error_ plim_error why = PLIM_ERROR_INIT;
        char entry[64];
        if (access(files[i].path, F_OK) != 0 && errno == ENOENT)
            continue;
        if (!base_read_file(files[i].path, &text, &why))
            return core_refuse_environment(err, "%s", plim_error_message(&why));
        if (docker_account_collides(base_buf_bytes(&text), files[i].is_group, uid, entry,
                                    sizeof(entry)))
            return core_refuse_environment(
                err, "SANDBOX_GUEST_UID=%" PRId64 " (or the next) belongs to \"%s\" of %s", uid,
                entry, files[i].path);
    }
    return true;
}

bool docker_seccomp_read(const char *path, char **out, plim_error *err)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(SECCOMP_BYTES_MAX);
    _cleanup_error_ plim_error why = PLIM_ERROR_INIT;
    if (!base_read_file(path, &text, &why))
        return core_refuse_environment(err, "SANDBOX_DOCKER_SECCOMP: %s", plim_error_message(&why));
    json_t *json = json_loadb(base_buf_text(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
    char *compact = json_is_object(json) ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!compact)
        return core_refuse_environment(err, "SANDBOX_DOCKER_SECCOMP: %s is not a JSON object",
                                       path);
    *out = base_strdup(compact);
    free(compact);
    return *out || plim_refuse_nomem(err);
}
