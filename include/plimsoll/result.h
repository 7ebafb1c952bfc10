/*
 * What came back. A result is immutable, belongs to the caller and is freed with plim_result_free;
 * everything an accessor returns is borrowed from it. An accessor of another kind than the result's
 * returns 0, false or no bytes. A guest's own failure (an exception, a non-zero exit, a timeout) is
 * a result, never an error.
 */
#ifndef PLIMSOLL_RESULT_H
#define PLIMSOLL_RESULT_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plim_result plim_result;

typedef enum {
    PLIM_KIND_NONE = 0,
    PLIM_KIND_JAVASCRIPT,
    PLIM_KIND_PROJECT,
    PLIM_KIND_MODULE,
    PLIM_KIND_CELL
} plim_kind;

/** The name of a kind, e.g. `"javascript"`; `""` for NONE. */
PLIM_API const char *plim_kind_name(plim_kind kind);

/** How a project or a module run ended; numbered as on the wire. */
typedef enum {
    PLIM_OUTCOME_UNSPECIFIED = 0,
    PLIM_OUTCOME_COMPLETED,
    PLIM_OUTCOME_SETUP_FAILED,
    PLIM_OUTCOME_TIMED_OUT,
    PLIM_OUTCOME_PROTOCOL_ERROR
} plim_outcome;

/** The name of an outcome, e.g. `"timed_out"`. */
PLIM_API const char *plim_outcome_name(plim_outcome outcome);

/** @name Evidence: what ran it */
/**@{*/
PLIM_API plim_kind plim_result_kind(const plim_result *result);
/** Provider, e.g. `"wasm"`. */
PLIM_API const char *plim_result_provider(const plim_result *result);
/** The tier the code ran behind, and its name as stated. Configuration and evidence, not
 * attestation. */
PLIM_API plim_tier plim_result_tier(const plim_result *result);
PLIM_API const char *plim_result_isolation(const plim_result *result);
/** Content-addressed identity of the engine or image, e.g. `"quickjs-wasm:sha256:<hex>"`; `""` when
 * not stated. */
PLIM_API const char *plim_result_environment(const plim_result *result);
/** Identity of the executable image that a software rule names; `""` when the provider states none.
 */
PLIM_API const char *plim_result_software_identity(const plim_result *result);
/** Wall time of the run in milliseconds, and in nanoseconds (0 when only milliseconds are known).
 */
PLIM_API int64_t plim_result_duration_ms(const plim_result *result);
PLIM_API int64_t plim_result_duration_ns(const plim_result *result);
/**@}*/

/** @name Snippets and cells (stdout and stderr also of modules) */
/**@{*/
/** Output bytes as the guest wrote them, up to the provider's cap; not necessarily UTF-8, may hold
 * NUL. */
PLIM_API plim_bytes plim_result_stdout(const plim_result *result);
PLIM_API plim_bytes plim_result_stderr(const plim_result *result);
/** True when at least one byte of the stream was dropped. */
PLIM_API bool plim_result_stdout_truncated(const plim_result *result);
PLIM_API bool plim_result_stderr_truncated(const plim_result *result);
/** 0-255; 124 with `timed_out` when the time was up. */
PLIM_API int32_t plim_result_exit_code(const plim_result *result);
PLIM_API bool plim_result_timed_out(const plim_result *result);
/** Which limits of the sandbox are known to have ended or refused work: `""`, or of `memory`,
 * `pids`, `disk`, `output` and `cpu` those that there is evidence for, in this order, joined by
 * commas. Never guessed from an exit code. */
PLIM_API const char *plim_result_limit_reached(const plim_result *result);
/**@}*/

/** @name Projects */
/**@{*/
/** How it ended (of a module run too), and one sentence on why, which can quote the guest. */
PLIM_API plim_outcome plim_result_outcome(const plim_result *result);
PLIM_API plim_bytes plim_result_outcome_detail(const plim_result *result);

/** A step that ran: what it wrote and how it ended. Borrowed from the result. */
typedef struct plim_step {
    plim_bytes command, out, err;
    int32_t exit_code; /**< 124 with `timed_out` */
    bool timed_out, out_truncated, err_truncated;
    int64_t duration_ms;
    const char *limit_reached; /**< as plim_result_limit_reached */
} plim_step;

/** A file that was brought back. Borrowed from the result. */
typedef struct plim_artifact {
    plim_bytes path, content;
} plim_artifact;

/** The steps that ran, in order; past the end all is zero or `""`. */
PLIM_API size_t plim_result_step_count(const plim_result *result);
PLIM_API plim_step plim_result_step(const plim_result *result, size_t index);
/** The files brought back, in the order asked for; all zero past the end. */
PLIM_API size_t plim_result_artifact_count(const plim_result *result);
PLIM_API plim_artifact plim_result_artifact(const plim_result *result, size_t index);
/** True when at least one byte of an artifact was dropped. */
PLIM_API bool plim_result_artifacts_truncated(const plim_result *result);
/**@}*/

/** @name Modules */
/**@{*/
/** Outputs of one step of one row. */
PLIM_API int32_t plim_result_width(const plim_result *result);
/** One row for each row of the request, in order; none unless the outcome is COMPLETED. */
PLIM_API size_t plim_result_row_count(const plim_result *result);
/** `*status` >= 0: so many steps were completed, and `*values` are `*count` = width x status
 * outputs, step by step; below 0: the row failed. Past the end all are 0 or NULL. Borrowed. */
PLIM_API void plim_result_row(const plim_result *result, size_t index, int32_t *status,
                              const double **values, size_t *count);
/**@}*/

/** @name Cells */
/**@{*/
/** The interpreter was started for this cell: nothing earlier exists in it. */
PLIM_API bool plim_result_interpreter_started(const plim_result *result);
/** It has ended: the next cell starts fresh. */
PLIM_API bool plim_result_interpreter_ended(const plim_result *result);
/**@}*/

/** Release a result; NULL is allowed. */
PLIM_API void plim_result_free(plim_result *result);

#ifdef __cplusplus
}
#endif

#endif
