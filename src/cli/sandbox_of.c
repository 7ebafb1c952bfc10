#include "cli/sandbox_of.h"

#include "cli/output.h"

static bool open_local(const char *name, plim_sandbox **out, plim_error *err)
{
    plim_setting provider = {PLIM_LIT("SANDBOX_PROVIDER"), plim_bytes_of(name)};
    plim_local_options options = {
        .size = sizeof(options), .settings = &provider, .setting_count = name ? 1 : 0};
    return plim_sandbox_local(&options, out, err) == PLIM_OK;
}

/* The token never stands on the command line, where every process of the machine could read it. */
static bool open_remote(const cli_options *options, plim_sandbox **out, plim_error *err)
{
    core_tool_settings settings;
    bool opened = false;
    if (core_tool_settings_read(core_lookup_environment, NULL, &settings, err)) {
        plim_client_options client = {
            .size = sizeof(client),
            .base_url = plim_bytes_of(options->daemon),
            .token = plim_bytes_of(settings.caller_token),
            .insecure_http = options->insecure_http,
            .ca_file = plim_bytes_of(options->ca_file),
        };
        opened = plim_sandbox_connect(&client, out, err) == PLIM_OK;
    }
    base_wipe(&settings, sizeof(settings));
    return opened;
}

bool cli_sandbox_open(const cli_options *options, plim_sandbox **out, plim_error *err)
{
    if (options->given & CLI_DAEMON)
        return open_remote(options, out, err);
    return open_local(options->provider, out, err);
}

/* What to do about it on the command line, where the message does not say that yet. */
static const char *advice(const plim_error *err, const cli_options *options)
{
    bool remote = options->given & CLI_DAEMON;
    if (!remote && plim_error_status(err) == PLIM_E_DISABLED)
        return ", or give --provider wasm";
    if (remote && strcmp(plim_error_code(err), "unauthenticated") == 0 &&
        core_lookup_environment(NULL, "PLIMSOLL_CALLER_TOKEN").len == 0)
        return "; PLIMSOLL_CALLER_TOKEN is not set";
    return "";
}

static json_t *error_json(const plim_error *err, const char *message)
{
    const char *reason = plim_not_dispatched_name(plim_error_not_dispatched(err));
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:b}", "status", plim_status_name(plim_error_status(err)), "code",
        plim_error_code(err), "message", cli_json_text(plim_bytes_of(message)), "not_dispatched",
        reason[0] ? json_string(reason) : json_null(), "may_have_run", plim_may_have_run(err));
}

int cli_report_error(const plim_error *err, const cli_options *options, const char *unmarked)
{
    bool may_have_run = plim_may_have_run(err);
    const char *reason = plim_not_dispatched_name(plim_error_not_dispatched(err));
    char message[PLIM_ERROR_MESSAGE_MAX + 64];
    snprintf(message, sizeof(message), "%s%s", plim_error_message(err), advice(err, options));
    cli_say("%s (%s): %s", may_have_run ? unmarked : "nothing ran",
            may_have_run ? plim_error_code(err) : reason, message);
    if (options->json) /* the exit status tells more than a lost line */
        (void)cli_print_json(error_json(err, message));
    if (may_have_run)
        return options->pass_exit ? CLI_PASSED_MAY_HAVE_RUN : CLI_EXIT_MAY_HAVE_RUN;
    return options->pass_exit ? CLI_PASSED_NOTHING_RAN : CLI_EXIT_NOTHING_RAN;
}
