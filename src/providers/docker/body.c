#include "providers/docker/body.h"

#include <jansson.h>

static int64_t bytes_of_mb(int64_t mb)
{
    return mb * 1024 * 1024;
}

static json_t *strings(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

/* A bare name removes the image's variable from the container, so that not even the loader of the
 * first process sees it. */
static json_t *removed_variables(const docker_body *body)
{
    json_t *list = json_array();
    for (size_t i = 0; i < body->image_env_count; i++)
        json_array_append_new(list,
                              json_stringn(body->image_env[i], strcspn(body->image_env[i], "=")));
    return list;
}

static json_t *tmpfs_options(int64_t mb, const char *more)
{
    return json_sprintf("rw,noexec,nosuid,size=%" PRId64 "m%s", mb, more);
}

static json_t *tmpfs(const docker_body *body)
{
    json_t *mounts = json_object();
    json_object_set_new(mounts, "/tmp", tmpfs_options(body->tmp_mb, ""));
    json_object_set_new(mounts, "/dev/shm", tmpfs_options(body->shm_mb, ""));
    if (body->work)
        json_object_set_new(mounts, "/work", tmpfs_options(body->work_mb, ",mode=1777"));
    return mounts;
}

static json_t *security(const docker_body *body)
{
    json_t *options = json_array();
    json_array_append_new(options, json_string("no-new-privileges"));
    if (body->seccomp)
        json_array_append_new(options, json_sprintf("seccomp=%s", body->seccomp));
    return options;
}

static json_t *limit(const char *name, int value)
{
    return json_pack("{s:s,s:i,s:i}", "Name", name, "Soft", value, "Hard", value);
}

static json_t *host_config(const docker_body *body)
{
    json_t *host = json_pack(
        "{s:b,s:{s:s,s:{}},s:I,s:I,s:I,s:I,s:b,s:o,s:[s],s:o,s:[o,o],s:s,s:s,s:b}", "AutoRemove",
        body->interactive, "LogConfig", "Type", "none", "Config", "Memory",
        (json_int_t)bytes_of_mb(body->memory_mb), "MemorySwap",
        (json_int_t)bytes_of_mb(body->memory_mb), "PidsLimit", (json_int_t)body->pids, "NanoCpus",
        (json_int_t)(body->cpus * 1e9 + 0.5), "ReadonlyRootfs", 1, "Tmpfs", tmpfs(body), "CapDrop",
        "ALL", "SecurityOpt", security(body), "Ulimits", limit("core", 0), limit("nofile", 4096),
        "IpcMode", "private", "NetworkMode", "none", "Init", !body->interactive);
    if (body->runtime[0])
        json_object_set_new(host, "Runtime", json_string(body->runtime));
    if (body->socket)
        json_object_set_new(
            host, "Binds",
            json_pack("[o]", json_sprintf("%s:%s", body->socket, DOCKER_SOCKET_INSIDE)));
    return host;
}

char *docker_body_write(const docker_body *body)
{
    json_t *root = json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:b,s:b,s:b,s:b,s:b,s:b,s:{s:o},s:{s:[s]},s:o}", "Image", body->image,
        "Entrypoint", strings(body->argv, 1), "Cmd", strings(body->argv + 1, body->argc - 1),
        "User", json_sprintf("%" PRId64 ":%" PRId64, body->uid, body->uid), "Env",
        removed_variables(body), "OpenStdin", body->interactive, "StdinOnce", body->interactive,
        "AttachStdin", body->interactive, "AttachStdout", body->interactive, "AttachStderr",
        body->interactive, "Tty", 0, "Labels", DOCKER_LABEL_EXPIRES,
        json_sprintf("%" PRId64, body->expires), "Healthcheck", "Test", "NONE", "HostConfig",
        host_config(body));
    if (!root)
        return NULL;
    if (body->work)
        json_object_set_new(root, "WorkingDir", json_string("/work"));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    char *copy = text ? base_strdup(text) : NULL;
    free(text);
    return copy;
}
