/* `plimsoll describe`: what the chosen provider says of itself once it has passed its startup test.
 */
#include "cli/cli.h"

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sandbox_of.h"

static const plim_kind kinds[] = {PLIM_KIND_JAVASCRIPT, PLIM_KIND_PROJECT, PLIM_KIND_MODULE};

/* ---- as text ---- */

static void add_row(base_buf *out, const char *label, const char *format, ...) PLIM_PRINTF(3, 4);

static void add_row(base_buf *out, const char *label, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    base_buf_printf(out, "%-12s%s\n", label, text);
}

static void add_kind(base_buf *out, const plim_info *info, plim_kind kind)
{
    plim_environment environment = plim_info_environment(info, kind);
    if (!plim_info_supports(info, kind)) {
        add_row(out, plim_kind_name(kind), "no");
        return;
    }
    add_row(out, plim_kind_name(kind), "yes, %s grants, at most %" PRId64 " ms",
            plim_info_supports_grant(info, kind) ? "with" : "without", environment.max_timeout_ms);
    if (environment.identity[0])
        add_row(out, "", "environment %s", environment.identity);
    if (environment.software_identity[0])
        add_row(out, "", "software %s", environment.software_identity);
}

static void add_limit(base_buf *out, const char *label, double value, const char *unit)
{
    if (value > 0)
        add_row(out, label, "%g%s", value, unit);
    else
        add_row(out, label, "provider's default");
}

static int print_text(const plim_info *info)
{
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(16384);
    add_row(&out, "provider", "%s", plim_info_provider(info));
    add_row(&out, "isolation", "%s", plim_tier_name(plim_info_tier(info)));
    for (size_t i = 0; i < PLIM_COUNT(kinds); i++)
        add_kind(&out, info, kinds[i]);
    add_row(&out, "sessions", "%s", plim_info_supports_sessions(info) ? "yes" : "no");
    add_limit(&out, "memory", (double)plim_info_memory_mb(info), " MiB");
    add_limit(&out, "cpus", plim_info_cpus(info), "");
    add_limit(&out, "pids", (double)plim_info_pids(info), "");
    add_limit(&out, "disk", (double)plim_info_disk_mb(info), " MiB");
    return cli_print(&out);
}

/* ---- as JSON ---- */

static json_t *kind_json(const plim_info *info, plim_kind kind)
{
    plim_environment environment = plim_info_environment(info, kind);
    return json_pack("{s:b, s:b, s:s, s:s, s:I}", "supported", plim_info_supports(info, kind),
                     "grants", plim_info_supports_grant(info, kind), "environment",
                     environment.identity, "software_identity", environment.software_identity,
                     "max_timeout_ms", (json_int_t)environment.max_timeout_ms);
}

static json_t *info_json(const plim_info *info)
{
    json_t *supports = json_object();
    for (size_t i = 0; i < PLIM_COUNT(kinds); i++)
        if (json_object_set_new(supports, plim_kind_name(kinds[i]), kind_json(info, kinds[i]))) {
            json_decref(supports);
            return NULL;
        }
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:b, s:{s:I, s:f, s:I, s:I}}", "status", "ok", "provider",
        plim_info_provider(info), "isolation", plim_tier_name(plim_info_tier(info)), "supports",
        supports, "sessions", plim_info_supports_sessions(info), "limits", "memory_mb",
        (json_int_t)plim_info_memory_mb(info), "cpus", plim_info_cpus(info), "pids",
        (json_int_t)plim_info_pids(info), "disk_mb", (json_int_t)plim_info_disk_mb(info));
}

/* ---- the verb ---- */

static bool ready_cancellable(plim_sandbox *sandbox, plim_error *err)
{
    _cleanup_(cli_cancel_freep)
    plim_cancel *cancel = plim_cancel_new();
    if (!cancel)
        return plim_refuse_nomem(err);
    cli_interrupt_arm(cancel);
    bool ready = plim_sandbox_ready(sandbox, cancel, err) == PLIM_OK;
    cli_interrupt_disarm();
    return ready;
}

int cli_describe(int argc, char **argv)
{
    cli_options options;
    int status;
    if (!cli_begin(argc, argv, &options, &status))
        return status;
    plim_error err = PLIM_ERROR_INIT;
    _cleanup_(cli_sandbox_freep)
    plim_sandbox *sandbox = NULL;
    _cleanup_(cli_info_freep)
    plim_info *info = NULL;
    if (cli_sandbox_open(&options, &sandbox, &err) && ready_cancellable(sandbox, &err) &&
        plim_describe(sandbox, NULL, &info, &err) == PLIM_OK)
        status = options.json ? cli_print_json(info_json(info)) : print_text(info);
    else
        status = cli_report_error(&err, &options, "there is no description");
    plim_error_clear(&err);
    return status;
}
