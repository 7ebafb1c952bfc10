/*
 * For tests that run code in real sandboxes: opening a handle, running a snippet, and counting the
 * processes that it left. One thread at a time, but for run_snippet.
 */
#ifndef TESTS_UNIT_SANDBOX_SUPPORT_H
#define TESTS_UNIT_SANDBOX_SUPPORT_H

#include "unit.h"

#include <sys/types.h>

/* A slow machine under a sanitizer: what takes longer than this hangs. */
enum { HANG_MS = 60000 };

/* Is there a worker host to start? Without one a test prints why and skips. */
#define NEEDS_WORKER()                                                                             \
    do {                                                                                           \
        const char *missing = worker_missing();                                                    \
        if (missing) {                                                                             \
            printf("skip: %s\n", missing);                                                         \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

const char *worker_missing(void);

/* A handle on `wasm` with these settings ("NAME=value", ending with NULL) and no environment. */
plim_sandbox *open_wasm(const char *const *settings);

/* Run with a timeout; the result, never NULL: an error fails the test. */
plim_result *run_snippet(plim_sandbox *sandbox, const char *code, int64_t timeout_ms);

/* Run and compare: exit code, exact stdout (NULL: any), beginning of stderr (NULL: any, "": none).
 */
#define expect_run(sandbox, code, exit_code, out, err)                                             \
    expect_run_at((sandbox), (code), (exit_code), (out), (err), __FILE__, __LINE__)
void expect_run_at(plim_sandbox *sandbox, const char *code, int exit_code, const char *out,
                   const char *err, const char *file, int line);

/* Child processes of `parent` that have not been reaped, zombies too; up to `most`. Their number.
 */
size_t children_of(pid_t parent, pid_t *out, size_t most);

/* The worker hosts of this program, and the workers of all of them. */
size_t host_pids(pid_t *out, size_t most);
size_t worker_pids(pid_t *out, size_t most);

/* Wait until this program has `count` children; false when it has not in HANG_MS. */
bool await_children(size_t count);

/* One line "Name:\tvalue" of /proc/<pid>/status, the value; "" when it cannot be read. */
const char *status_of(pid_t pid, const char *name, char *out, size_t size);

/* Wait until a process has ended; false when it has not in HANG_MS. A zombie has ended: whoever
 * adopted it reaps it in its own time. */
bool await_end(pid_t pid);

/* Open descriptors of this process, and its resident memory in KiB. */
size_t open_descriptors(void);

/* Resident memory of this process in KiB; 0 under a sanitizer, which keeps what was freed. */
size_t resident_kb(void);

void sleep_ms(int ms);

#endif
