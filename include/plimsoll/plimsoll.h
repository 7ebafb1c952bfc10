/*
 * libplimsoll: run untrusted code in a sandbox, and know how strong the sandbox was.
 *
 * The complete minimal program:
 *
 *     #include <plimsoll/plimsoll.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         plim_error err = PLIM_ERROR_INIT;
 *         plim_sandbox *sandbox = NULL;
 *         plim_result *result = NULL;
 *         plim_setting wasm = {PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")};
 *         plim_local_options options = {sizeof(options), &wasm, 1, false};
 *         plim_javascript_request request = {
 *             .size = sizeof(request),
 *             .options = {.timeout_ms = 2000, .minimum_isolation = PLIM_TIER_PROCESS},
 *             .code = PLIM_LIT("console.log(6 * 7)"),
 *         };
 *
 *         if (plim_sandbox_local(&options, &sandbox, &err) == PLIM_OK &&
 *             plim_run_javascript(sandbox, &request, NULL, &result, &err) == PLIM_OK) {
 *             plim_bytes out = plim_result_stdout(result);
 *             printf("%s: %.*s", plim_result_isolation(result), (int)out.len, out.data);
 *         } else {
 *             fprintf(stderr, "%s: %s\n",
 *                     plim_may_have_run(&err) ? "it may have run" : "nothing ran",
 *                     plim_error_message(&err));
 *         }
 *         plim_result_free(result);
 *         plim_sandbox_free(sandbox);
 *         plim_error_clear(&err);
 *         return 0;
 *     }
 *
 * It prints `process: 42`. Build it with `cc prog.c $(pkg-config --cflags --libs plimsoll)`.
 *
 * types.h has the plain values, error.h the one error, request.h what to run, result.h what came
 * back, sandbox.h the handle, client.h a daemon behind the same handle, record.h what an answer
 * proves. All of it can be used from C11 and from C++.
 */
#ifndef PLIMSOLL_PLIMSOLL_H
#define PLIMSOLL_PLIMSOLL_H

#include <plimsoll/client.h>
#include <plimsoll/error.h>
#include <plimsoll/placement.h>
#include <plimsoll/record.h>
#include <plimsoll/request.h>
#include <plimsoll/result.h>
#include <plimsoll/sandbox.h>
#include <plimsoll/types.h>
#include <plimsoll/version.h>

#endif
