/* `plimsoll run`: one snippet, what it printed, and one line about what it ran behind. */
#include "cli/cli.h"

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sandbox_of.h"

/* ---- the request ---- */

/* The code, from the command line, a file or standard input. */
static bool read_code(const cli_options *options, base_buf *file, plim_bytes *out, plim_error *err)
{
    if (options->given & CLI_E) {
        *out = plim_bytes_of(options->code);
        return true;
    }
    if (strcmp(options->operand, "-") != 0) {
        if (!base_read_file(options->operand, file, err))
            return false;
    } else if (!base_read_all(STDIN_FILENO, file)) {
        return errno == EFBIG
                   ? core_refuse_request(err, "standard input is larger than %zu bytes", file->max)
                   : core_refuse_request(err, "cannot read standard input: %s",
                                         base_errno_text(errno));
    }
    *out = base_buf_bytes(file);
    return true;
}

static bool read_floor(const cli_options *options, plim_tier *out, plim_error *err)
{
    if (!(options->given & CLI_FLOOR) || plim_tier_from_name(plim_bytes_of(options->floor), out))
        return true;
    char shown[64];
    return core_refuse_request(
        err, "there is no tier \"%s\"; a floor is one of process, container, kernel, vm",
        core_settings_shown(plim_bytes_of(options->floor), shown, sizeof(shown)));
}

static plim_software_rule rule_of(const cli_list *software)
{
    return (plim_software_rule){
        .mode = software->count == 0   ? PLIM_RULE_NONE
                : software->count == 1 ? PLIM_RULE_EXACT
                                       : PLIM_RULE_APPROVED,
        .identities = software->items,
        .count = software->count,
    };
}

/* Run under a cancel handle that signals fire. */
static bool run_cancellable(plim_sandbox *sandbox, const plim_javascript_request *request,
                            plim_result **out, plim_error *err)
{
    _cleanup_(cli_cancel_freep)
    plim_cancel *cancel = plim_cancel_new();
    if (!cancel)
        return plim_refuse_nomem(err);
    cli_interrupt_arm(cancel);
    bool answered = plim_run_javascript(sandbox, request, cancel, out, err) == PLIM_OK;
    cli_interrupt_disarm();
    return answered;
}

static bool run_snippet(const cli_options *options, plim_result **out, plim_error *err)
{
    _cleanup_buf_ base_buf file = BASE_BUF_INIT(PLIM_CODE_BYTES_MAX);
    _cleanup_(cli_sandbox_freep)
    plim_sandbox *sandbox = NULL;
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.timeout_ms = options->timeout_ms,
                    .software = rule_of(&options->software),
                    .trace_id = plim_bytes_of(options->trace_id)},
        .grant_profile = plim_bytes_of(options->grant),
    };
    if ((options->given & CLI_TRACE_ID) && !core_validate_trace_id(request.options.trace_id, err))
        return false;
    return read_floor(options, &request.options.minimum_isolation, err) &&
           read_code(options, &file, &request.code, err) &&
           cli_sandbox_open(options, &sandbox, err) && run_cancellable(sandbox, &request, out, err);
}

/* ---- the answer ---- */

static json_t *result_json(const plim_result *result)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:s, s:I, s:I, s:b, s:b}", "status", "ok", "provider",
        plim_result_provider(result), "isolation", plim_result_isolation(result), "environment",
        plim_result_environment(result), "software_identity", plim_result_software_identity(result),
        "exit_code", (int)plim_result_exit_code(result), "timed_out", plim_result_timed_out(result),
        "limit_reached", plim_result_limit_reached(result), "duration_ms",
        (json_int_t)plim_result_duration_ms(result), "duration_ns",
        (json_int_t)plim_result_duration_ns(result), "stdout_truncated",
        plim_result_stdout_truncated(result), "stderr_truncated",
        plim_result_stderr_truncated(result));
    const plim_record *record = plim_result_record(result);
    if (object &&
        (!record || json_object_set_new(object, "record_sha256",
                                        json_string(plim_record_record_sha256(record))) == 0) &&
        cli_json_set_bytes(object, "stdout", plim_result_stdout(result)) &&
        cli_json_set_bytes(object, "stderr", plim_result_stderr(result)))
        return object;
    json_decref(object);
    return NULL;
}

