/*
 * The same library, a daemon behind it: start plimsolld with one registered caller, run a snippet
 * through it, ask for a stronger wall than it has, and knock with a token nobody issued. Each
 * refusal must be the one that is expected; anything else makes the program fail.
 *
 * Run it from the top of the repository. The daemon's log, with its audit lines, goes to stderr.
 */
#include <plimsoll/client.h>
#include <plimsoll/plimsoll.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/local_daemon.h"

static const char snippet[] = "const numbers = [1, 2, 3, 4];\n"
                              "const sum = numbers.reduce((a, b) => a + b, 0);\n"
                              "console.log(JSON.stringify({ sum }));\n";
static const char expected[] = "{\"sum\":10}\n";

/* An interrupt stops the call that is waiting, and the program ends as after any error. */
static plim_cancel *interrupted;

static void on_interrupt(int number)
{
    (void)number;
    plim_cancel_fire(interrupted);
}

static bool fail(const char *step, const char *why)
{
    fprintf(stderr, "daemon: %s: %s\n", step, why);
    return false;
}

static plim_bytes bytes_of(const char *text)
{
    return plim_bytes_of(text);
}

static bool connect_to(const local_daemon *daemon, const char *token, plim_sandbox **out,
                       plim_error *err)
{
    plim_client_options options = {
        .size = sizeof(options), .base_url = bytes_of(daemon->base_url), .token = bytes_of(token)};
    return plim_sandbox_connect(&options, out, err) == PLIM_OK;
}

/* ---- the steps ---- */

static bool describe(plim_sandbox *sandbox, plim_error *err)
{
    plim_info *info;
    if (plim_describe(sandbox, interrupted, &info, err) != PLIM_OK)
        return fail("describe", plim_error_message(err));
    printf("describe | provider %s, tier %s, projects %s, snippet grants %s, minimum isolation "
           "checked for every run\n",
           plim_info_provider(info), plim_tier_name(plim_info_tier(info)),
           plim_info_supports(info, PLIM_KIND_PROJECT) ? "yes" : "no",
           plim_info_supports_grant(info, PLIM_KIND_JAVASCRIPT) ? "yes" : "no");
    bool right =
        strcmp(plim_info_provider(info), "wasm") == 0 && plim_info_tier(info) == PLIM_TIER_PROCESS;
    plim_info_free(info);
    return right || fail("describe", "this is not the provider that was started");
}

static plim_status run_with_floor(plim_sandbox *sandbox, plim_tier floor, plim_result **result,
                                  plim_error *err)
{
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.timeout_ms = 5000, .minimum_isolation = floor},
        .code = bytes_of(snippet),
    };
    return plim_run_javascript(sandbox, &request, interrupted, result, err);
}

static bool run(plim_sandbox *sandbox, plim_error *err)
{
    plim_result *result;
    if (run_with_floor(sandbox, PLIM_TIER_PROCESS, &result, err) != PLIM_OK)
        return fail("run", plim_error_message(err));
    plim_bytes out = plim_result_stdout(result);
    bool right = plim_result_exit_code(result) == 0 && out.len == sizeof(expected) - 1 &&
                 memcmp(out.data, expected, out.len) == 0;
    printf("run      | exit %" PRId32 ", tier %s, %" PRId64 " ms: %.*s",
           plim_result_exit_code(result), plim_result_isolation(result),
           plim_result_duration_ms(result), (int)out.len, out.data);
    plim_result_free(result);
    return right || fail("run", "the output is not the sum");
}

static bool floor_refused(plim_sandbox *sandbox, plim_error *err)
{
    plim_result *result;
    plim_status status = run_with_floor(sandbox, PLIM_TIER_KERNEL, &result, err);
    plim_result_free(result);
    if (status == PLIM_OK)
        return fail("floor", "a run below its floor was answered");
    if (status != PLIM_E_INSUFFICIENT_ISOLATION ||
        plim_error_not_dispatched(err) != PLIM_ND_ISOLATION || plim_may_have_run(err))
        return fail("floor", plim_error_message(err));
    printf("floor    | kernel asked: refused before dispatch (%s, reason %s)\n",
           plim_error_code(err), plim_not_dispatched_name(plim_error_not_dispatched(err)));
    return true;
}

static bool stranger_refused(const local_daemon *daemon, plim_error *err)
{
    plim_sandbox *stranger;
    plim_info *info;
    if (!connect_to(daemon, "not-the-token", &stranger, err))
        return fail("auth", plim_error_message(err));
    plim_status status = plim_describe(stranger, interrupted, &info, err);
    plim_sandbox_free(stranger);
    plim_info_free(info);
    if (status == PLIM_OK)
        return fail("auth", "a token nobody issued was accepted");
    if (strcmp(plim_error_code(err), "unauthenticated") != 0)
        return fail("auth", plim_error_message(err));
    printf("auth     | a token nobody issued: refused (%s)\n", plim_error_code(err));
    return true;
}

static bool show(const local_daemon *daemon, plim_error *err)
{
    plim_sandbox *sandbox;
    printf("auth     | %s: one caller, of whose token it stores only the SHA-256\n",
           strrchr(daemon->clients, '/') + 1);
    if (!connect_to(daemon, daemon->token, &sandbox, err))
        return fail("connect", plim_error_message(err));
    bool done = describe(sandbox, err) && run(sandbox, err) && floor_refused(sandbox, err);
    plim_sandbox_free(sandbox);
    return done && stranger_refused(daemon, err);
}

int main(int argc, char **argv)
{
    const char *bin = "build/bin";
    if (argc == 3 && strcmp(argv[1], "-bin") == 0) {
        bin = argv[2];
    } else if (argc != 1) {
        fprintf(stderr,
                "usage: daemon [-bin FOLDER]   FOLDER holds plimsoll and plimsolld (build/bin)\n");
        return 2;
    }
    local_daemon daemon;
    plim_error err = PLIM_ERROR_INIT;
    interrupted = plim_cancel_new();
    if (!interrupted)
        return fail("start", "out of memory") ? 0 : 1;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    bool done = local_daemon_start(&daemon, bin, "wasm", STDERR_FILENO)
                    ? show(&daemon, &err)
                    : fail("start", daemon.problem);
    local_daemon_stop(&daemon);
    plim_error_clear(&err);
    plim_cancel_free(interrupted);
    if (fflush(stdout) != 0 || ferror(stdout))
        return fail("output", "cannot write to stdout") ? 0 : 1;
    return done ? 0 : 1;
}
