/*
 * What a provider offers: one vtable, one registration. A provider knows nothing of callers beyond
 * the opaque principal of a run. All operations may be called from any thread at the same time, but
 * for open and free.
 */
#ifndef CORE_PROVIDER_H
#define CORE_PROVIDER_H

typedef struct core_provider core_provider;

typedef struct core_environment {
    char identity[160], software_identity[320];
    int64_t max_timeout_ms;
    bool javascript, python; /* interpreters proven at start */
} core_environment;

/* What the provider says of itself now. Kinds are indexed by plim_kind. */
typedef struct core_description {
    const char *provider; /* static */
    plim_tier tier;
    bool supports[PLIM_KIND_CELL + 1], supports_grant[PLIM_KIND_CELL + 1], supports_sessions;
    core_environment environment[PLIM_KIND_CELL + 1];
    int64_t memory_mb, pids, disk_mb;
    double cpus;
    char policy[128];
} core_description;

typedef struct core_provider_ops {
    const char *name; /* as SANDBOX_PROVIDER names it */
    const char *summary;
    bool on_host; /* its memory is this machine's: SANDBOX_TOTAL_MEMORY_MB counts */
    int64_t default_memory_mb;
    plim_tier provable; /* the strongest that its startup test can show; none: it shows nothing */

    /*
     * Build from settings; starts nothing. A configuration the provider cannot honour does not fail
     * here: it is kept, and ready and run refuse with it, so that a floor is still compared first.
     */
    bool (*open)(const core_settings *settings, core_provider **out, plim_error *err);
    void (*free)(core_provider *provider);

    /* Cheap, bounded, repeatable check of configuration and dependencies. */
    bool (*preflight)(core_provider *provider, const run_ctx *ctx, plim_error *err);
    /* Throwaway runs that prove the bounds. May be NULL. */
    bool (*smoke_test)(core_provider *provider, const run_ctx *ctx, plim_error *err);

    /* Remove sandboxes whose declared lifetime is long over, never one that may still be used: safe
     * beside other programs on the same machine. May be NULL. */
    bool (*reconcile)(core_provider *provider, const run_ctx *ctx, size_t *removed,
                      plim_error *err);

    void (*describe)(core_provider *provider, core_description *out);

    /*
     * Run a validated request. The provider compares floor and software rule again with what it is
     * about to launch. True: `*out` is the result. False: an error, marked only when nothing of the
     * request ran. A provider that removes its sandbox after the answer holds `request->slot`
     * until the sandbox is gone.
     */
    bool (*run)(core_provider *provider, const core_request *request, plim_bytes principal,
                const run_ctx *ctx, plim_result **out, plim_error *err);
} core_provider_ops;

/* Every provider starts with this. */
struct core_provider {
    const core_provider_ops *ops;
};

/* The checks 10 and 11 of a run: floor, then software rule, against evidence. False: refused. */
bool core_check_evidence(const core_description *description, const core_request *request,
                         plim_error *err);

#endif
