/*
 * A handle on a sandbox for tests in other languages: opened from the environment, it runs one
 * snippet for each line of JSON on stdin, {"code": text, "timeout_ms": n, "floor": tier}, and
 * answers each with one line on stdout. It ends at the end of its input, or on {"quit": true}.
 */
#include <plimsoll/plimsoll.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* Guest output need not be text: it travels as hexadecimal digits. */
static json_t *hex_of(plim_bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * bytes.len + 1);
    if (!text)
        abort();
    for (size_t i = 0; i < bytes.len; i++) {
        text[2 * i] = digits[(unsigned char)bytes.data[i] >> 4];
        text[2 * i + 1] = digits[(unsigned char)bytes.data[i] & 15];
    }
    json_t *hex = json_stringn(text, 2 * bytes.len);
    free(text);
    return hex;
}

static json_t *answer_of(plim_status status, const plim_error *err, const plim_result *result)
{
    if (status != PLIM_OK)
        return json_pack("{s:s, s:s, s:s, s:s, s:b}", "status", plim_status_name(status), "code",
                         plim_error_code(err), "reason",
                         plim_not_dispatched_name(plim_error_not_dispatched(err)), "message",
                         plim_error_message(err), "may_have_run", plim_may_have_run(err));
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:o, s:o, s:I}", "status", "ok", "provider",
        plim_result_provider(result), "isolation", plim_result_isolation(result), "exit_code",
        plim_result_exit_code(result), "timed_out", plim_result_timed_out(result),
        "stdout_truncated", plim_result_stdout_truncated(result), "stderr_truncated",
        plim_result_stderr_truncated(result), "stdout", hex_of(plim_result_stdout(result)),
        "stderr", hex_of(plim_result_stderr(result)), "duration_ms",
        (json_int_t)plim_result_duration_ms(result));
}

static void serve(plim_sandbox *sandbox, json_t *asked)
{
    json_t *code = json_object_get(asked, "code");
    const char *floor = json_string_value(json_object_get(asked, "floor"));
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.timeout_ms = json_integer_value(json_object_get(asked, "timeout_ms"))},
        .code = {json_string_value(code), json_string_length(code)},
    };
    if (floor && !plim_tier_from_name(plim_bytes_of(floor), &request.options.minimum_isolation))
        request.options.minimum_isolation = PLIM_TIER_NONE; /* refused, as any such name */
    plim_result *result = NULL;
    plim_error err = PLIM_ERROR_INIT;
    plim_status status = plim_run_javascript(sandbox, &request, NULL, &result, &err);
    json_t *answer = answer_of(status, &err, result);
    if (!answer || json_dumpf(answer, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF ||
        fflush(stdout) == EOF)
        abort();
    json_decref(answer);
    plim_result_free(result);
    plim_error_clear(&err);
}

int main(void)
{
    plim_sandbox *sandbox = NULL;
    plim_error err = PLIM_ERROR_INIT;
    if (plim_sandbox_local(NULL, &sandbox, &err) != PLIM_OK) {
        fprintf(stderr, "%s\n", plim_error_message(&err));
        return 1;
    }
    for (;;) {
        json_t *asked = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
        bool quit = !json_object_get(asked, "code");
        if (!quit)
            serve(sandbox, asked);
        json_decref(asked);
        if (quit)
            break;
    }
    plim_sandbox_free(sandbox);
    return 0;
}
