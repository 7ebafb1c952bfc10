#include "providers/docker/report.h"

#include "providers/docker/base64.h"
#include "providers/docker/mac.h"

#include <jansson.h>

enum { STEPS_MAX = CTL_PLAN_STEPS_MAX, ARTIFACTS_MAX = CTL_PLAN_ARTIFACTS_MAX };

docker_report_found docker_report_find(plim_bytes bytes, const unsigned char key[CTL_KEY_BYTES],
                                       plim_bytes *body)
{
    struct ctl_frame frame;
    size_t offset = 0;
    bool seen = false;
    while (ctl_frame_next((const unsigned char *)bytes.data, bytes.len, &offset, &frame, &seen))
        if (docker_mac_verifies(key, (plim_bytes){(const char *)frame.body, frame.body_len},
                                frame.mac)) {
            *body = (plim_bytes){(const char *)frame.body, frame.body_len};
            return DOCKER_REPORT_VERIFIED;
        }
    return seen ? DOCKER_REPORT_UNAUTHENTICATED : DOCKER_REPORT_NONE;
}

/* ---- decoding ---- */

static bool read_text(const json_t *value, base_arena *arena, plim_bytes *out)
{
    return json_is_string(value) &&
           base_arena_dup(arena, (plim_bytes){json_string_value(value), json_string_length(value)},
                          out);
}

static bool read_base64(const json_t *value, base_arena *arena, plim_bytes *out)
{
    return json_is_string(value) &&
           docker_base64_decode((plim_bytes){json_string_value(value), json_string_length(value)},
                                arena, out);
}

static bool read_bool(const json_t *value, bool *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

static bool read_int(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static bool read_step(const json_t *json, base_arena *arena, core_step_result *out)
{
    int64_t exit_code;
    if (!json_is_object(json) || json_object_size(json) != 8 ||
        !read_text(json_object_get(json, "command"), arena, &out->command) ||
        !read_base64(json_object_get(json, "stdoutBase64"), arena, &out->out) ||
        !read_base64(json_object_get(json, "stderrBase64"), arena, &out->err) ||
        !read_bool(json_object_get(json, "stdoutTruncated"), &out->out_truncated) ||
        !read_bool(json_object_get(json, "stderrTruncated"), &out->err_truncated) ||
        !read_bool(json_object_get(json, "timedOut"), &out->timed_out) ||
        !read_int(json_object_get(json, "exitCode"), -1, 255, &exit_code) ||
        !read_int(json_object_get(json, "durationMs"), 0, INT32_MAX, &out->duration_ms))
        return false;
    out->exit_code = (int32_t)exit_code;
    out->limit_reached = "";
    return out->command.len <= CTL_COMMAND_BYTES_MAX;
}

static bool read_artifact(const json_t *json, base_arena *arena, core_artifact *out)
{
    return json_is_object(json) && json_object_size(json) == 2 &&
           read_text(json_object_get(json, "path"), arena, &out->path) &&
           read_base64(json_object_get(json, "content"), arena, &out->content);
}

static bool read_steps(const json_t *list, base_arena *arena, docker_report *out)
{
    out->step_count = json_array_size(list);
    if (!json_is_array(list) || out->step_count > STEPS_MAX)
        return false;
    out->steps = base_arena_alloc(arena, out->step_count + 1, sizeof(*out->steps));
    bool good = out->steps != NULL;
    for (size_t i = 0; good && i < out->step_count; i++)
        good = read_step(json_array_get(list, i), arena, &out->steps[i]);
    return good;
}

static bool read_artifacts(const json_t *list, base_arena *arena, docker_report *out)
{
    out->artifact_count = json_array_size(list);
    if (!json_is_array(list) || out->artifact_count > ARTIFACTS_MAX)
        return false;
    out->artifacts = base_arena_alloc(arena, out->artifact_count + 1, sizeof(*out->artifacts));
    bool good = out->artifacts != NULL;
    for (size_t i = 0; good && i < out->artifact_count; i++)
        good = read_artifact(json_array_get(list, i), arena, &out->artifacts[i]);
    return good;
}

bool docker_report_read(plim_bytes body, base_arena *arena, docker_report *out)
{
    *out = (docker_report){.step_count = 0};
    _cleanup_(json_decrefp)
    json_t *json =
        body.len ? json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
                 : NULL;
    if (!json_is_object(json))
        return false;
    const json_t *error = json_object_get(json, "error");
    if (error)
        return json_object_size(json) == 1 && read_text(error, arena, &out->error) &&
               out->error.len > 0;
    return json_object_size(json) == 3 && read_steps(json_object_get(json, "steps"), arena, out) &&
           read_artifacts(json_object_get(json, "artifacts"), arena, out) &&
           read_bool(json_object_get(json, "artifactsTruncated"), &out->artifacts_truncated);
}
