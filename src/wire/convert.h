/*
 * Between messages and the core's model. What is made lives in the arena and borrows what it can,
 * so the source must outlive it.
 */
#ifndef WIRE_CONVERT_H
#define WIRE_CONVERT_H

/* Longest run that can be asked for: the ceiling of the contract. */
enum { WIRE_TIMEOUT_MS_MAX = 300000 };

/* What the requests that run or open something have in common. */
typedef struct wire_head {
    uint32_t protocol;
    plim_bytes minimum_isolation, trace_id;
    int32_t timeout_ms;
    const wire_software_rule *software_rule;
} wire_head;

/* The head of a run_request or session_run_request. */
#define wire_head_of(request)                                                                      \
    ((wire_head){(request)->protocol, (request)->minimum_isolation, (request)->trace_id,           \
                 (request)->timeout_ms, (request)->software_rule})

/*
 * Read the floor, then the software rule: the first checks after the protocol's. A malformed trace
 * id is left out, the timeout is clamped. False: refused, marked `request`.
 */
bool wire_read_options(const wire_head *head, plim_run_options *out, plim_error *err) PLIM_MUST_USE;

/* Files of a payload as an array that borrows their texts; NULL when memory is out. */
const plim_file *wire_read_files(base_arena *arena, wire_project_file *const *in,
                                 size_t count) PLIM_MUST_USE;

/* The rows of a table as one array, end to end. NULL: refused, as when their widths differ. */
const double *wire_read_rows(base_arena *arena, const wire_module_run *in, size_t *width,
                             plim_error *err) PLIM_MUST_USE;

/*
 * A request to Run as the core takes it, checked in the contract's order: floor, software rule,
 * payload present and no cell, payload, name of the grant profile. The protocol number is not
 * looked at. False: refused, marked `request`.
 */
bool wire_read_request(base_arena *arena, const wire_run_request *in, core_request *out,
                       plim_error *err) PLIM_MUST_USE;

/* The message that asks for `request`, for a client; NULL when memory is out. */
wire_run_request *wire_write_request(base_arena *arena, const core_request *request) PLIM_MUST_USE;

/*
 * Make every text of a result that a guest may have had a hand in valid UTF-8, each malformed run
 * replaced by U+FFFD. Call it once, before the result's digest is taken. False when memory is out.
 */
bool wire_repair_result(plim_result *result) PLIM_MUST_USE;

/* The answer that states a repaired result, without a record; NULL when memory is out. */
wire_run_response *wire_write_result(base_arena *arena, const plim_result *result) PLIM_MUST_USE;

/* The result that an answer states, a copy of all of it; of kind NONE when the answer holds none.
 * NULL when memory is out. */
plim_result *wire_read_result(const wire_run_response *in) PLIM_MUST_USE;

/*
 * What the digest of a request is over, as it was sent: `request` is what wire_read_request made of
 * `in`. False for a kind that Run does not take.
 */
bool wire_record_request(const wire_run_request *in, const core_request *request,
                         record_request *out) PLIM_MUST_USE;

/* A record as a message, borrowing its texts, and back as a copy of all of it; NULL when memory is
 * out. A text with a NUL byte is cut there, so it no longer has the digest that it claims. */
wire_run_record *wire_write_record(base_arena *arena, const plim_record *record) PLIM_MUST_USE;
plim_record *wire_read_record(base_arena *arena, const wire_run_record *in) PLIM_MUST_USE;

/* The answer of Describe. `protocol` is the number to state; sessions are stated as off. NULL when
 * memory is out. */
wire_describe_response *wire_write_description(base_arena *arena,
                                               const core_description *description,
                                               uint32_t protocol) PLIM_MUST_USE;

#endif
