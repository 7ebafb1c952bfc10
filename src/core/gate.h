/*
 * The gate in front of a provider: the order of checks of a run, once, for the library and the
 * daemon. Shared by all threads. Floor, then software rule, then admission, then dispatch; a
 * refusal before dispatch is marked.
 */
#ifndef CORE_GATE_H
#define CORE_GATE_H

typedef struct core_gate core_gate;

/* The limits that settings give a provider, memory budget applied. Errors: PLIM_E_INVALID_OPTION.
 */
bool core_limits_from_settings(const core_settings *settings, const core_provider_ops *ops,
                               core_limits *out, plim_error *err);

/* Takes the provider. NULL when out of memory; the provider is then the caller's again. */
core_gate *core_gate_new(core_provider *provider, const core_limits *limits,
                         plim_tier min_isolation) PLIM_MUST_USE;
void core_gate_free(core_gate *gate);

/* Preflight, smoke test, operator's minimum. Errors are marked `environment`, `isolation` or
 * `unsupported`. */
bool core_gate_ready(core_gate *gate, const run_ctx *ctx, plim_error *err);

/* The provider's cheap check alone, never the smoke test: safe on a path that anybody may poll. */
bool core_gate_preflight(core_gate *gate, const run_ctx *ctx, plim_error *err);

/* Run a request that core_validate accepted, for `principal`. See core_provider_ops.run. The second
 * form says whether the provider was asked: a call that counts and has an audit line. */
bool core_gate_run(core_gate *gate, const core_request *request, plim_bytes principal,
                   const run_ctx *ctx, plim_result **out, plim_error *err);

bool core_gate_dispatch(core_gate *gate, const core_request *request, plim_bytes principal,
                        const run_ctx *ctx, plim_result **out, bool *dispatched, plim_error *err);

/* Remove what a crashed program left behind, where the provider can; `*removed` says how much. */
bool core_gate_reconcile(core_gate *gate, const run_ctx *ctx, size_t *removed, plim_error *err);

void core_gate_describe(core_gate *gate, core_description *out);

/*
 * Before the startup test: can the request be met? False, refused, where floor or rule cannot hold
 * whatever that test shows. A provider whose evidence comes from it is not judged by what it states
 * without; core_gate_run compares again.
 */
bool core_gate_foresee(core_gate *gate, const core_request *request, plim_error *err);
void core_gate_counts(core_gate *gate, core_admission_counts *out);

#endif
