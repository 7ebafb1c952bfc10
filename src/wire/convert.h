/*
 * Between messages and the core's model. Texts that may carry a guest's influence are made valid
 * UTF-8 on the way out; NaN has one form on the wire. Nothing is copied that can be borrowed: what
 * is made lives in the arena and needs its source alive.
 */
#ifndef WIRE_CONVERT_H
#define WIRE_CONVERT_H

/* Longest run that can be asked for: the ceiling of the contract. */
enum { WIRE_TIMEOUT_MS_MAX = 300000 };

/*
 * Read the floor, then the software rule; false: refused, marked `request`. The trace id is left
 * out when it is malformed.
 */
bool wire_read_options(base_arena *arena, plim_bytes minimum_isolation,
                       const wire_software_rule *rule, int32_t timeout_ms, plim_bytes trace_id,
                       plim_run_options *out, plim_error *err) PLIM_MUST_USE;

/*
 * A request to Run as the core takes it, checked in the contract's order: floor, software rule,
 * payload present and no cell, payload, name of the grant profile. The protocol number is not
 * looked at. False: refused, marked `request`.
 */
bool wire_read_request(base_arena *arena, const wire_run_request *in, core_request *out,
                       plim_error *err) PLIM_MUST_USE;

/* The message that asks for `request`, for a client; NULL when memory is out. */
wire_run_request *wire_write_request(base_arena *arena, const core_request *request) PLIM_MUST_USE;

/* The answer that states `result`, without a record; NULL when memory is out. */
wire_run_response *wire_write_result(base_arena *arena, const plim_result *result) PLIM_MUST_USE;

/* The result that an answer states, a copy of everything; NULL when memory is out or when the
 * answer holds no result (`kind` of the message not set). */
plim_result *wire_read_result(const wire_run_response *in) PLIM_MUST_USE;

/* The answer of Describe. `protocol` is the number to state; sessions are stated as off. */
wire_describe_response *wire_write_description(base_arena *arena,
                                               const core_description *description,
                                               uint32_t protocol) PLIM_MUST_USE;

/* Valid UTF-8 of `text`: itself, or a copy with U+FFFD for each malformed run. False when memory is
 * out. */
bool wire_repair_text(base_arena *arena, plim_bytes text, plim_bytes *out) PLIM_MUST_USE;

#endif
