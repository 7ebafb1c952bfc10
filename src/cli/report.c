#include "cli/report.h"

#include "cli/output.h"
#include "cli/project.h"

static bool is_project(const plim_result *result)
{
    return plim_result_kind(result) == PLIM_KIND_PROJECT;
}

/* ---- how the guest ended ---- */

/* The exit code of a snippet, or the first of a project's steps that is not 0. */
static int exit_code_of(const plim_result *result)
{
    for (size_t i = 0; i < plim_result_step_count(result); i++) {
        plim_step step = plim_result_step(result, i);
        if (step.exit_code != 0)
            return step.exit_code;
    }
    return plim_result_exit_code(result);
}

static bool timed_out(const plim_result *result)
{
    return plim_result_timed_out(result) || plim_result_outcome(result) == PLIM_OUTCOME_TIMED_OUT;
}

static bool went_well(const plim_result *result)
{
    return exit_code_of(result) == 0 && !timed_out(result) &&
           (!is_project(result) || plim_result_outcome(result) == PLIM_OUTCOME_COMPLETED);
}

static int exit_of(const plim_result *result, bool delivered, bool pass_exit)
{
    if (pass_exit && timed_out(result))
        return CLI_PASSED_TIMED_OUT;
    if (went_well(result))
        return delivered ? CLI_EXIT_OK : CLI_EXIT_OTHERWISE;
    int code = exit_code_of(result);
    return pass_exit && code != 0 ? code : CLI_EXIT_OTHERWISE;
}

/* ---- JSON ---- */

/* Set `name` to `value`, which is taken in any case; false when memory is out. */
static bool set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* How long it took and, from a daemon, which record was checked. */
static bool add_facts(json_t *object, const plim_result *result)
{
    const plim_record *record = plim_result_record(result);
    return set(object, "duration_ms", json_integer(plim_result_duration_ms(result))) &&
           set(object, "duration_ns", json_integer(plim_result_duration_ns(result))) &&
           (!record ||
            set(object, "record_sha256", json_string(plim_record_record_sha256(record))));
}

static bool add_snippet(json_t *object, const plim_result *result)
{
    return set(object, "exit_code", json_integer(plim_result_exit_code(result))) &&
           set(object, "timed_out", json_boolean(plim_result_timed_out(result))) &&
           set(object, "limit_reached", json_string(plim_result_limit_reached(result))) &&
           add_facts(object, result) &&
           set(object, "stdout_truncated", json_boolean(plim_result_stdout_truncated(result))) &&
           set(object, "stderr_truncated", json_boolean(plim_result_stderr_truncated(result))) &&
           cli_json_set_bytes(object, "stdout", plim_result_stdout(result)) &&
           cli_json_set_bytes(object, "stderr", plim_result_stderr(result));
}

static json_t *step_json(plim_step step)
{
    json_t *object =
        json_pack("{s:o, s:i, s:b, s:s, s:I, s:b, s:b}", "command", cli_json_text(step.command),
                  "exit_code", (int)step.exit_code, "timed_out", step.timed_out, "limit_reached",
                  step.limit_reached, "duration_ms", (json_int_t)step.duration_ms,
                  "stdout_truncated", step.out_truncated, "stderr_truncated", step.err_truncated);
    if (object && cli_json_set_bytes(object, "stdout", step.out) &&
        cli_json_set_bytes(object, "stderr", step.err))
        return object;
    json_decref(object);
    return NULL;
}

static bool add_project(json_t *object, const plim_result *result)
{
    json_t *steps = json_array(), *artifacts = json_array();
    bool has_steps = set(object, "steps", steps),
         has_artifacts = set(object, "artifacts", artifacts);
    bool good =
        has_steps && has_artifacts &&
        set(object, "outcome", json_string(plim_outcome_name(plim_result_outcome(result)))) &&
        set(object, "outcome_detail", cli_json_text(plim_result_outcome_detail(result))) &&
        add_facts(object, result) &&
        set(object, "artifacts_truncated", json_boolean(plim_result_artifacts_truncated(result)));
    for (size_t i = 0; good && i < plim_result_step_count(result); i++)
        good = json_array_append_new(steps, step_json(plim_result_step(result, i))) == 0;
    for (size_t i = 0; good && i < plim_result_artifact_count(result); i++) {
        plim_artifact file = plim_result_artifact(result, i);
        good = json_array_append_new(artifacts,
                                     json_pack("{s:o, s:I}", "path", cli_json_text(file.path),
                                               "bytes", (json_int_t)file.content.len)) == 0;
    }
    return good;
}

static json_t *result_json(const plim_result *result)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:s}", "status", "ok", "provider", plim_result_provider(result),
        "isolation", plim_result_isolation(result), "environment", plim_result_environment(result),
        "software_identity", plim_result_software_identity(result));
    if (object && (is_project(result) ? add_project : add_snippet)(object, result))
        return object;
    json_decref(object);
    return NULL;
}

