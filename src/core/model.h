/*
 * Requests and results inside the program. A core_request borrows the public request structs, so
 * that the library and the daemon hand the same thing to a provider without copying; a plim_result
 * owns an arena that holds all of it.
 */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

/* A snippet, project or module request; exactly the member that `kind` names is set. */
typedef struct core_request {
    plim_kind kind;
    const plim_run_options *options;
    struct core_slot *slot; /* its capacity; NULL before admission */
    union {
        const plim_javascript_request *javascript;
        const plim_project_request *project;
        const plim_module_request *module;
    };
} core_request;

/*
 * Copy a sized struct of the caller's over the current layout, `size` bytes that hold the defaults.
 * A smaller one is older and keeps the defaults behind it; a larger one asks for what is not known
 * here. NULL copies nothing. False: refused, marked `request`.
 */
bool core_read_sized(void *to, size_t size, const void *from, plim_error *err) PLIM_MUST_USE;

/* The grant profile a request names, or no bytes. */
plim_bytes core_request_grant_profile(const core_request *request);

/* What the public accessors give out is what a result holds. */
typedef plim_step core_step_result;
typedef plim_artifact core_artifact;

/* status >= 0: completed steps, with `count` = width x status outputs, step-major; < 0: the row
 * failed. */
typedef struct core_module_row {
    int32_t status;
    const double *outputs;
    size_t count;
} core_module_row;

/* A provider fills it through core_result_new's arena; text members are never NULL. */
struct plim_result {
    base_arena *arena;
    plim_kind kind;
    const char *provider, *isolation, *environment, *software_identity, *policy, *limit_reached;
    plim_tier tier;
    int64_t duration_ms, duration_ns;
    const struct plim_record *record; /* that was checked, in the arena; NULL for a local run */

    /* snippets and cells; out and err also of modules */
    plim_bytes out, err;
    bool out_truncated, err_truncated, timed_out;
    int32_t exit_code;
    bool interpreter_started, interpreter_ended;

    /* projects and modules */
    plim_outcome outcome;
    plim_bytes outcome_detail;
    const core_step_result *steps;
    size_t step_count;
    const core_artifact *artifacts;
    size_t artifact_count;
    bool artifacts_truncated;
    const core_module_row *rows;
    size_t row_count;
    int32_t width;
};

/* At most this much in one result: every cap of the contract together stays below the 32 MiB of a
 * serialized answer. */
enum { CORE_RESULT_BYTES_MAX = 48 * 1024 * 1024 };

/* An empty result of a kind; NULL when out of memory. Free with plim_result_free. */
plim_result *core_result_new(plim_kind kind) PLIM_MUST_USE;
BASE_CLEANUP_FN(plim_result, plim_result_free, core_result_freep)

/*
 * A software rule: is it well formed (the error says what is not), does it allow an identity, and
 * its ID as records and answers state it: "" without a rule, `exact:<identity>`, or
 * `approved:sha256:<hex>` over the sorted identities.
 */
enum { CORE_RULE_ID_MAX = 16 + PLIM_SOFTWARE_IDENTITY_BYTES_MAX + 64 };
bool core_rule_valid(const plim_software_rule *rule, plim_error *err);
bool core_rule_allows(const plim_software_rule *rule, plim_bytes identity);
bool core_rule_id(const plim_software_rule *rule, char out[CORE_RULE_ID_MAX]) PLIM_MUST_USE;

#endif
