#include "core/core.h"

/* plim_fail and plim_refuse take "...", these take what they were given: the text is formatted
 * here, once. */
#define FORMAT_MESSAGE(text, format)                                                               \
    char text[PLIM_ERROR_MESSAGE_MAX];                                                             \
    va_list args;                                                                                  \
    va_start(args, format);                                                                        \
    vsnprintf(text, sizeof(text), format, args);                                                   \
    va_end(args)

#define X(name, class, code, reason)                                                               \
    bool core_refuse_##name(plim_error *err, const char *format, ...)                              \
    {                                                                                              \
        FORMAT_MESSAGE(text, format);                                                              \
        return plim_refuse(err, PLIM_E_##class, PLIM_CODE_##code, PLIM_ND_##reason, "%s", text);   \
    }
CORE_REFUSALS(X)
#undef X

bool core_fail_internal(plim_error *err, const char *format, ...)
{
    FORMAT_MESSAGE(text, format);
    return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, "%s", text);
}

bool core_fail_gone(plim_error *err, run_wait why)
{
    if (why == RUN_CANCELED)
        return plim_fail(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED,
                         "the call was cancelled while it ran");
    return plim_fail(err, PLIM_E_REQUEST_TIMEOUT, PLIM_CODE_DEADLINE_EXCEEDED,
                     "the caller's deadline passed while the call ran");
}

bool core_refuse_gone(plim_error *err, run_wait why)
{
    if (why == RUN_CANCELED)
        return plim_refuse(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED, PLIM_ND_REQUEST,
                           "the call was cancelled before anything ran");
    return plim_refuse(err, PLIM_E_REQUEST_TIMEOUT, PLIM_CODE_DEADLINE_EXCEEDED, PLIM_ND_CAPACITY,
                       "the caller's deadline passed before anything ran");
}
