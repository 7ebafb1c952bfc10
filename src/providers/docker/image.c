#include "providers/docker/image.h"

#include "providers/docker/text.h"

#include <jansson.h>

enum { VOLUMES_SHOWN = 8, NAME_SHOWN = 64 };

/* The volumes by name, sorted, for the refusal. */
static bool refuse_volumes(json_t *volumes, const char *reference, plim_error *err)
{
    const char *names[VOLUMES_SHOWN];
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(volumes, name, value)
    {
        size_t at = count < VOLUMES_SHOWN ? count++ : VOLUMES_SHOWN - 1;
        for (; at > 0 && strcmp(names[at - 1], name) > 0; at--)
            names[at] = names[at - 1];
        names[at] = name;
    }
    _cleanup_buf_ base_buf list = BASE_BUF_INIT(1024);
    for (size_t i = 0; i < count; i++) {
        char shown[NAME_SHOWN];
        base_buf_printf(&list, "%s%s", i ? ", " : "",
                        docker_printable(plim_bytes_of(names[i]), shown, sizeof(shown)));
    }
    return core_refuse_environment(err,
                                   "image %s declares the volume %s; it would be a writable place "
                                   "of the host",
                                   reference, base_buf_text(&list));
}

static bool check_volumes(const json_t *config, const char *reference, plim_error *err)
{
    json_t *volumes = json_object_get(config, "Volumes");
    if (!volumes || json_is_null(volumes))
        return true;
    if (!json_is_object(volumes))
        return core_refuse_environment(err, "image %s: its volumes cannot be read", reference);
    return json_object_size(volumes) == 0 || refuse_volumes(volumes, reference, err);
}

/* Variables that the loader of a first process reads, before any program of ours. */
static bool is_loader_variable(plim_bytes name)
{
    static const char *const exact[] = {"GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "GCONV_PATH"};
    if (name.len >= 3 && memcmp(name.data, "LD_", 3) == 0)
        return true;
    for (size_t i = 0; i < PLIM_COUNT(exact); i++)
        if (base_bytes_is(name, exact[i]))
            return true;
    return false;
}

static bool check_variable(const json_t *entry, const char *reference, plim_error *err)
{
    const char *text = json_string_value(entry);
    const char *equals = text ? strchr(text, '=') : NULL;
    if (!equals || equals == text || strlen(text) != json_string_length(entry))
        return core_refuse_environment(err, "image %s has a variable that is not NAME=value",
                                       reference);
    plim_bytes name = {text, (size_t)(equals - text)};
    char shown[NAME_SHOWN];
    if (is_loader_variable(name))
        return core_refuse_environment(
            err, "image %s sets %s, which a program's loader reads before the program runs",
            reference, docker_printable(name, shown, sizeof(shown)));
    return true;
}

static bool read_env(const json_t *config, const char *reference, base_arena *arena,
                     docker_image *out, plim_error *err)
{
    const json_t *env = json_object_get(config, "Env");
    if (!env || json_is_null(env))
        return true;
    if (!json_is_array(env))
        return core_refuse_environment(err, "image %s: its environment cannot be read", reference);
    out->env = base_arena_alloc(arena, json_array_size(env) + 1, sizeof(*out->env));
    if (!out->env)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < json_array_size(env); i++) {
        const json_t *entry = json_array_get(env, i);
        if (!check_variable(entry, reference, err))
            return false;
        out->env[i] = base_arena_text(arena, plim_bytes_of(json_string_value(entry)));
        if (!out->env[i])
            return plim_refuse_nomem(err);
    }
    out->env_count = json_array_size(env);
    return true;
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

static void read_platform(const json_t *json, docker_image *out)
{
    char given[64];
    const char *variant = text_of(json, "Variant");
    int length = snprintf(given, sizeof(given), "%s/%s%s%s", text_of(json, "Os"),
                          text_of(json, "Architecture"), variant[0] ? "/" : "", variant);
    if ((size_t)length >= sizeof(given) || given[0] == '/' ||
        !docker_platform_normalise(plim_bytes_of(given), out->platform, sizeof(out->platform)))
        out->platform[0] = '\0';
}

/* The digest of what the Engine says this image is made from, if that is one image's manifest. */
static void read_descriptor(const json_t *json, docker_image *out)
{
    static const char *const manifests[] = {"application/vnd.oci.image.manifest.v1+json",
                                            "application/vnd.docker.distribution.manifest.v2+json"};
    const json_t *descriptor = json_object_get(json, "Descriptor");
    const char *type = text_of(descriptor, "mediaType"), *digest = text_of(descriptor, "digest");
    for (size_t i = 0; i < PLIM_COUNT(manifests); i++)
        if (strcmp(type, manifests[i]) == 0 && docker_content_id_valid(plim_bytes_of(digest)))
            snprintf(out->descriptor, sizeof(out->descriptor), "%s", digest);
}

bool docker_image_read(plim_bytes text, const char *reference, base_arena *arena, docker_image *out,
                       plim_error *err)
{
    *out = (docker_image){.env_count = 0};
    _cleanup_(json_decrefp)
    json_t *json = text.len ? json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(json))
        return core_refuse_environment(err, "image %s: the Engine's answer cannot be read",
                                       reference);
    const char *id = text_of(json, "Id");
    if (!docker_content_id_valid(plim_bytes_of(id)))
        return core_refuse_environment(err, "image %s: the Engine states no content ID", reference);
    const json_t *config = json_object_get(json, "Config");
    if (!json_is_object(config))
        return core_refuse_environment(err, "image %s: the Engine states no configuration",
                                       reference);
    snprintf(out->id, sizeof(out->id), "%s", id);
    read_platform(json, out);
    read_descriptor(json, out);
    return check_volumes(config, reference, err) && read_env(config, reference, arena, out, err);
}

void docker_image_identity(const docker_image *image, const char *platform, char *out, size_t size)
{
    out[0] = '\0';
    if (!platform[0] || strcmp(image->platform, platform) != 0 ||
        strcmp(image->descriptor, image->id) != 0)
        return;
    if ((size_t)snprintf(out, size, "oci-manifest:%s@%s", platform, image->id) >= size)
        out[0] = '\0';
}
