/*
 * The smallest useful program: choose a provider, make it ready, run one snippet, print what came
 * back and the tier it ran behind. Public headers only.
 *
 * The library runs nothing unless a provider is named. This program names `wasm` when
 * SANDBOX_PROVIDER is not set; with another provider in the environment it runs unchanged.
 */
#include <plimsoll/plimsoll.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char snippet[] =
    "const rows = [\n"
    "  { dept: 'Engineering', cents: 46600000 },\n"
    "  { dept: 'Sales', cents: 20300000 },\n"
    "  { dept: 'Operations', cents: 9800000 },\n"
    "  { dept: 'Engineering', cents: 12400000 },\n"
    "];\n"
    "const totals = {};\n"
    "for (const { dept, cents } of rows) totals[dept] = (totals[dept] ?? 0) + cents;\n"
    "console.log(JSON.stringify(totals));\n";

enum { TIMEOUT_MS = 10000 };

/* One labelled stream, without its last newline. */
static void print_stream(const char *label, plim_bytes bytes)
{
    size_t length = bytes.len;
    if (length && bytes.data[length - 1] == '\n')
        length--;
    printf("%-11s", label);
    if (length)
        fwrite(bytes.data, 1, length, stdout);
    putchar('\n');
}

static const char *yes_no(bool value)
{
    return value ? "true" : "false";
}

static void print_result(const plim_result *result)
{
    printf("%-11s%s\n", "provider", plim_result_provider(result));
    printf("%-11s%s\n", "isolation", plim_result_isolation(result));
    printf("%-11s%" PRId32 "\n", "exit code", plim_result_exit_code(result));
    printf("%-11s%s\n", "timed out", yes_no(plim_result_timed_out(result)));
    printf("%-11sstdout=%s stderr=%s\n", "truncated", yes_no(plim_result_stdout_truncated(result)),
           yes_no(plim_result_stderr_truncated(result)));
    printf("%-11s%" PRId64 "ms\n", "duration", plim_result_duration_ms(result));
    print_stream("stdout", plim_result_stdout(result));
    if (plim_result_stderr(result).len)
        print_stream("stderr", plim_result_stderr(result));
    if (plim_result_exit_code(result) != 0)
        printf("The snippet failed. That is a result, not an error.\n");
}

/* Open a provider, prove that it works, run the snippet on it. False: the error says why. */
static bool run(plim_result **result, plim_error *err)
{
    const char *named = getenv("SANDBOX_PROVIDER");
    plim_setting wasm = {PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")};
    plim_local_options options = {
        .size = sizeof(options), .settings = &wasm, .setting_count = named && named[0] ? 0 : 1};
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.timeout_ms = TIMEOUT_MS},
        .code = {snippet, sizeof(snippet) - 1},
    };
    plim_sandbox *sandbox;
    bool answered = plim_sandbox_local(&options, &sandbox, err) == PLIM_OK &&
                    plim_sandbox_ready(sandbox, NULL, err) == PLIM_OK &&
                    plim_run_javascript(sandbox, &request, NULL, result, err) == PLIM_OK;
    plim_sandbox_free(sandbox);
    return answered;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        fprintf(stderr, "usage: minimal (no arguments; SANDBOX_PROVIDER chooses the provider)\n");
        return 2;
    }
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    bool answered = run(&result, &err);
    if (answered)
        print_result(result);
    else
        fprintf(stderr, "minimal: %s: %s\n",
                plim_may_have_run(&err) ? "the code may have run" : "nothing ran",
                plim_error_message(&err));
    plim_result_free(result);
    plim_error_clear(&err);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "minimal: cannot write to stdout\n");
        return 1;
    }
    return answered ? 0 : 1;
}