/* ---- output ---- */

/* Pass one stream on. False: it was not written in full, and that was said. */
static bool pass_on(int fd, const char *name, plim_bytes bytes)
{
    if (cli_write(fd, bytes))
        return true;
    cli_say("cannot write to %s: %s", name, base_errno_text(errno));
    return false;
}

static bool pass_on_both(plim_bytes out, plim_bytes err)
{
    bool passed = pass_on(STDOUT_FILENO, "stdout", out);
    return pass_on(STDERR_FILENO, "stderr", err) && passed;
}

static bool pass_on_all(const plim_result *result)
{
    bool all = pass_on_both(plim_result_stdout(result), plim_result_stderr(result));
    for (size_t i = 0; i < plim_result_step_count(result); i++) {
        plim_step step = plim_result_step(result, i);
        all = pass_on_both(step.out, step.err) && all;
    }
    return all;
}

static bool ends_inside_line(plim_bytes bytes)
{
    return bytes.len && bytes.data[bytes.len - 1] != '\n';
}

/* What the guest wrote last to each stream. */
static void last_output(const plim_result *result, plim_bytes *out, plim_bytes *err)
{
    *out = plim_result_stdout(result);
    *err = plim_result_stderr(result);
    for (size_t i = 0; i < plim_result_step_count(result); i++) {
        plim_step step = plim_result_step(result, i);
        *err = step.err.len || step.out.len ? step.err : *err;
        *out = step.out.len ? step.out : *out;
    }
}

/* Our line starts at the left, whatever the guest left before it. */
static const char *line_break(const plim_result *result, bool json)
{
    bool one_terminal = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    plim_bytes out, err;
    last_output(result, &out, &err);
    bool inside = ends_inside_line(err) || (err.len == 0 && one_terminal && ends_inside_line(out));
    return inside && !json ? "\n" : "";
}

static void add_ending(base_buf *line, const plim_result *result)
{
    if (is_project(result))
        base_buf_printf(line, "outcome %s, steps %zu, ",
                        plim_outcome_name(plim_result_outcome(result)),
                        plim_result_step_count(result));
    if (timed_out(result))
        base_buf_add_text(line, "timed out");
    else
        base_buf_printf(line, "exit code %d", exit_code_of(result));
}

static void add_duration(base_buf *line, const plim_result *result)
{
    int64_t ns = plim_result_duration_ns(result);
    if (ns > 0 && ns < 10 * BASE_NS_PER_MS)
        base_buf_printf(line, ", %.1f ms", (double)ns / (double)BASE_NS_PER_MS);
    else
        base_buf_printf(line, ", %" PRId64 " ms", plim_result_duration_ms(result));
}

/* What was cut, of a snippet or of any step, and the last limit that was reached. */
struct cuts {
    bool out, err;
    const char *limit;
};

static struct cuts cuts_of(const plim_result *result)
{
    struct cuts cuts = {plim_result_stdout_truncated(result), plim_result_stderr_truncated(result),
                        plim_result_limit_reached(result)};
    for (size_t i = 0; i < plim_result_step_count(result); i++) {
        plim_step step = plim_result_step(result, i);
        cuts.out |= step.out_truncated;
        cuts.err |= step.err_truncated;
        cuts.limit = step.limit_reached[0] ? step.limit_reached : cuts.limit;
    }
    return cuts;
}

static void say_summary(const plim_result *result, bool json)
{
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(1024);
    base_buf_printf(&line, "%splimsoll: provider %s, tier %s, ", line_break(result, json),
                    plim_result_provider(result), plim_result_isolation(result));
    add_ending(&line, result);
    add_duration(&line, result);
    struct cuts cuts = cuts_of(result);
    if (cuts.limit[0])
        base_buf_printf(&line, ", limit reached: %s", cuts.limit);
    if (cuts.out)
        base_buf_add_text(&line, ", stdout truncated");
    if (cuts.err)
        base_buf_add_text(&line, ", stderr truncated");
    if (plim_result_artifacts_truncated(result))
        base_buf_add_text(&line, ", artifacts truncated");
    if (plim_result_record(result))
        base_buf_printf(&line, ", record %s",
                        plim_record_record_sha256(plim_result_record(result)));
    base_buf_add_byte(&line, '\n');
    bool written = cli_write(STDERR_FILENO, base_buf_bytes(&line));
    (void)written; /* there is no other place to say so */
}

int cli_report_result(const plim_result *result, const cli_options *options, int out_folder)
{
    bool delivered = options->json ? cli_print_json(result_json(result)) == 0 : pass_on_all(result);
    if (out_folder >= 0)
        delivered = cli_project_write(out_folder, &options->artifacts, result) && delivered;
    say_summary(result, options->json);
    return exit_of(result, delivered, options->pass_exit);
}
