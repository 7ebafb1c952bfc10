#include "providers/docker/plan.h"

#include <jansson.h>

/* Validated text: UTF-8, of files perhaps with NUL. */
static json_t *text(plim_bytes bytes)
{
    return json_stringn_nocheck(bytes.data ? bytes.data : "", bytes.len);
}

static json_t *texts(const plim_bytes *items, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, text(items[i]));
    return list;
}

static json_t *files_of(const plim_project_request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; i < request->file_count; i++)
        json_array_append_new(list, json_pack("{s:o,s:o}", "path", text(request->files[i].path),
                                              "content", text(request->files[i].content)));
    return list;
}

static json_t *env_of(const char *const *env, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(env[i]));
    return list;
}

char *docker_plan_write(const plim_project_request *request, int64_t step_timeout_ms,
                        const char *const *env, size_t env_count,
                        const unsigned char key[CTL_KEY_BYTES])
{
    char hex[2 * CTL_KEY_BYTES + 1];
    base_hex(key, CTL_KEY_BYTES, hex);
    json_t *plan = json_pack("{s:o,s:o,s:I,s:o,s:o,s:s}", "files", files_of(request), "steps",
                             texts(request->steps, request->step_count), "stepTimeoutMs",
                             (json_int_t)step_timeout_ms, "artifacts",
                             texts(request->artifacts, request->artifact_count), "env",
                             env_of(env, env_count), "reportKey", hex);
    base_wipe(hex, sizeof(hex));
    char *dumped = plan ? json_dumps(plan, JSON_COMPACT) : NULL;
    json_decref(plan);
    char *copy = dumped ? base_strdup(dumped) : NULL;
    base_free_secret(dumped, dumped ? strlen(dumped) : 0);
    return copy;
}
