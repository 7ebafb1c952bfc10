#include "providers/docker/probe.h"

#include "providers/docker/text.h"

#include <jansson.h>
#include <sys/utsname.h>

enum { MOUNTS_MAX = 3, SHOWN = 64 };

typedef struct wanted_mount {
    const char *path;
    int64_t mb;
} wanted_mount;

static size_t mounts_of(const docker_probe_wanted *wanted, wanted_mount out[MOUNTS_MAX])
{
    size_t count = 0;
    out[count++] = (wanted_mount){"/tmp", wanted->tmp_mb};
    out[count++] = (wanted_mount){"/dev/shm", wanted->shm_mb};
    if (wanted->work_mb)
        out[count++] = (wanted_mount){"/work", wanted->work_mb};
    return count;
}

static bool fail(plim_error *err, const char *what)
{
    return core_refuse_environment(err, "the container is not as configured: %s", what);
}

static bool check_root(const json_t *json, plim_error *err)
{
    const json_t *value = json_object_get(json, "rootWritable");
    if (json_is_false(value))
        return true;
    return fail(err, json_is_true(value) ? "its root can be written to"
                                         : "whether its root can be written to is not known");
}

static bool check_interfaces(const json_t *json, plim_error *err)
{
    const json_t *list = json_object_get(json, "interfaces");
    const char *first = json_string_value(json_array_get(list, 0));
    if (!json_is_array(list))
        return fail(err, "its network interfaces are not known");
    if (json_array_size(list) == 1 && first && strcmp(first, "lo") == 0)
        return true;
    return fail(err, "it has a network interface beside lo");
}

/* Every number of the list is the user; `least` of them. */
static bool all_are(const json_t *list, int64_t uid, size_t least)
{
    if (!json_is_array(list) || json_array_size(list) < least)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        int64_t value;
        if (!text || !docker_expiry_parse(plim_bytes_of(text), &value) || value != uid)
            return false;
    }
    return true;
}

static bool check_ids(const json_t *json, int64_t uid, plim_error *err)
{
    if (!all_are(json_object_get(json, "uid"), uid, 1))
        return fail(err, "its user is not the guest's");
    if (!all_are(json_object_get(json, "gid"), uid, 1))
        return fail(err, "its group is not the guest's");
    if (!all_are(json_object_get(json, "groups"), uid, 0))
        return fail(err, "it has a supplementary group, or its groups are not known");
    return true;
}

/* ---- mounts ---- */

static plim_bytes next_word(plim_bytes *line, char separator)
{
    const char *end = line->len ? memchr(line->data, separator, line->len) : NULL;
    plim_bytes word = {line->data, end ? (size_t)(end - line->data) : line->len};
    size_t used = word.len + (end ? 1 : 0);
    *line = (plim_bytes){line->data + used, line->len - used};
    return word;
}

static bool has_option(plim_bytes options, const char *option)
{
    while (options.len)
        if (base_bytes_is(next_word(&options, ','), option))
            return true;
    return false;
}

/* A size option of that many MiB, in whichever unit the kernel writes it: k, or m under gVisor. */
static bool has_size(plim_bytes options, int64_t mb)
{
    char in_k[40], in_m[40];
    snprintf(in_k, sizeof(in_k), "size=%" PRId64 "k", mb * 1024);
    snprintf(in_m, sizeof(in_m), "size=%" PRId64 "m", mb);
    return has_option(options, in_k) || has_option(options, in_m);
}

/* The last line for that path is what holds: type and options of it. */
static bool find_mount(plim_bytes table, const char *path, plim_bytes *type, plim_bytes *options)
{
    bool found = false;
    while (table.len) {
        plim_bytes line = next_word(&table, '\n');
        next_word(&line, ' ');
        if (!base_bytes_is(next_word(&line, ' '), path))
            continue;
        *type = next_word(&line, ' ');
        *options = next_word(&line, ' ');
        found = true;
    }
    return found;
}

/*
 * gVisor's older releases show no `nosuid` in their table. There the startup proof tries instead
 * that a program with set-ID bits does not start from such a mount.
 */
static bool check_mount(plim_bytes table, const wanted_mount *wanted, bool gvisor, plim_error *err)
{
    plim_bytes type, options;
    char text[160];
    const char *fault = NULL;
    if (!find_mount(table, wanted->path, &type, &options))
        fault = "is not in the mount table";
    else if (!base_bytes_is(type, "tmpfs"))
        fault = "is not a tmpfs";
    else if (!has_option(options, "noexec"))
        fault = "is mounted without noexec";
    else if (!gvisor && !has_option(options, "nosuid"))
        fault = "is mounted without nosuid";
    else if (!has_size(options, wanted->mb))
        fault = "does not show the size that was asked for";
    if (!fault)
        return true;
    snprintf(text, sizeof(text), "%s %s", wanted->path, fault);
    return fail(err, text);
}

