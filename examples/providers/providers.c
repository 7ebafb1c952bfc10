/*
 * One program over every local provider: the same snippet, unchanged, behind each wall that this
 * machine has. One row for each: tier, what runs it, how long a run took; a provider that cannot be
 * made ready is listed with the reason. Rows are not ranked. Exits 1 when none could run it.
 */
#include <plimsoll/plimsoll.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 20000, IDENTITY_SHOWN = 32 };

static const char snippet[] = "let sum = 0;\n"
                              "for (let i = 1; i <= 1000; i++) sum += i * i;\n"
                              "console.log(sum);\n";
static const char expected[] = "333833500\n";

static const struct row {
    const char *label, *provider, *runtime;
} rows[] = {
    {"wasm", "wasm", ""},
    {"docker", "docker", ""},
    {"docker, runsc", "docker", "runsc"},
};

static int not_run(const struct row *row, plim_error *err)
{
    printf("%-14s not run: %s\n", row->label, plim_error_message(err));
    plim_error_clear(err);
    return 0;
}

/* Does the result say what the snippet must print, whatever ran it? */
static int print_result(const struct row *row, const plim_result *result)
{
    plim_bytes out = plim_result_stdout(result);
    int same = plim_result_exit_code(result) == 0 && out.len == sizeof(expected) - 1 &&
               memcmp(out.data, expected, out.len) == 0;
    printf("%-14s tier %-10s %6" PRId64 " ms  %.*s  %s\n", row->label,
           plim_tier_name(plim_result_tier(result)), plim_result_duration_ms(result),
           IDENTITY_SHOWN, plim_result_environment(result),
           same ? "as expected" : "ANOTHER ANSWER");
    return same;
}

static int run(const struct row *row, plim_sandbox *sandbox)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_javascript_request request = {
        .size = sizeof(request), .options.timeout_ms = TIMEOUT_MS, .code = plim_bytes_of(snippet)};
    if (plim_run_javascript(sandbox, &request, NULL, &result, &err) != PLIM_OK)
        return not_run(row, &err);
    int same = print_result(row, result);
    plim_result_free(result);
    return same;
}

static int try_row(const struct row *row)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_sandbox *sandbox;
    plim_setting settings[] = {
        {PLIM_LIT("SANDBOX_PROVIDER"), plim_bytes_of(row->provider)},
        {PLIM_LIT("SANDBOX_DOCKER_RUNTIME"), plim_bytes_of(row->runtime)},
    };
    plim_local_options options = {
        .size = sizeof(options), .settings = settings, .setting_count = 2};
    if (plim_sandbox_local(&options, &sandbox, &err) != PLIM_OK)
        return not_run(row, &err);
    int same =
        plim_sandbox_ready(sandbox, NULL, &err) == PLIM_OK ? run(row, sandbox) : not_run(row, &err);
    plim_sandbox_free(sandbox);
    return same;
}

int main(void)
{
    int ran = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ran += try_row(&rows[i]);
    return ran ? 0 : 1;
}
