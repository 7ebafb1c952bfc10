/*
 * Placement: one call over several sandboxes. A pool is a library, not a service: it is built from
 * handles that the caller opened, so every daemon sees the caller's own credential, and daemon and
 * client checks stay as they are. A pool may be shared by any number of threads; it borrows its
 * handles, which must outlive it.
 *
 * A request is filtered against what each sandbox says of itself, ranked, and sent to one after
 * another only while the answer is a promise that nothing ran there.
 */
#ifndef PLIMSOLL_PLACEMENT_H
#define PLIMSOLL_PLACEMENT_H

#include <plimsoll/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How long a description is used when no other number is given, in milliseconds. */
#define PLIM_POOL_TTL_MS 60000

typedef struct plim_pool plim_pool;

/** One sandbox of a pool, under a name that is unique in it and not blank. */
typedef struct plim_backend {
    plim_bytes name;
    plim_sandbox *sandbox;
} plim_backend;

/**
 * A pool of 1 or more backends, in the order of preference. Names are copied. `ttl_ms` <= 0 takes
 * PLIM_POOL_TTL_MS. Sends nothing. Errors: PLIM_E_INVALID_OPTION.
 */
PLIM_API plim_status plim_pool_new(const plim_backend *backends, size_t count, int64_t ttl_ms,
                                   plim_pool **out, plim_error *err);

/** Calls in flight must have returned. NULL is allowed. */
PLIM_API void plim_pool_free(plim_pool *pool);

/** A backend that fits a request, and what it says of itself. Borrowed for one comparison. */
typedef struct plim_candidate {
    const char *name;
    const plim_info *info;
} plim_candidate;

/** Negative when `a` goes before `b`, positive when after, 0 to keep the pool's order. */
typedef int plim_prefer_fn(const plim_candidate *a, const plim_candidate *b, void *ctx);

/** What a request asks of the sandbox that runs it. Zero in every member but `size` asks nothing.
 */
typedef struct plim_requirement {
    size_t size;
    /** Only the backend of this name; when it does not fit, no other is tried. */
    plim_bytes backend;
    /** Only this provider, e.g. `wasm`. */
    plim_bytes provider;
    /** A floor; the stronger of this and the request's filters and is sent. */
    plim_tier minimum_isolation;
    /** Exactly this environment identity: stated before, and in the record afterwards. */
    plim_bytes environment;
    /** A rule; its intersection with the request's filters and is sent. */
    plim_software_rule software;
    /** The request carries a grant. */
    bool grant_profile;
    /** Ranks the backends that fit; NULL for the pool's order. */
    plim_prefer_fn *prefer;
    void *prefer_ctx;
} plim_requirement;

/** Which backend was used, and which refused before it. */
typedef struct plim_choice plim_choice;

/** A backend that refused: nothing ran there. Borrowed from the choice. */
typedef struct plim_retried {
    const char *backend;
    plim_not_dispatched reason;
    const plim_error *error;
} plim_retried;

/** The name of the backend whose result or error was returned; `""` when the request was sent to
 * none, and for NULL. */
PLIM_API const char *plim_choice_backend(const plim_choice *choice);
PLIM_API size_t plim_choice_retried_count(const plim_choice *choice);
/** The refusal `index`, in the order they came; all zero past the end. */
PLIM_API plim_retried plim_choice_retried(const plim_choice *choice, size_t index);
PLIM_API void plim_choice_free(plim_choice *choice);

/**
 * Run on the first backend that fits and does not refuse. `requirement`, `cancel`, `choice` and
 * `err` may be NULL; `request` is not changed. `*choice` is set whenever the request was placed, on
 * an error too, and is the caller's to free. Errors besides those of the run itself:
 * PLIM_E_NO_BACKEND (marked `unsupported`, naming every backend and why), PLIM_E_INVALID_REQUEST
 * (the floors or rules do not go together), PLIM_E_ENVIRONMENT_MISMATCH (it ran elsewhere than
 * `environment` says: `*out` is the result all the same).
 */
PLIM_API plim_status plim_pool_run_javascript(plim_pool *pool,
                                              const plim_javascript_request *request,
                                              const plim_requirement *requirement,
                                              plim_cancel *cancel, plim_result **out,
                                              plim_choice **choice, plim_error *err);
PLIM_API plim_status plim_pool_run_project(plim_pool *pool, const plim_project_request *request,
                                           const plim_requirement *requirement, plim_cancel *cancel,
                                           plim_result **out, plim_choice **choice,
                                           plim_error *err);
PLIM_API plim_status plim_pool_run_module(plim_pool *pool, const plim_module_request *request,
                                          const plim_requirement *requirement, plim_cancel *cancel,
                                          plim_result **out, plim_choice **choice, plim_error *err);

/** Describe all backends at once and keep every outcome. The first error, in the pool's order. */
PLIM_API plim_status plim_pool_refresh(plim_pool *pool, plim_cancel *cancel, plim_error *err);

/** What the pool would go by now for the backend of this name, asking it if need be. `*out` is the
 * caller's. PLIM_E_INVALID_OPTION for a name that the pool does not have. */
PLIM_API plim_status plim_pool_describe(plim_pool *pool, plim_bytes name, plim_cancel *cancel,
                                        plim_info **out, plim_error *err);

#ifdef __cplusplus
}
#endif

#endif