static bool is_wanted(const char *path, const wanted_mount *mounts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(mounts[i].path, path) == 0)
            return true;
    return false;
}

static bool lists(const json_t *list, const char *path)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text && strcmp(text, path) == 0)
            return true;
    }
    return false;
}

static bool check_writable(const json_t *json, const wanted_mount *mounts, size_t count,
                           plim_error *err)
{
    const json_t *list = json_object_get(json, "writable");
    char shown[SHOWN], text[160];
    if (!json_is_array(list))
        return fail(err, "its writable places are not known");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *path = json_string_value(json_array_get(list, i));
        if (path && is_wanted(path, mounts, count))
            continue;
        snprintf(text, sizeof(text), "%s can be written to",
                 docker_printable(plim_bytes_of(path), shown, sizeof(shown)));
        return fail(err, text);
    }
    for (size_t i = 0; i < count; i++)
        if (!lists(list, mounts[i].path)) {
            snprintf(text, sizeof(text), "%s cannot be written to", mounts[i].path);
            return fail(err, text);
        }
    return true;
}

static bool check_mounts(const json_t *json, const docker_probe_wanted *wanted, plim_error *err)
{
    wanted_mount mounts[MOUNTS_MAX];
    size_t count = mounts_of(wanted, mounts);
    const json_t *table = json_object_get(json, "mounts");
    if (!json_is_string(table))
        return fail(err, "its mount table is not known");
    plim_bytes text = {json_string_value(table), json_string_length(table)};
    for (size_t i = 0; i < count; i++)
        if (!check_mount(text, &mounts[i], wanted->host != NULL, err))
            return false;
    return check_writable(json, mounts, count, err);
}

/* ---- the rest ---- */

static bool check_pids(const json_t *json, int64_t wanted, plim_error *err)
{
    const char *text = json_string_value(json_object_get(json, "pidsMax"));
    int64_t value;
    if (wanted == 0)
        return true;
    if (!text)
        return fail(err, "its process limit is not known");
    if (!docker_expiry_parse(base_trim(plim_bytes_of(text)), &value))
        return fail(err, "it has no process limit");
    return value == wanted || fail(err, "its process limit is another than was asked for");
}

static bool check_socket(const json_t *json, bool wanted, plim_error *err)
{
    const json_t *socket = json_object_get(json, "socket");
    const char *reply = json_string_value(json_object_get(socket, "reply"));
    if (!wanted)
        return true;
    if (json_is_true(json_object_get(socket, "connected")) && reply &&
        base_bytes_is(base_trim(plim_bytes_of(reply)), "pong"))
        return true;
    return fail(err, "it does not reach a host socket; register runsc with --host-uds=open and "
                     "restart the Engine");
}

static bool differs(const json_t *kernel, const char *name, const char *host)
{
    const char *inside = json_string_value(json_object_get(kernel, name));
    return inside && inside[0] && host[0] && strcmp(inside, host) != 0;
}

static bool check_kernel(const json_t *json, const docker_kernel *host, plim_error *err)
{
    const json_t *kernel = json_object_get(json, "kernel");
    if (!host)
        return true;
    if (differs(kernel, "release", host->release) && differs(kernel, "version", host->version) &&
        differs(kernel, "proc", host->proc))
        return true;
    return fail(err,
                "the kernel seen inside is the host's own, so what answers to the name of this "
                "runtime is not gVisor");
}

bool docker_probe_check(plim_bytes document, const docker_probe_wanted *wanted, plim_error *err)
{
    _cleanup_(json_decrefp)
    json_t *json = document.len ? json_loadb(document.data, document.len,
                                             JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
                                : NULL;
    if (!json_is_object(json))
        return fail(err, "its probe did not say what it saw");
    return check_kernel(json, wanted->host, err) && check_root(json, err) &&
           check_interfaces(json, err) && check_ids(json, wanted->uid, err) &&
           check_mounts(json, wanted, err) && check_pids(json, wanted->pids, err) &&
           check_socket(json, wanted->socket, err);
}

void docker_probe_banner(plim_bytes document, char out[121])
{
    _cleanup_(json_decrefp)
    json_t *json = document.len ? json_loadb(document.data, document.len,
                                             JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
                                : NULL;
    const char *text = json_string_value(json_object_get(json, "banner"));
    docker_printable((plim_bytes){text, text ? strcspn(text, "\n") : 0}, out, 121);
}

bool docker_kernel_of_host(docker_kernel *out)
{
    struct utsname names;
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(sizeof(out->proc) - 1);
    if (uname(&names) != 0 || !base_read_file("/proc/version", &text, NULL))
        return false;
    snprintf(out->release, sizeof(out->release), "%s", names.release);
    snprintf(out->version, sizeof(out->version), "%s", names.version);
    snprintf(out->proc, sizeof(out->proc), "%.*s", (int)strcspn(base_buf_text(&text), "\n"),
             base_buf_text(&text));
    return true;
}
