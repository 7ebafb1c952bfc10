#include "core/core.h"

#include <math.h>

bool core_name_valid(plim_bytes name)
{
    if (name.len == 0 || name.len > PLIM_TRACE_ID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (!base_is_alnum(c) && !memchr("._:-", c, 4))
            return false;
    }
    return true;
}

bool core_validate_trace_id(plim_bytes trace_id, plim_error *err)
{
    return core_name_valid(trace_id) ||
           core_refuse_request(
               err, "the trace ID is not 1 to %d letters, digits, \".\", \"_\", \":\" or \"-\"",
               PLIM_TRACE_ID_BYTES_MAX);
}

static bool has_nul(plim_bytes text)
{
    return text.len && memchr(text.data, '\0', text.len);
}

static bool validate_code(plim_bytes code, plim_error *err)
{
    if (code.len == 0)
        return core_refuse_request(err, "the code is empty");
    if (code.len > PLIM_CODE_BYTES_MAX)
        return core_refuse_request(err, "the code has %zu bytes; at most %d are allowed", code.len,
                                   PLIM_CODE_BYTES_MAX);
    if (has_nul(code))
        return core_refuse_request(err, "the code holds a NUL byte");
    if (!base_utf8_valid(code))
        return core_refuse_request(err, "the code is not valid UTF-8");
    return true;
}

/* One segment of a path: not empty, not "." or "..". */
static bool segment_valid(plim_bytes segment)
{
    return segment.len && !base_bytes_is(segment, ".") && !base_bytes_is(segment, "..");
}

bool core_path_valid(plim_bytes path)
{
    if (path.len == 0 || path.len > PLIM_PATH_BYTES_MAX)
        return false;
    size_t start = 0;
    for (size_t at = 0; at < path.len;) {
        uint32_t point;
        size_t length = base_utf8_decode((plim_bytes){path.data + at, path.len - at}, &point);
        if (length == 0 || base_is_control(point) || point == '\\')
            return false;
        if (point == '/') {
            if (!segment_valid((plim_bytes){path.data + start, at - start}))
                return false;
            start = at + 1;
        }
        at += length;
    }
    return segment_valid((plim_bytes){path.data + start, path.len - start});
}

static int compare_bytes_at(const void *a, const void *b)
{
    return base_bytes_compare(**(const plim_bytes *const *)a, **(const plim_bytes *const *)b);
}

/* The index of a path that an earlier one equals, or `count`. Needs `count` pointers of room. */
static size_t first_duplicate(const plim_bytes **sorted, size_t count)
{
    qsort(sorted, count, sizeof(*sorted), compare_bytes_at);
    for (size_t i = 1; i < count; i++)
        if (base_bytes_equal(*sorted[i - 1], *sorted[i]))
            return i;
    return count;
}

#define PATH_RULE                                                                                  \
    "a relative path of 1 to 1024 bytes without empty, \".\" or \"..\" parts, backslashes or "     \
    "controls"

static bool validate_files(const plim_file *files, size_t count, plim_error *err)
{
    if (count > PLIM_FILES_MAX)
        return core_refuse_request(err, "there are %zu files; at most %d are allowed", count,
                                   PLIM_FILES_MAX);
    const plim_bytes *paths[PLIM_FILES_MAX];
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (!core_path_valid(files[i].path))
            return core_refuse_request(err, "the path of file %zu is not " PATH_RULE, i + 1);
        if (!base_utf8_valid(files[i].content))
            return core_refuse_request(err, "the content of file %zu is not valid UTF-8", i + 1);
        if (!base_size_add(total, files[i].content.len, &total) ||
            total > PLIM_FILE_CONTENT_BYTES_MAX)
            return core_refuse_request(err, "the files have more than %d bytes of content",
                                       PLIM_FILE_CONTENT_BYTES_MAX);
        paths[i] = &files[i].path;
    }
    if (first_duplicate(paths, count) < count)
        return core_refuse_request(err, "two files have the same path");
    return true;
}

static bool validate_steps(const plim_bytes *steps, size_t count, plim_error *err)
{
    if (count < 1 || count > PLIM_STEPS_MAX)
        return core_refuse_request(err, "a project has 1 to %d steps, not %zu", PLIM_STEPS_MAX,
                                   count);
    for (size_t i = 0; i < count; i++) {
        if (steps[i].len > PLIM_STEP_BYTES_MAX)
            return core_refuse_request(err, "step %zu has %zu bytes; at most %d are allowed", i + 1,
                                       steps[i].len, PLIM_STEP_BYTES_MAX);
        if (has_nul(steps[i]) || !base_utf8_valid(steps[i]))
            return core_refuse_request(err, "step %zu is not valid UTF-8 without NUL", i + 1);
    }
    return true;
}

