/* Software rules: which are well formed, what they allow, and the ID that records state. */
#include "core/core.h"

static bool identity_valid(plim_bytes identity)
{
    if (identity.len == 0 || identity.len > PLIM_SOFTWARE_IDENTITY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < identity.len; i++) {
        char c = identity.data[i];
        if (!base_is_alnum(c) && !memchr("._:/@+-", c, 7))
            return false;
    }
    return true;
}

bool core_rule_valid(const plim_software_rule *rule, plim_error *err)
{
    switch (rule->mode) {
    case PLIM_RULE_NONE:
        return rule->count == 0 ||
               core_refuse_request(err, "a software rule without a mode names identities");
    case PLIM_RULE_EXACT:
        if (rule->count != 1)
            return core_refuse_request(
                err, "an exact software rule names exactly 1 identity, not %zu", rule->count);
        break;
    case PLIM_RULE_APPROVED:
        if (rule->count < 1 || rule->count > PLIM_SOFTWARE_IDENTITIES_MAX)
            return core_refuse_request(
                err, "an approved software rule names 1 to %d identities, not %zu",
                PLIM_SOFTWARE_IDENTITIES_MAX, rule->count);
        break;
    default:
        return core_refuse_request(err, "the mode of a software rule is exact or approved");
    }
    for (size_t i = 0; i < rule->count; i++) {
        if (!identity_valid(rule->identities[i]))
            return core_refuse_request(
                err, "software identity %zu is not 1 to %d characters of A-Z a-z 0-9 . _ : / @ + -",
                i + 1, PLIM_SOFTWARE_IDENTITY_BYTES_MAX);
        for (size_t j = 0; j < i; j++)
            if (base_bytes_equal(rule->identities[i], rule->identities[j]))
                return core_refuse_request(err, "a software rule names identity %zu twice", i + 1);
    }
    return true;
}

bool core_rule_allows(const plim_software_rule *rule, plim_bytes identity)
{
    if (rule->mode == PLIM_RULE_NONE)
        return true;
    for (size_t i = 0; identity.len && i < rule->count; i++)
        if (base_bytes_equal(rule->identities[i], identity))
            return true;
    return false;
}

static int compare_identities(const void *a, const void *b)
{
    return base_bytes_compare(*(const plim_bytes *)a, *(const plim_bytes *)b);
}

bool core_rule_id(const plim_software_rule *rule, char out[CORE_RULE_ID_MAX])
{
    out[0] = '\0';
    if (rule->mode == PLIM_RULE_NONE || rule->count == 0 ||
        rule->count > PLIM_SOFTWARE_IDENTITIES_MAX)
        return rule->mode == PLIM_RULE_NONE;
    if (rule->count == 1) {
        plim_bytes only = rule->identities[0];
        snprintf(out, CORE_RULE_ID_MAX, "exact:%.*s", (int)only.len, only.data);
        return true;
    }
    plim_bytes sorted[PLIM_SOFTWARE_IDENTITIES_MAX];
    memcpy(sorted, rule->identities, rule->count * sizeof(*sorted));
    qsort(sorted, rule->count, sizeof(*sorted), compare_identities);
    _cleanup_(base_sha256_freep)
    base_sha256 *digest = base_sha256_new();
    unsigned char hash[BASE_SHA256_BYTES];
    if (!digest)
        return false;
    for (size_t i = 0; i < rule->count; i++) {
        base_sha256_update(digest, (plim_bytes){"", i ? 1 : 0});
        base_sha256_update(digest, sorted[i]);
    }
    if (!base_sha256_final(digest, hash))
        return false;
    int length = snprintf(out, CORE_RULE_ID_MAX, "approved:sha256:");
    base_hex(hash, sizeof(hash), out + length);
    return true;
}
