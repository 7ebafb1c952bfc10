/* The record of a run: filling it, copying it, reading it. */
#include "record/record.h"

static bool text_into(base_arena *arena, const char *text, const char **out)
{
    *out = base_arena_text(arena, plim_bytes_of(text));
    return *out != NULL;
}

/* The evidence of a response, the rule, the times and the place in the chain: what both forms have.
 */
static bool fill_common(plim_record *out, base_arena *arena, const plim_result *evidence,
                        const record_facts *facts)
{
    char rule_id[CORE_RULE_ID_MAX];
    if (!core_rule_id(facts->software, rule_id) ||
        !text_into(arena, rule_id, &out->software_rule_id))
        return false;
    out->request_sha256 = facts->request_sha256;
    out->provider = evidence->provider;
    out->isolation = evidence->isolation;
    out->environment = evidence->environment;
    out->policy = evidence->policy;
    out->software_identity = evidence->software_identity;
    out->started_unix_ms = facts->started_unix_ms;
    out->ended_unix_ms = facts->ended_unix_ms;
    if (facts->chain) {
        out->session = facts->chain->session;
        out->sequence = facts->chain->sequence + 1;
        out->previous_sha256 = facts->chain->last_sha256;
    }
    return true;
}

static bool seal(plim_record *record, base_arena *arena)
{
    char digest[BASE_SHA256_HEX + 1];
    return record_digest(record, digest) && text_into(arena, digest, &record->record_sha256);
}

bool record_fill(plim_record *out, base_arena *arena, const plim_result *response,
                 const record_facts *facts)
{
    *out = RECORD_INIT;
    out->version = RECORD_VERSION_ANSWERED;
    char digest[BASE_SHA256_HEX + 1];
    return fill_common(out, arena, response, facts) && record_result_digest(response, digest) &&
           text_into(arena, digest, &out->result_sha256) && seal(out, arena);
}

bool record_fill_unanswered(plim_record *out, base_arena *arena, const plim_result *evidence,
                            const record_facts *facts, const char *unanswered)
{
    *out = RECORD_INIT;
    out->version = RECORD_VERSION_UNANSWERED;
    out->unanswered = unanswered;
    return fill_common(out, arena, evidence, facts) && seal(out, arena);
}

static bool has_nan(const core_module_row *row)
{
    for (size_t i = 0; i < row->count; i++)
        if (row->outputs[i] != row->outputs[i])
            return true;
    return false;
}

/* A copy of a row's outputs with the one NaN; NULL when out of memory. */
static const double *with_canonical_nan(base_arena *arena, const core_module_row *row)
{
    static const uint64_t canonical_bits = UINT64_C(0x7ff8000000000000);
    double *outputs = base_arena_alloc(arena, row->count, sizeof(*outputs));
    for (size_t i = 0; outputs && i < row->count; i++)
        memcpy(&outputs[i],
               row->outputs[i] != row->outputs[i] ? (const void *)&canonical_bits
                                                  : (const void *)&row->outputs[i],
               sizeof(*outputs));
    return outputs;
}

bool record_canonical_nan(plim_result *result)
{
    size_t first = 0;
    while (first < result->row_count && !has_nan(&result->rows[first]))
        first++;
    if (first == result->row_count)
        return true;
    core_module_row *rows = base_arena_alloc(result->arena, result->row_count, sizeof(*rows));
    if (!rows)
        return false;
    memcpy(rows, result->rows, result->row_count * sizeof(*rows));
    for (size_t i = first; i < result->row_count; i++) {
        if (!has_nan(&rows[i]))
            continue;
        rows[i].outputs = with_canonical_nan(result->arena, &rows[i]);
        if (!rows[i].outputs)
            return false;
    }
    result->rows = rows;
    return true;
}

plim_record *record_dup(base_arena *arena, const plim_record *record)
{
    plim_record *copy = base_arena_alloc(arena, 1, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *record;
    copy->arena = NULL;
    const char **const texts[] = {
        &copy->request_sha256,    &copy->result_sha256,    &copy->provider,
        &copy->isolation,         &copy->environment,      &copy->policy,
        &copy->session,           &copy->previous_sha256,  &copy->record_sha256,
        &copy->software_identity, &copy->software_rule_id, &copy->unanswered,
    };
    for (size_t i = 0; i < PLIM_COUNT(texts); i++)
        if (!text_into(arena, *texts[i], texts[i]))
            return NULL;
    return copy;
}

void plim_record_free(plim_record *record)
{
    if (record)
        base_arena_free(record->arena);
}

const plim_record *plim_result_record(const plim_result *result)
{
    return result->record;
}

#define RECORD_ACCESSOR(type, field)                                                               \
    type plim_record_##field(const plim_record *record)                                            \
    {                                                                                              \
        return record->field;                                                                      \
    }
RECORD_ACCESSOR(uint32_t, version)
RECORD_ACCESSOR(const char *, request_sha256)
RECORD_ACCESSOR(const char *, result_sha256)
RECORD_ACCESSOR(const char *, provider)
RECORD_ACCESSOR(const char *, isolation)
RECORD_ACCESSOR(const char *, environment)
RECORD_ACCESSOR(const char *, policy)
RECORD_ACCESSOR(int64_t, started_unix_ms)
RECORD_ACCESSOR(int64_t, ended_unix_ms)
RECORD_ACCESSOR(const char *, session)
RECORD_ACCESSOR(uint64_t, sequence)
RECORD_ACCESSOR(const char *, previous_sha256)
RECORD_ACCESSOR(const char *, record_sha256)
RECORD_ACCESSOR(const char *, software_identity)
RECORD_ACCESSOR(const char *, software_rule_id)
RECORD_ACCESSOR(const char *, unanswered)
#undef RECORD_ACCESSOR

static plim_status digest_status(bool made)
{
    return made ? PLIM_OK : PLIM_E_NOMEM;
}

plim_status plim_record_digest(const plim_record *record, char out[PLIM_DIGEST_HEX_SIZE])
{
    return digest_status(record_digest(record, out));
}

plim_status plim_session_fingerprint_of(plim_bytes session_id, char out[PLIM_DIGEST_HEX_SIZE])
{
    out[0] = '\0';
    return digest_status(base_sha256_hex_of(session_id, out));
}

plim_status plim_rule_id(const plim_software_rule *rule, char out[PLIM_RULE_ID_SIZE])
{
    _Static_assert(PLIM_RULE_ID_SIZE == (int)CORE_RULE_ID_MAX, "one size for a rule ID");
    out[0] = '\0';
    if (!core_rule_valid(rule, NULL))
        return PLIM_E_INVALID_REQUEST;
    return digest_status(core_rule_id(rule, out));
}

plim_status plim_owner_digest(plim_bytes token, plim_bytes owner, char out[PLIM_DIGEST_HEX_SIZE])
{
    out[0] = '\0';
    if (owner.len == 0)
        return PLIM_E_INVALID_REQUEST;
    return digest_status(record_owner_digest(token, owner, out));
}
