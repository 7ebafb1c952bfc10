/*
 * The door of the record layer: digests of requests, results and records, the record of a run, and
 * the checks a holder makes (docs/run-records.md). Pure functions over borrowed values, safe
 * from any thread; nothing here knows HTTP, protobuf or a key. Digests are over values as sent, so
 * a request is described by record_request and not by the defaulted form that a provider sees.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "core/core.h"

#include <plimsoll/record.h>

/* The record versions of answered and unanswered calls. */
enum { RECORD_VERSION_ANSWERED = 2, RECORD_VERSION_UNANSWERED = 3 };

/* A cell, the stored form of a session's interpreter call. */
typedef struct record_cell {
    plim_bytes language, code;
    const plim_file *files;
    size_t file_count;
} record_cell;

/*
 * A request as it was sent: what its digest covers. All borrowed. The payload member that `kind`
 * names is set; PLIM_KIND_NONE is a request without a payload. Options inside the payload structs
 * are not looked at.
 */
typedef struct record_request {
    uint32_t protocol;
    plim_bytes minimum_isolation; /* the floor's text, verbatim; no bytes for none */
    int32_t timeout_ms;           /* before any default or clamp */
    plim_software_rule software;  /* identities in the order sent */
    plim_kind kind;
    union {
        const plim_javascript_request *javascript;
        const plim_project_request *project;
        const plim_module_request *module;
        const record_cell *cell;
    };
} record_request;

/* Every text member is terminated and never NULL; the members live as long as what they were filled
 * from. Start from RECORD_INIT. */
struct plim_record {
    base_arena *arena; /* holds record and text, when plim_record_free is to release them */
    uint32_t version;
    const char *request_sha256, *result_sha256;
    const char *provider, *isolation, *environment, *policy;
    int64_t started_unix_ms, ended_unix_ms;
    const char *session;
    uint64_t sequence;
    const char *previous_sha256, *record_sha256;
    const char *software_identity, *software_rule_id, *unanswered;
};

#define RECORD_INIT                                                                                \
    ((plim_record){NULL, 0, "", "", "", "", "", "", 0, 0, "", 0, "", "", "", "", ""})

/* Where a session's chain stands: how many calls it has, and the digest of the last one's record
 * ("" for none). */
typedef struct record_chain {
    const char *session; /* fingerprint */
    uint64_t sequence;
    const char *last_sha256;
} record_chain;

/*
 * The digests. False only when memory or the crypto library fails. A result's digest is over the
 * bits it holds; a result of PLIM_KIND_NONE stands for an answer without a result.
 */
bool record_request_digest(const record_request *request,
                           char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;
bool record_result_digest(const plim_result *result, char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;
bool record_digest(const plim_record *record, char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;

/* The digest that stands for a session owner; see plim_owner_digest. */
bool record_owner_digest(plim_bytes token, plim_bytes owner,
                         char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;

/*
 * Rewrite every NaN of a module's outputs to the one the wire knows (0x7ff8000000000000). The
 * daemon calls it once, before record_fill and before encoding. False when out of memory; the
 * result is then unchanged.
 */
bool record_canonical_nan(plim_result *result) PLIM_MUST_USE;

/* What the record of an answered call states beyond its response. */
typedef struct record_facts {
    const char *request_sha256; /* taken on receipt, before anything is defaulted */
    const plim_software_rule *software;
    int64_t started_unix_ms, ended_unix_ms;
    const record_chain *chain; /* where the session's chain stood before; NULL for a single run */
} record_facts;

/*
 * Fill the record of an answered call. `response` is complete: provider, isolation, environment,
 * software identity and policy are copied from it and never computed twice, so it must not change
 * afterwards. New text goes into `arena`; the rest is borrowed from `response` and `facts`. False
 * only when memory or the crypto library fails.
 */
bool record_fill(plim_record *out, base_arena *arena, const plim_result *response,
                 const record_facts *facts) PLIM_MUST_USE;

/* The same for a session call that may have run and ended in an error: `evidence` is what the
 * session stated when it opened, `unanswered` the error's code name. */
bool record_fill_unanswered(plim_record *out, base_arena *arena, const plim_result *evidence,
                            const record_facts *facts, const char *unanswered) PLIM_MUST_USE;

/* A copy of `record` with all its text in `arena`; NULL when out of memory. */
plim_record *record_dup(base_arena *arena, const plim_record *record) PLIM_MUST_USE;

/*
 * The checks of an answered exchange, in an order that holders share; the first that fails
 * decides. `request_sha256` is the digest of the request as sent, `record` may be NULL (the answer
 * had none), `chain` is NULL for a single run. False with PLIM_E_NO_RECORD, PLIM_E_RECORD_VERSION,
 * PLIM_E_RECORD_MISMATCH, PLIM_E_CHAIN or PLIM_E_ISOLATION_EVIDENCE, code data_loss, never marked:
 * the run may have executed. That the result is of the request's kind is the caller's check.
 */
bool record_check(const record_request *request, const char *request_sha256,
                  const plim_result *response, const plim_record *record, const record_chain *chain,
                  plim_error *err);

/* The checks of an unanswered session call's record, likewise in their order. */
bool record_check_unanswered(const record_request *request, const char *request_sha256,
                             const plim_record *record, const record_chain *chain, plim_error *err);

#endif
