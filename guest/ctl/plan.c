#include "plan.h"

#include "json.h"

#include <string.h>

typedef bool (*read_fn)(struct ctl_json *json, struct ctl_plan *plan);

/* A text that will be a C string. */
static bool read_text(struct ctl_json *json, plim_bytes *out)
{
    if (!ctl_json_string(json, out))
        return false;
    return !memchr(out->data, '\0', out->len) || ctl_json_fail(json, "a text holds a NUL");
}

static bool read_texts(struct ctl_json *json, plim_bytes *list, size_t max, size_t *count)
{
    for (bool first = true; ctl_json_item(json, &first); ++*count) {
        if (*count == max)
            return ctl_json_fail(json, "a list is too long");
        if (!read_text(json, &list[*count]))
            return false;
    }
    return !json->fault;
}

static bool read_file(struct ctl_json *json, struct ctl_plan_file *file)
{
    bool has_path = false, has_content = false;
    plim_bytes name;
    for (bool first = true; ctl_json_member(json, &first, &name);) {
        if (base_bytes_is(name, "path") && !has_path)
            has_path = read_text(json, &file->path);
        else if (base_bytes_is(name, "content") && !has_content)
            has_content = ctl_json_string(json, &file->content);
        else
            return ctl_json_fail(json, "a file has a member that is unknown or repeated");
    }
    if (!json->fault && !(has_path && has_content))
        ctl_json_fail(json, "a file lacks a member");
    return !json->fault;
}

static bool read_files(struct ctl_json *json, struct ctl_plan *plan)
{
    for (bool first = true; ctl_json_item(json, &first); plan->file_count++) {
        if (plan->file_count == CTL_PLAN_FILES_MAX)
            return ctl_json_fail(json, "a list is too long");
        if (!read_file(json, &plan->files[plan->file_count]))
            return false;
    }
    return !json->fault;
}

static bool read_steps(struct ctl_json *json, struct ctl_plan *plan)
{
    return read_texts(json, plan->steps, CTL_PLAN_STEPS_MAX, &plan->step_count);
}

static bool read_artifacts(struct ctl_json *json, struct ctl_plan *plan)
{
    return read_texts(json, plan->artifacts, CTL_PLAN_ARTIFACTS_MAX, &plan->artifact_count);
}

static bool read_env(struct ctl_json *json, struct ctl_plan *plan)
{
    return read_texts(json, plan->env, CTL_PLAN_ENV_MAX, &plan->env_count);
}

static bool read_timeout(struct ctl_json *json, struct ctl_plan *plan)
{
    if (!ctl_json_integer(json, &plan->step_timeout_ms))
        return false;
    return (plan->step_timeout_ms > 0 && plan->step_timeout_ms <= CTL_STEP_TIMEOUT_MS_MAX) ||
           ctl_json_fail(json, "stepTimeoutMs is out of range");
}

static bool read_host_sdk(struct ctl_json *json, struct ctl_plan *plan)
{
    return ctl_json_string(json, &plan->host_sdk);
}

/* The value of a lower-case hex digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_key(struct ctl_json *json, struct ctl_plan *plan)
{
    plim_bytes hex;
    if (!ctl_json_string(json, &hex))
        return false;
    bool good = hex.len == sizeof plan->key * 2;
    for (size_t i = 0; good && i < sizeof plan->key; i++) {
        int high = hex_value(hex.data[2 * i]), low = hex_value(hex.data[2 * i + 1]);
        good = high >= 0 && low >= 0;
        plan->key[i] = (unsigned char)(good ? high << 4 | low : 0);
    }
    /* The text is in our buffer: wipe it, so that the key exists once. */
    explicit_bzero((char *)hex.data, hex.len);
    return good || ctl_json_fail(json, "reportKey is not 64 hex digits");
}

enum { KEY_FIELD = 5, OPTIONAL_FIELD = 6 };
static const struct {
    const char *name;
    read_fn read;
} fields[] = {
    {"files", read_files},
    {"steps", read_steps},
    {"artifacts", read_artifacts},
    {"env", read_env},
    {"stepTimeoutMs", read_timeout},
    [KEY_FIELD] = {"reportKey", read_key},
    [OPTIONAL_FIELD] = {"hostSDK", read_host_sdk},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static size_t find_field(plim_bytes name)
{
    size_t i = 0;
    while (i < FIELDS && !base_bytes_is(name, fields[i].name))
        i++;
    return i;
}

bool ctl_plan_read(char *document, size_t len, struct ctl_plan *plan, bool *has_key,
                   const char **fault)
{
    bool seen[FIELDS] = {false};
    struct ctl_json json = ctl_json_of(document, len);
    *plan = (struct ctl_plan){.step_timeout_ms = 0};
    *has_key = false;
    if (!base_utf8_valid((plim_bytes){document, len}))
        ctl_json_fail(&json, "it is not UTF-8");
    plim_bytes name;
    for (bool first = true; ctl_json_member(&json, &first, &name);) {
        size_t field = find_field(name);
        if (field == FIELDS || seen[field]) {
            ctl_json_fail(&json, "it has a member that is unknown or repeated");
            break;
        }
        seen[field] = true;
        if (!fields[field].read(&json, plan))
            break;
        *has_key = *has_key || field == KEY_FIELD;
    }
    if (ctl_json_ends(&json)) {
        for (size_t i = 0; i < FIELDS; i++) {
            if (!seen[i] && i != OPTIONAL_FIELD)
                ctl_json_fail(&json, "it lacks a member");
        }
    }
    *fault = json.fault;
    return !json.fault;
}