/* Pass one stream on. False: it was not written in full, and that was said. */
static bool pass_on(int fd, const char *name, plim_bytes bytes)
{
    if (cli_write(fd, bytes))
        return true;
    cli_say("cannot write to %s: %s", name, base_errno_text(errno));
    return false;
}

static bool ends_inside_line(plim_bytes bytes)
{
    return bytes.len && bytes.data[bytes.len - 1] != '\n';
}

/* Our line starts at the left, whatever the guest left before it. */
static const char *line_break(const plim_result *result, bool json)
{
    bool one_terminal = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    plim_bytes err = plim_result_stderr(result);
    bool inside = ends_inside_line(err) ||
                  (err.len == 0 && one_terminal && ends_inside_line(plim_result_stdout(result)));
    return inside && !json ? "\n" : "";
}

static void add_ending(base_buf *line, const plim_result *result)
{
    if (plim_result_timed_out(result))
        base_buf_add_text(line, "timed out");
    else
        base_buf_printf(line, "exit code %d", (int)plim_result_exit_code(result));
}

static void add_duration(base_buf *line, const plim_result *result)
{
    int64_t ns = plim_result_duration_ns(result);
    if (ns > 0 && ns < 10 * BASE_NS_PER_MS)
        base_buf_printf(line, ", %.1f ms", (double)ns / (double)BASE_NS_PER_MS);
    else
        base_buf_printf(line, ", %" PRId64 " ms", plim_result_duration_ms(result));
}

static void say_summary(const plim_result *result, bool json)
{
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(1024);
    base_buf_printf(&line, "%splimsoll: provider %s, tier %s, ", line_break(result, json),
                    plim_result_provider(result), plim_result_isolation(result));
    add_ending(&line, result);
    add_duration(&line, result);
    if (plim_result_limit_reached(result)[0])
        base_buf_printf(&line, ", limit reached: %s", plim_result_limit_reached(result));
    if (plim_result_stdout_truncated(result))
        base_buf_add_text(&line, ", stdout truncated");
    if (plim_result_stderr_truncated(result))
        base_buf_add_text(&line, ", stderr truncated");
    if (plim_result_record(result))
        base_buf_printf(&line, ", record %s",
                        plim_record_record_sha256(plim_result_record(result)));
    base_buf_add_byte(&line, '\n');
    bool written = cli_write(STDERR_FILENO, base_buf_bytes(&line));
    (void)written; /* there is no other place to say so */
}

static int exit_of(const plim_result *result, bool delivered, bool pass_exit)
{
    if (pass_exit && plim_result_timed_out(result))
        return CLI_PASSED_TIMED_OUT;
    int code = plim_result_exit_code(result);
    if (code == 0 && !plim_result_timed_out(result))
        return delivered ? CLI_EXIT_OK : CLI_EXIT_OTHERWISE;
    return pass_exit ? code : CLI_EXIT_OTHERWISE;
}

static int report_result(const plim_result *result, const cli_options *options)
{
    bool delivered;
    if (options->json) {
        delivered = cli_print_json(result_json(result)) == 0;
    } else {
        bool out = pass_on(STDOUT_FILENO, "stdout", plim_result_stdout(result));
        bool err = pass_on(STDERR_FILENO, "stderr", plim_result_stderr(result));
        delivered = out && err;
    }
    say_summary(result, options->json);
    return exit_of(result, delivered, options->pass_exit);
}

int cli_run(int argc, char **argv)
{
    cli_options options;
    int status;
    if (!cli_begin(argc, argv, &options, &status))
        return status;
    bool has_code = options.given & CLI_E;
    if (has_code == (options.operand != NULL))
        return cli_usage_error("run", has_code ? "-e and a file are one source too many"
                                               : "a file, - or -e CODE says what to run");
    plim_error err = PLIM_ERROR_INIT;
    _cleanup_(cli_result_freep)
    plim_result *result = NULL;
    status = run_snippet(&options, &result, &err)
                 ? report_result(result, &options)
                 : cli_report_error(&err, &options, "the code may have run");
    plim_error_clear(&err);
    return status;
}
