/*
 * What to run. Every request struct starts with `size`, set to sizeof of itself; zero in every
 * other member means the default. All bytes are borrowed for the duration of the call that takes
 * the request. Limits are those of the contract; a request outside them is refused before anything
 * is dispatched (reason `request`).
 */
#ifndef PLIMSOLL_REQUEST_H
#define PLIMSOLL_REQUEST_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Limits of a request, in bytes of UTF-8 or in elements. The same numbers hold in a daemon. */
#define PLIM_CODE_BYTES_MAX              262144
#define PLIM_FILES_MAX                   200
#define PLIM_FILE_CONTENT_BYTES_MAX      4194304 /* all files of one request together */
#define PLIM_STEPS_MAX                   20
#define PLIM_STEP_BYTES_MAX              16384
#define PLIM_ARTIFACTS_MAX               100
#define PLIM_PATH_BYTES_MAX              1024
#define PLIM_SOFTWARE_IDENTITIES_MAX     32
#define PLIM_SOFTWARE_IDENTITY_BYTES_MAX 256
#define PLIM_GRANT_PROFILE_BYTES_MAX     128
#define PLIM_TRACE_ID_BYTES_MAX          64
#define PLIM_MODULE_ROWS_MAX             100000
#define PLIM_MODULE_ROW_VALUES_MAX       64
#define PLIM_MODULE_STEPS_MAX            1000000
#define PLIM_MODULE_RESULT_BYTES_MAX     8388608

typedef enum { PLIM_RULE_NONE = 0, PLIM_RULE_EXACT, PLIM_RULE_APPROVED } plim_rule_mode;

/**
 * Which software may run the request: none asked; exactly one identity; or one of 1-32 approved
 * ones. An identity is 1-256 bytes of `[A-Za-z0-9._:/@+-]`, e.g.
 * `oci-manifest:linux/amd64@sha256:<hex>`. A provider that cannot state a software identity meets
 * no rule.
 */
typedef struct plim_software_rule {
    plim_rule_mode mode;
    const plim_bytes *identities;
    size_t count;
} plim_software_rule;

/** What every kind of request has in common. */
typedef struct plim_run_options {
    /** Wall-clock budget in milliseconds; 0 or less takes the provider's default, more than its
     * ceiling is cut to it. */
    int64_t timeout_ms;
    /** The weakest tier that may run this; PLIM_TIER_UNKNOWN asks for none. */
    plim_tier minimum_isolation;
    plim_software_rule software;
    /** 1-64 bytes of `[A-Za-z0-9._:-]` that name the request in a log, or nothing. */
    plim_bytes trace_id;
} plim_run_options;

/** One snippet of JavaScript: an ES module. `code`: 1-262,144 bytes of UTF-8 without NUL. */
typedef struct plim_javascript_request {
    size_t size;
    plim_run_options options;
    plim_bytes code;
    /** The name of a grant profile of the sandbox's operator, or nothing. */
    plim_bytes grant_profile;
} plim_javascript_request;

/** A file to put in place before a project or a cell runs. `path` is relative, without `.` or `..`;
 * content is UTF-8. */
typedef struct plim_file {
    plim_bytes path;
    plim_bytes content;
} plim_file;

/** Files, then 1-20 shell steps that run one after another, then the files to bring back. */
typedef struct plim_project_request {
    size_t size;
    plim_run_options options;
    const plim_file *files;
    size_t file_count;
    const plim_bytes *steps;
    size_t step_count;
    const plim_bytes *artifacts;
    size_t artifact_count;
    plim_bytes grant_profile;
} plim_project_request;

/**
 * One simulation model over a table of parameter rows. `values` is row-major, `rows` x `width`, all
 * finite. Time runs from 0 to `end_time` in steps of `step`, both in the model's unit of time and
 * greater than 0.
 */
typedef struct plim_module_request {
    size_t size;
    plim_run_options options;
    plim_bytes model;
    const double *values;
    size_t rows;
    size_t width;
    double end_time;
    double step;
} plim_module_request;

#ifdef __cplusplus
}
#endif

#endif
