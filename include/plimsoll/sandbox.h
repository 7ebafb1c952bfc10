/*
 * The sandbox handle: open it, make it ready, run, free it. A handle may be shared by any number of
 * threads; results and errors belong to one. The library starts its own helper thread and processes
 * for a local provider, installs no signal handler, prints nothing and never ends the process.
 *
 * Both `out` and `err` conventions: on entry `*out` is set to NULL and `*err` is cleared. `err` may
 * be NULL.
 */
#ifndef PLIMSOLL_SANDBOX_H
#define PLIMSOLL_SANDBOX_H

#include <plimsoll/error.h>
#include <plimsoll/request.h>
#include <plimsoll/result.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plim_sandbox plim_sandbox;

/** One setting by the name of its environment variable, e.g. {PLIM_LIT("SANDBOX_MEMORY_MB"),
 * PLIM_LIT("64")}. */
typedef struct plim_setting {
    plim_bytes name;
    plim_bytes value;
} plim_setting;

/** How to open a local provider. NULL or all zero: everything from the process environment. */
typedef struct plim_local_options {
    size_t size;
    /** Settings that win over the environment's; docs/configuration.md lists the names. */
    const plim_setting *settings;
    size_t setting_count;
    /** Do not look at the process environment at all: what `settings` does not name takes its
     * default. */
    bool ignore_environment;
} plim_local_options;

/** A handle by which another thread stops a call. Create, hand to one or more calls, fire, free
 * after they returned. */
typedef struct plim_cancel plim_cancel;
PLIM_API plim_cancel *plim_cancel_new(void);
/** Stop the calls that hold this handle, now and later. Any thread, any number of times. */
PLIM_API void plim_cancel_fire(plim_cancel *cancel);
/** Was it fired? Any thread. */
PLIM_API bool plim_cancel_fired(const plim_cancel *cancel);
PLIM_API void plim_cancel_free(plim_cancel *cancel);

/**
 * Open a provider of this process. Reads the settings and starts nothing. Without SANDBOX_PROVIDER
 * the provider is `disabled`: the handle works and every run is refused (reason `unsupported`).
 * Errors: PLIM_E_INVALID_OPTION for a malformed setting or an unknown provider, naming it.
 */
PLIM_API plim_status plim_sandbox_local(const plim_local_options *options, plim_sandbox **out,
                                        plim_error *err);

/**
 * Start what the provider needs and prove by throwaway runs that it enforces its bounds. Takes well
 * under a second for `wasm`. The first run does the same when this was not called. Calling it again
 * checks again. Errors: PLIM_E_INSUFFICIENT_ISOLATION, PLIM_E_INVALID_OPTION, PLIM_E_REMOTE;
 * always marked: no code of yours ran.
 */
PLIM_API plim_status plim_sandbox_ready(plim_sandbox *sandbox, plim_cancel *cancel,
                                        plim_error *err);

/**
 * Run one snippet and wait for its end. `cancel` may be NULL.
 * PLIM_OK: `*out` is the result, whatever the guest did. Otherwise plim_may_have_run tells whether
 * anything ran.
 */
PLIM_API plim_status plim_run_javascript(plim_sandbox *sandbox,
                                         const plim_javascript_request *request,
                                         plim_cancel *cancel, plim_result **out, plim_error *err);
PLIM_API plim_status plim_run_project(plim_sandbox *sandbox, const plim_project_request *request,
                                      plim_cancel *cancel, plim_result **out, plim_error *err);
PLIM_API plim_status plim_run_module(plim_sandbox *sandbox, const plim_module_request *request,
                                     plim_cancel *cancel, plim_result **out, plim_error *err);

/** Release the handle. Waits for nothing: calls in flight in other threads must have returned. NULL
 * is allowed. */
PLIM_API void plim_sandbox_free(plim_sandbox *sandbox);

/** @name What a sandbox says of itself: discovery, never authority. A run checks everything again.
 */
/**@{*/
typedef struct plim_info plim_info;

/** One environment that runs a kind of request. Borrowed from the info. */
typedef struct plim_environment {
    const char *identity; /**< e.g. `"quickjs-wasm:sha256:<hex>"`; `""` when not stated */
    const char
        *software_identity; /**< what a software rule is compared with; `""` when not stated */
    int64_t max_timeout_ms; /**< 0: unsupported or not stated */
} plim_environment;

PLIM_API plim_status plim_describe(plim_sandbox *sandbox, plim_cancel *cancel, plim_info **out,
                                   plim_error *err);
PLIM_API const char *plim_info_provider(const plim_info *info);
PLIM_API plim_tier plim_info_tier(const plim_info *info);
/** Can it run this kind, and may that kind carry a grant? */
PLIM_API bool plim_info_supports(const plim_info *info, plim_kind kind);
PLIM_API bool plim_info_supports_grant(const plim_info *info, plim_kind kind);
PLIM_API bool plim_info_supports_sessions(const plim_info *info);
PLIM_API plim_environment plim_info_environment(const plim_info *info, plim_kind kind);
/** Configured resource limits of one run; 0: the provider's default. */
PLIM_API int64_t plim_info_memory_mb(const plim_info *info);
PLIM_API double plim_info_cpus(const plim_info *info);
PLIM_API int64_t plim_info_pids(const plim_info *info);
PLIM_API int64_t plim_info_disk_mb(const plim_info *info);
/** A copy of its own, or NULL when memory is out. */
PLIM_API plim_info *plim_info_copy(const plim_info *info);
PLIM_API void plim_info_free(plim_info *info);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif
