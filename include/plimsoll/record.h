/*
 * Run records: what every answered run carries, and what a holder of a request and its answer can
 * check without a network. A record is digests of what was asked and what came back, the evidence
 * the run executed under, and when; it is the daemon's statement, never attestation. Every accessor
 * borrows from the record; a record that an accessor returned belongs to the result or error it
 * came from. All of it is safe from any thread as long as one object is used by one thread at a
 * time.
 */
#ifndef PLIMSOLL_RECORD_H
#define PLIMSOLL_RECORD_H

#include <plimsoll/error.h>
#include <plimsoll/request.h>
#include <plimsoll/result.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Room for a digest: 64 lowercase hex characters and a terminator. */
#define PLIM_DIGEST_HEX_SIZE 65

/** Room for any software rule ID, terminator included. */
#define PLIM_RULE_ID_SIZE (16 + PLIM_SOFTWARE_IDENTITY_BYTES_MAX + 64)

typedef struct plim_record plim_record;

/** @name The fields of a record. Text is never NULL; `""` means not stated. */
/**@{*/
/** 2 for an answered call, 3 for an unanswered session call, 1 for the old form without software
 * fields. */
PLIM_API uint32_t plim_record_version(const plim_record *record);
PLIM_API const char *plim_record_request_sha256(const plim_record *record);
/** `""` in version 3. */
PLIM_API const char *plim_record_result_sha256(const plim_record *record);
PLIM_API const char *plim_record_provider(const plim_record *record);
/** The tier, as the response states it. */
PLIM_API const char *plim_record_isolation(const plim_record *record);
PLIM_API const char *plim_record_environment(const plim_record *record);
/** Digest of the sandbox policy the provider verified before the run. */
PLIM_API const char *plim_record_policy(const plim_record *record);
/** When the daemon received the request and finished the result, in milliseconds since 1970 UTC. */
PLIM_API int64_t plim_record_started_unix_ms(const plim_record *record);
PLIM_API int64_t plim_record_ended_unix_ms(const plim_record *record);
/** The session's fingerprint, the call's number in it from 1, and the digest of the record before;
 * `""`, 0 and `""` for a single run. */
PLIM_API const char *plim_record_session(const plim_record *record);
PLIM_API uint64_t plim_record_sequence(const plim_record *record);
PLIM_API const char *plim_record_previous_sha256(const plim_record *record);
/** Digest over every other field. */
PLIM_API const char *plim_record_record_sha256(const plim_record *record);
PLIM_API const char *plim_record_software_identity(const plim_record *record);
/** The ID of the caller's software rule; see plim_rule_id. */
PLIM_API const char *plim_record_software_rule_id(const plim_record *record);
/** Version 3 only: the status code of the error the call ended with. */
PLIM_API const char *plim_record_unanswered(const plim_record *record);
/**@}*/

/** Release a record that a check handed over. NULL is allowed. Never call it on a borrowed one. */
PLIM_API void plim_record_free(plim_record *record);

/** The record of a result that a daemon answered and that passed every check; NULL for a local
 * run and for a result whose record did not check. Borrowed. */
PLIM_API const plim_record *plim_result_record(const plim_result *result);

/** @name Digests without a network. `out` holds the digest on PLIM_OK and `""` otherwise. */
/**@{*/
/** The digest of a record's own fields: what `record_sha256` must be. */
PLIM_API plim_status plim_record_digest(const plim_record *record, char out[PLIM_DIGEST_HEX_SIZE]);

/** The fingerprint by which records name a session; `session_id` is the text sent on the wire. */
PLIM_API plim_status plim_session_fingerprint_of(plim_bytes session_id,
                                                 char out[PLIM_DIGEST_HEX_SIZE]);

/** The ID of a software rule: `""` without a rule, `exact:<identity>`, or `approved:sha256:<hex>`.
 * PLIM_E_INVALID_REQUEST for a rule that is not well formed. */
PLIM_API plim_status plim_rule_id(const plim_software_rule *rule, char out[PLIM_RULE_ID_SIZE]);

/** What is sent in place of a session owner's name: a keyed digest of `owner`, the same for every
 * client that holds `token` (no bytes when there is none). PLIM_E_INVALID_REQUEST when `owner` is
 * empty. */
PLIM_API plim_status plim_owner_digest(plim_bytes token, plim_bytes owner,
                                       char out[PLIM_DIGEST_HEX_SIZE]);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif
