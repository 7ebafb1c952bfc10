#include "providers/docker/discover.h"

#include "providers/docker/text.h"

#include <jansson.h>

enum { CLIENT_FILE_BYTES_MAX = 1024 * 1024 };

bool docker_endpoint_parse(plim_bytes endpoint, const char *source, char out[DOCKER_SOCKET_MAX],
                           plim_error *err)
{
    static const plim_bytes scheme = PLIM_BYTES_("unix://", 7);
    plim_bytes path = base_trim(endpoint);
    if (path.len > scheme.len && memcmp(path.data, scheme.data, scheme.len) == 0)
        path = (plim_bytes){path.data + scheme.len, path.len - scheme.len};
    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, '\0', path.len)) {
        char shown[24];
        const char *colon = path.len ? memchr(path.data, ':', path.len) : NULL;
        plim_bytes word = {path.data, colon ? (size_t)(colon - path.data) : 0};
        return core_refuse_environment(
            err, "%s names an Engine that is not a Unix socket of this machine (%s)", source,
            word.len ? docker_printable(word, shown, sizeof(shown)) : "no scheme");
    }
    if (path.len >= DOCKER_SOCKET_MAX)
        return core_refuse_environment(err, "%s names a socket path that is too long", source);
    memcpy(out, path.data, path.len);
    out[path.len] = '\0';
    return true;
}

static json_t *read_json(const char *path, plim_error *err)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(CLIENT_FILE_BYTES_MAX);
    _cleanup_error_ plim_error why = PLIM_ERROR_INIT;
    if (!base_read_file(path, &text, &why)) {
        core_refuse_environment(err, "%s", plim_error_message(&why));
        return NULL;
    }
    json_t *json = json_loadb(base_buf_text(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) {
        json_decref(json);
        core_refuse_environment(err, "%s is not a JSON object", path);
        return NULL;
    }
    return json;
}

/* The client's folder; false when neither variable says where it is. */
static bool config_dir(const core_settings *settings, char out[PATH_MAX])
{
    if (settings->docker_config[0])
        return (size_t)snprintf(out, PATH_MAX, "%s", settings->docker_config) < PATH_MAX;
    return settings->home[0] &&
           (size_t)snprintf(out, PATH_MAX, "%s/.docker", settings->home) < PATH_MAX;
}

/* `currentContext` of config.json; "" when there is no such file or member. */
static bool current_context(const char *dir, char *out, size_t size, plim_error *err)
{
    char path[PATH_MAX];
    out[0] = '\0';
    if ((size_t)snprintf(path, sizeof(path), "%s/config.json", dir) >= sizeof(path))
        return core_refuse_environment(err, "DOCKER_CONFIG is too long");
    if (access(path, F_OK) != 0)
        return true;
    _cleanup_(json_decrefp)
    json_t *config = read_json(path, err);
    if (!config)
        return false;
    const json_t *context = json_object_get(config, "currentContext");
    if (!context)
        return true;
    if (!json_is_string(context) || json_string_length(context) >= size)
        return core_refuse_environment(err, "currentContext in %s cannot be read", path);
    snprintf(out, size, "%s", json_string_value(context));
    return true;
}

static bool from_context(const char *dir, const char *name, char out[DOCKER_SOCKET_MAX],
                         plim_error *err)
{
    char path[PATH_MAX], hex[BASE_SHA256_HEX + 1], shown[64];
    docker_printable(plim_bytes_of(name), shown, sizeof(shown));
    if (!base_sha256_hex_of(plim_bytes_of(name), hex) ||
        (size_t)snprintf(path, sizeof(path), "%s/contexts/meta/%s/meta.json", dir, hex) >=
            sizeof(path))
        return core_refuse_environment(err, "the Docker context \"%s\" cannot be looked up", shown);
    _cleanup_(json_decrefp)
    json_t *meta = read_json(path, err);
    if (!meta)
        return plim_error_wrap(err, "the Docker context \"%s\"", shown);
    const json_t *docker = json_object_get(json_object_get(meta, "Endpoints"), "docker");
    const char *host = json_string_value(json_object_get(docker, "Host"));
    if (!host || !host[0])
        return core_refuse_environment(err, "the Docker context \"%s\" names no endpoint", shown);
    return docker_endpoint_parse(plim_bytes_of(host), "the Docker client's context", out, err);
}

bool docker_discover(const core_settings *settings, char out[DOCKER_SOCKET_MAX], plim_error *err)
{
    char dir[PATH_MAX], name[256];
    if (settings->docker_host[0])
        return docker_endpoint_parse(plim_bytes_of(settings->docker_host), "DOCKER_HOST", out, err);
    bool have_dir = config_dir(settings, dir);
    snprintf(name, sizeof(name), "%s", settings->docker_context);
    if (!name[0] && have_dir && !current_context(dir, name, sizeof(name), err))
        return false;
    if (!name[0] || strcmp(name, "default") == 0) {
        snprintf(out, DOCKER_SOCKET_MAX, "%s", DOCKER_DEFAULT_SOCKET);
        return true;
    }
    if (!have_dir)
        return core_refuse_environment(
            err, "DOCKER_CONTEXT is set, but neither DOCKER_CONFIG nor HOME says where it is");
    return from_context(dir, name, out, err);
}
