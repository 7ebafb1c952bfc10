/* The checks a holder makes of a record, line by line; the first that fails decides. */
#include "record/record.h"

#define DATA_LOSS(err, class, ...)                                                                 \
    plim_fail((err), PLIM_E_##class, PLIM_CODE_DATA_LOSS, __VA_ARGS__)
#define MISMATCH(err, ...) DATA_LOSS((err), RECORD_MISMATCH, __VA_ARGS__)

static bool equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool out_of_memory(plim_error *err)
{
    return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                     "out of memory while the record was checked");
}

/* Lines 1 and 2: a request that states no valid floor or rule cannot have been served. */
static bool check_request(const record_request *request, plim_error *err)
{
    plim_tier floor;
    if (!core_rule_valid(&request->software, NULL))
        return MISMATCH(err, "the request's software rule is not well formed");
    if (request->minimum_isolation.len && !plim_tier_from_name(request->minimum_isolation, &floor))
        return MISMATCH(err, "the request's floor is not one of process, container, kernel, vm");
    return true;
}

static bool check_rule(const record_request *request, const plim_record *record, plim_error *err)
{
    char rule_id[CORE_RULE_ID_MAX];
    if (!core_rule_id(&request->software, rule_id))
        return out_of_memory(err);
    if (!equal(record->software_rule_id, rule_id))
        return MISMATCH(err, "the record states another software rule than the request's");
    if (!core_rule_allows(&request->software, plim_bytes_of(record->software_identity)))
        return MISMATCH(err, "the software that ran is not what the request's rule allows");
    return true;
}

/* Line 13: the record's own digest. */
static bool check_own_digest(const plim_record *record, plim_error *err)
{
    char digest[BASE_SHA256_HEX + 1];
    if (!record_digest(record, digest))
        return out_of_memory(err);
    return equal(record->record_sha256, digest) ||
           MISMATCH(err, "the record's fields do not have the digest it states");
}

/* Line 14. A name that is no floor's name is evidence that meets no floor. */
static bool check_floor(const record_request *request, const plim_record *record, plim_error *err)
{
    plim_tier floor, have = PLIM_TIER_UNKNOWN;
    if (!request->minimum_isolation.len)
        return true;
    if (plim_tier_from_name(request->minimum_isolation, &floor) &&
        plim_tier_from_name(plim_bytes_of(record->isolation), &have) &&
        plim_tier_meets(have, floor))
        return true;
    return DATA_LOSS(err, ISOLATION_EVIDENCE,
                     "the code may have run behind tier \"%.16s\", below the floor \"%.*s\"",
                     record->isolation, (int)request->minimum_isolation.len,
                     request->minimum_isolation.data);
}

static bool check_chain(const plim_record *record, const record_chain *chain, plim_error *err)
{
    if (!chain) {
        if (record->session[0] || record->sequence || record->previous_sha256[0])
            return MISMATCH(err, "the record of a single run states a place in a session");
        return true;
    }
    if (equal(record->session, chain->session) && record->sequence == chain->sequence + 1 &&
        equal(record->previous_sha256, chain->last_sha256))
        return true;
    return DATA_LOSS(err, CHAIN, "the record does not follow the last one of its session");
}

static bool check_version(const record_request *request, const plim_record *record, plim_error *err)
{
    if ((record->version != 1 && record->version != RECORD_VERSION_ANSWERED) ||
        (request->protocol >= 2 && record->version != RECORD_VERSION_ANSWERED))
        return DATA_LOSS(err, RECORD_VERSION, "the record's version %" PRIu32 " is not accepted",
                         record->version);
    if (record->version == 1 && (record->software_identity[0] || record->software_rule_id[0]))
        return MISMATCH(err, "a version 1 record states software");
    if (record->unanswered[0])
        return MISMATCH(err, "the record of an answered call is marked unanswered");
    return true;
}

static bool check_digests(const char *request_sha256, const plim_result *response,
                          const plim_record *record, plim_error *err)
{
    char result_sha256[BASE_SHA256_HEX + 1];
    if (!equal(record->request_sha256, request_sha256))
        return MISMATCH(err, "the record is of another request than the one sent");
    if (!record_result_digest(response, result_sha256))
        return out_of_memory(err);
    if (!equal(record->result_sha256, result_sha256))
        return MISMATCH(err, "the record is of another result than the one received");
    return true;
}

/* Lines 10 to 12. */
static bool check_evidence(const record_request *request, const plim_result *response,
                           const plim_record *record, plim_error *err)
{
    if (!equal(record->provider, response->provider) ||
        !equal(record->isolation, response->isolation))
        return MISMATCH(err, "the record states another provider or tier than the answer");
    if (record->version == 1)
        return true;
    if (!equal(record->environment, response->environment))
        return MISMATCH(err, "the record states another environment than the answer");
    if (!equal(record->software_identity, response->software_identity))
        return MISMATCH(err, "the record states other software than the answer");
    return check_rule(request, record, err);
}

bool record_check(const record_request *request, const char *request_sha256,
                  const plim_result *response, const plim_record *record, const record_chain *chain,
                  plim_error *err)
{
    if (!check_request(request, err))
        return false;
    if (!record)
        return DATA_LOSS(err, NO_RECORD, "the answer carries no run record");
    return check_version(request, record, err) &&
           check_digests(request_sha256, response, record, err) &&
           check_evidence(request, response, record, err) && check_own_digest(record, err) &&
           check_floor(request, record, err) && check_chain(record, chain, err);
}

bool record_check_unanswered(const record_request *request, const char *request_sha256,
                             const plim_record *record, const record_chain *chain, plim_error *err)
{
    if (!record)
        return DATA_LOSS(err, NO_RECORD, "the error carries no record of the unanswered call");
    if (record->version != RECORD_VERSION_UNANSWERED)
        return DATA_LOSS(err, RECORD_VERSION,
                         "the version of an unanswered call's record is %" PRIu32 ", not 3",
                         record->version);
    if (record->result_sha256[0])
        return MISMATCH(err, "the record of an unanswered call states a result");
    if (plim_code_from_name(plim_bytes_of(record->unanswered)) == PLIM_CODE_OK)
        return MISMATCH(err, "the record of an unanswered call states no status code");
    if (!equal(record->request_sha256, request_sha256))
        return MISMATCH(err, "the record is of another request than the one sent");
    return check_rule(request, record, err) && check_own_digest(record, err) &&
           check_floor(request, record, err) && check_chain(record, chain, err);
}
