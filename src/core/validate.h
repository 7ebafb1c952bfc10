/* Validation of a request against the limits of the contract: pure, the first failing rule wins,
 * nothing is repaired. */
#ifndef CORE_VALIDATE_H
#define CORE_VALIDATE_H

/* Options (floor, software rule, trace id) and payload. False: refused, reason `request`. */
bool core_validate(const core_request *request, plim_error *err);

/* The pieces, for callers that read a request part by part. */
bool core_validate_options(const plim_run_options *options, plim_error *err);
bool core_validate_payload(const core_request *request, plim_error *err);

/* A relative path of 1-1,024 bytes without empty, `.` or `..` segment, backslash or control
 * character. */
bool core_path_valid(plim_bytes path);

/* 1-64 bytes of [A-Za-z0-9._:-]. */
bool core_name_valid(plim_bytes name);

/* The same for a trace ID that was given. A daemon drops a bad one; who sends one refuses it. */
bool core_validate_trace_id(plim_bytes trace_id, plim_error *err);

#endif
