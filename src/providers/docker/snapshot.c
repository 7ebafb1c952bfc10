#include "providers/docker/snapshot.h"

#include <jansson.h>

static bool is_running(const json_t *state)
{
    return json_is_true(json_object_get(state, "Running")) &&
           json_is_false(json_object_get(state, "Paused")) &&
           json_is_false(json_object_get(state, "Restarting")) &&
           json_is_false(json_object_get(state, "Dead"));
}

/* The networks by name; JSON sorts them when it is dumped. */
static json_t *networks_of(const json_t *json)
{
    json_t *names = json_object();
    const char *name;
    json_t *value;
    json_t *networks = json_object_get(json_object_get(json, "NetworkSettings"), "Networks");
    json_object_foreach(networks, name, value)
    {
        json_object_set_new(names, name, json_null());
    }
    return names;
}

bool docker_snapshot_read(plim_bytes inspection, docker_snapshot *out)
{
    _cleanup_(json_decrefp)
    json_t *json = inspection.len
                       ? json_loadb(inspection.data, inspection.len, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;
    const json_t *state = json_object_get(json, "State");
    if (!is_running(state))
        return false;
    json_t *kept =
        json_pack("{s:O?,s:O?,s:O?,s:O?,s:O?,s:O?,s:O?,s:o}", "Id", json_object_get(json, "Id"),
                  "Image", json_object_get(json, "Image"), "User",
                  json_object_get(json_object_get(json, "Config"), "User"), "HostConfig",
                  json_object_get(json, "HostConfig"), "Mounts", json_object_get(json, "Mounts"),
                  "Pid", json_object_get(state, "Pid"), "StartedAt",
                  json_object_get(state, "StartedAt"), "Networks", networks_of(json));
    char *text = kept ? json_dumps(kept, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(kept);
    out->pid = json_integer_value(json_object_get(state, "Pid"));
    out->text = text ? base_strdup(text) : NULL;
    free(text);
    return out->text != NULL;
}
