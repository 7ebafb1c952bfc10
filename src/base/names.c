/* Names of the public enums. */
#include "base/base.h"

static const char *const tier_names[] = {
    [PLIM_TIER_UNKNOWN] = "unknown", [PLIM_TIER_NONE] = "none",
    [PLIM_TIER_PROCESS] = "process", [PLIM_TIER_CONTAINER] = "container",
    [PLIM_TIER_KERNEL] = "kernel",   [PLIM_TIER_VM] = "vm",
};

const char *plim_tier_name(plim_tier tier)
{
    return (size_t)tier < PLIM_COUNT(tier_names) ? tier_names[tier] : "unknown";
}

bool plim_tier_from_name(plim_bytes name, plim_tier *out)
{
    for (size_t i = PLIM_TIER_PROCESS; i < PLIM_COUNT(tier_names); i++) {
        if (!base_bytes_is(name, tier_names[i]))
            continue;
        *out = (plim_tier)i;
        return true;
    }
    return false;
}

/* The one place where a floor is compared. */
bool plim_tier_meets(plim_tier have, plim_tier floor)
{
    if (floor == PLIM_TIER_UNKNOWN)
        return true;
    if (floor < PLIM_TIER_PROCESS || floor > PLIM_TIER_VM)
        return false;
    return have >= floor && have <= PLIM_TIER_VM;
}

const char *plim_not_dispatched_name(plim_not_dispatched reason)
{
    static const char *const names[] = {
        "",          "request",  "permission",  "protocol", "unsupported",
        "isolation", "capacity", "environment",
    };
    return (size_t)reason < PLIM_COUNT(names) ? names[reason] : "unknown";
}

static const char *const status_names[] = {
    [PLIM_OK] = "ok",
    [PLIM_E_INVALID_BASE_URL] = "invalid_base_url",
    [PLIM_E_INSECURE_HTTP] = "insecure_http",
    [PLIM_E_INVALID_OPTION] = "invalid_option",
    [PLIM_E_RAW_GRANT_UNSUPPORTED] = "raw_grant_unsupported",
    [PLIM_E_RECORDER_CANNOT_KEEP_SESSIONS] = "recorder_cannot_keep_sessions",
    [PLIM_E_SESSION_STOPPED] = "session_stopped",
    [PLIM_E_NOMEM] = "nomem",
    [PLIM_E_INVALID_REQUEST] = "invalid_request",
    [PLIM_E_INSUFFICIENT_ISOLATION] = "insufficient_isolation",
    [PLIM_E_SOFTWARE_MISMATCH] = "software_mismatch",
    [PLIM_E_DISABLED] = "disabled",
    [PLIM_E_UNSUPPORTED] = "unsupported",
    [PLIM_E_PROTOCOL_MISMATCH] = "protocol_mismatch",
    [PLIM_E_AT_CAPACITY] = "at_capacity",
    [PLIM_E_SESSION_ENDED] = "session_ended",
    [PLIM_E_REMOTE] = "remote",
    [PLIM_E_UNANSWERED_CALL] = "unanswered_call",
    [PLIM_E_TRANSPORT] = "transport",
    [PLIM_E_REQUEST_TIMEOUT] = "request_timeout",
    [PLIM_E_CANCELED] = "canceled",
    [PLIM_E_RESPONSE_TOO_LARGE] = "response_too_large",
    [PLIM_E_MALFORMED] = "malformed",
    [PLIM_E_ANSWER_NOT_BOUND] = "answer_not_bound",
    [PLIM_E_NO_RECORD] = "no_record",
    [PLIM_E_RECORD_VERSION] = "record_version",
    [PLIM_E_RECORD_MISMATCH] = "record_mismatch",
    [PLIM_E_CHAIN] = "chain",
    [PLIM_E_ISOLATION_EVIDENCE] = "isolation_evidence",
    [PLIM_E_SOFTWARE_EVIDENCE] = "software_evidence",
    [PLIM_E_RESULT_KIND] = "result_kind",
    [PLIM_E_NOT_RECORDED] = "not_recorded",
    [PLIM_E_ENVIRONMENT_MISMATCH] = "environment_mismatch",
    [PLIM_E_NO_BACKEND] = "no_backend",
    [PLIM_E_LINE] = "line",
    [PLIM_E_LINK] = "link",
    [PLIM_E_INCOMPLETE] = "incomplete",
    [PLIM_E_SIGNATURE] = "signature",
    [PLIM_E_STATEMENT] = "statement",
    [PLIM_E_STORED] = "stored",
    [PLIM_E_EXPECTED] = "expected",
    [PLIM_E_IO] = "io",
};

const char *plim_status_name(plim_status status)
{
    return (size_t)status < PLIM_COUNT(status_names) && status_names[status] ? status_names[status]
                                                                             : "unknown";
}