static bool validate_artifacts(const plim_bytes *artifacts, size_t count, plim_error *err)
{
    if (count > PLIM_ARTIFACTS_MAX)
        return core_refuse_request(err, "there are %zu artifacts; at most %d are allowed", count,
                                   PLIM_ARTIFACTS_MAX);
    const plim_bytes *paths[PLIM_ARTIFACTS_MAX];
    for (size_t i = 0; i < count; i++) {
        if (!core_path_valid(artifacts[i]))
            return core_refuse_request(err, "artifact %zu is not " PATH_RULE, i + 1);
        paths[i] = &artifacts[i];
    }
    if (first_duplicate(paths, count) < count)
        return core_refuse_request(err, "an artifact is named twice");
    return true;
}

static bool model_valid(plim_bytes model)
{
    /* [A-Za-z0-9][A-Za-z0-9._-]{0,63}: the name rule without ':' and with a stricter first
     * character. */
    return core_name_valid(model) && !memchr(model.data, ':', model.len) &&
           !memchr("._-", model.data[0], 3);
}

static bool validate_module(const plim_module_request *module, plim_error *err)
{
    if (!model_valid(module->model))
        return core_refuse_request(
            err, "the model is not a name of 1 to 64 letters, digits, \".\", \"_\" or \"-\"");
    if (module->rows < 1 || module->rows > PLIM_MODULE_ROWS_MAX)
        return core_refuse_request(err, "a module run has 1 to %d rows, not %zu",
                                   PLIM_MODULE_ROWS_MAX, module->rows);
    if (module->width < 1 || module->width > PLIM_MODULE_ROW_VALUES_MAX)
        return core_refuse_request(err, "a row has 1 to %d values, not %zu",
                                   PLIM_MODULE_ROW_VALUES_MAX, module->width);
    for (size_t i = 0; i < module->rows * module->width; i++)
        if (!isfinite(module->values[i]))
            return core_refuse_request(err, "value %zu of row %zu is not finite",
                                       i % module->width + 1, i / module->width + 1);
    if (!(module->end_time > 0) || !isfinite(module->end_time) || !(module->step > 0) ||
        !isfinite(module->step))
        return core_refuse_request(err, "end_time and step are finite and greater than 0");
    double steps = module->end_time / module->step;
    if (!(steps <= PLIM_MODULE_STEPS_MAX))
        return core_refuse_request(err, "end_time divided by step is more than %d",
                                   PLIM_MODULE_STEPS_MAX);
    double result_bytes = 20 + (double)module->rows * (4 + 8 * (floor(steps) + 2));
    if (result_bytes > PLIM_MODULE_RESULT_BYTES_MAX)
        return core_refuse_request(err, "the result could have more than %d bytes",
                                   PLIM_MODULE_RESULT_BYTES_MAX);
    return true;
}

bool core_validate_options(const plim_run_options *options, plim_error *err)
{
    plim_tier floor = options->minimum_isolation;
    if (floor != PLIM_TIER_UNKNOWN && (floor < PLIM_TIER_PROCESS || floor > PLIM_TIER_VM))
        return core_refuse_request(err, "the floor is not one of process, container, kernel, vm");
    return core_rule_valid(&options->software, err);
}

bool core_validate_payload(const core_request *request, plim_error *err)
{
    switch (request->kind) {
    case PLIM_KIND_JAVASCRIPT:
        if (!validate_code(request->javascript->code, err))
            return false;
        break;
    case PLIM_KIND_PROJECT:
        if (!validate_steps(request->project->steps, request->project->step_count, err) ||
            !validate_files(request->project->files, request->project->file_count, err) ||
            !validate_artifacts(request->project->artifacts, request->project->artifact_count, err))
            return false;
        break;
    case PLIM_KIND_MODULE:
        if (!validate_module(request->module, err))
            return false;
        break;
    default:
        return core_refuse_request(err, "the request has no payload that can run on its own");
    }
    if (core_request_grant_profile(request).len > PLIM_GRANT_PROFILE_BYTES_MAX)
        return core_refuse_request(err, "the grant profile's name has more than %d bytes",
                                   PLIM_GRANT_PROFILE_BYTES_MAX);
    return true;
}

bool core_validate(const core_request *request, plim_error *err)
{
    return core_validate_options(request->options, err) && core_validate_payload(request, err);
}
