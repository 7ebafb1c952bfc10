/* `plimsoll run`: one snippet or one project, what it printed, and one line about what it ran
 * behind. */
#include "cli/cli.h"

#include "cli/interrupt.h"
#include "cli/project.h"
#include "cli/report.h"
#include "cli/sandbox_of.h"

/* The files of a project and where they stand, twice over. */
enum { PROJECT_BYTES_MAX = 16 << 20 };

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

static bool read_options(const cli_options *options, plim_run_options *out, plim_error *err)
{
    *out = (plim_run_options){.timeout_ms = options->timeout_ms,
                              .software = rule_of(&options->software),
                              .trace_id = plim_bytes_of(options->trace_id)};
    if ((options->given & CLI_TRACE_ID) && !core_validate_trace_id(out->trace_id, err))
        return false;
    return read_floor(options, &out->minimum_isolation, err);
}

/* ---- running ---- */

/* Run a request, of whichever kind is not NULL, under a cancel handle that signals fire. */
static bool run_cancellable(const cli_options *options, const plim_javascript_request *snippet,
                            const plim_project_request *project, plim_result **out, plim_error *err)
{
    _cleanup_(cli_sandbox_freep)
    plim_sandbox *sandbox = NULL;
    _cleanup_(cli_cancel_freep)
    plim_cancel *cancel = plim_cancel_new();
    if (!cancel)
        return plim_refuse_nomem(err);
    if (!cli_sandbox_open(options, &sandbox, err))
        return false;
    cli_interrupt_arm(cancel);
    plim_status status = snippet ? plim_run_javascript(sandbox, snippet, cancel, out, err)
                                 : plim_run_project(sandbox, project, cancel, out, err);
    cli_interrupt_disarm();
    return status == PLIM_OK;
}

static bool run_snippet(const cli_options *options, plim_result **out, plim_error *err)
{
    _cleanup_buf_ base_buf file = BASE_BUF_INIT(PLIM_CODE_BYTES_MAX);
    plim_javascript_request request = {.size = sizeof(request),
                                       .grant_profile = plim_bytes_of(options->grant)};
    return read_options(options, &request.options, err) &&
           read_code(options, &file, &request.code, err) &&
           run_cancellable(options, &request, NULL, out, err);
}

static bool run_project(const cli_options *options, plim_result **out, plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(PROJECT_BYTES_MAX);
    plim_project_request request = {.size = sizeof(request),
                                    .steps = options->steps.items,
                                    .step_count = options->steps.count,
                                    .artifacts = options->artifacts.items,
                                    .artifact_count = options->artifacts.count,
                                    .grant_profile = plim_bytes_of(options->grant)};
    if (!arena)
        return plim_refuse_nomem(err);
    return read_options(options, &request.options, err) &&
           cli_project_read(options->operand, arena, &request, err) &&
           run_cancellable(options, NULL, &request, out, err);
}

/* ---- the verb ---- */

/* Why the command line says nothing that can be run; NULL when it does. */
static const char *what_is_wrong(const cli_options *options)
{
    bool has_code = options->given & CLI_E, is_project = options->given & CLI_STEP;
    if ((options->given & (CLI_ARTIFACT | CLI_OUT)) && !is_project)
        return "--artifact and --out are for projects: --step says what one does";
    if (!(options->given & CLI_ARTIFACT) != !(options->given & CLI_OUT))
        return "--artifact says what to bring back, --out where to write it: both or neither";
    if (is_project && (has_code || !options->operand))
        return "a project is a folder: --step CMD FOLDER";
    if (has_code && options->operand)
        return "-e and a file are one source too many";
    if (!has_code && !options->operand)
        return "a file, - or -e CODE says what to run";
    return NULL;
}

static bool run(const cli_options *options, int *out_folder, plim_result **out, plim_error *err)
{
    if ((options->given & CLI_OUT) && !cli_project_open_out(options->out, out_folder, err))
        return false;
    return options->given & CLI_STEP ? run_project(options, out, err)
                                     : run_snippet(options, out, err);
}

int cli_run(int argc, char **argv)
{
    cli_options options;
    int status;
    if (!cli_begin(argc, argv, &options, &status))
        return status;
    const char *wrong = what_is_wrong(&options);
    if (wrong)
        return cli_usage_error("run", "%s", wrong);
    plim_error err = PLIM_ERROR_INIT;
    _cleanup_fd_ int out_folder = -1;
    _cleanup_(cli_result_freep)
    plim_result *result = NULL;
    status = run(&options, &out_folder, &result, &err)
                 ? cli_report_result(result, &options, out_folder)
                 : cli_report_error(&err, &options, "the code may have run");
    plim_error_clear(&err);
    return status;
}
