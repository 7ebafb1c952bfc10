/* What a caller is told of an error, and what only the log is. */
#include "rpc/procedures.h"

/* Conditions of a provider that a caller is told in words. Everything else is the daemon's own
 * affair. */
static bool may_be_told(plim_code code)
{
    switch (code) {
    case PLIM_CODE_CANCELED:
    case PLIM_CODE_DEADLINE_EXCEEDED:
    case PLIM_CODE_INVALID_ARGUMENT:
    case PLIM_CODE_NOT_FOUND:
    case PLIM_CODE_PERMISSION_DENIED:
    case PLIM_CODE_RESOURCE_EXHAUSTED:
    case PLIM_CODE_FAILED_PRECONDITION:
    case PLIM_CODE_UNIMPLEMENTED:
        return true;
    default:
        return false;
    }
}

void rpc_conceal(const plim_error *err, plim_error *shown)
{
    if (may_be_told((plim_code)err->code)) {
        *shown = *err;
        return;
    }
    *shown = (plim_error)PLIM_ERROR_INIT;
    unsigned char random[8] = {0};
    char id[2 * sizeof(random) + 1];
    if (!base_random(random, sizeof(random)))
        memset(random, 0, sizeof(random));
    base_hex(random, sizeof(random), id);
    base_log(BASE_LOG_WARN, "internal error", LOG_STR("error_id", id),
             LOG_STR("error", plim_error_message(err)));
    static const char text[] = "internal error %s; the daemon's log has more under this number";
    /* The mark is the provider's and stays: clients decide by it, never by the code. */
    if (err->not_dispatched == PLIM_ND_NONE)
        plim_fail(shown, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, text, id);
    else
        plim_refuse(shown, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, err->not_dispatched, text, id);
}
