#include "base/base.h"

const char *plim_code_name(int code)
{
    switch (code) {
    case PLIM_CODE_OK:
        return "ok";
#define X(upper, lower, number, http)                                                              \
    case number:                                                                                   \
        return #lower;
        PLIM_CODES(X)
#undef X
    }
    return "unknown";
}

plim_code plim_code_from_name(plim_bytes name)
{
#define X(upper, lower, number, http)                                                              \
    if (base_bytes_is(name, #lower))                                                               \
        return PLIM_CODE_##upper;
    PLIM_CODES(X)
#undef X
    return PLIM_CODE_OK;
}

int plim_code_http_status(plim_code code)
{
    switch (code) {
    case PLIM_CODE_OK:
        return 200;
#define X(upper, lower, number, http)                                                              \
    case PLIM_CODE_##upper:                                                                        \
        return http;
        PLIM_CODES(X)
#undef X
    }
    return 500;
}

/* Cut a message that filled the buffer at a character, never inside one. */
static void trim_to_character(char *message)
{
    size_t length = strlen(message);
    if (length < PLIM_ERROR_MESSAGE_MAX - 1)
        return;
    while (length && ((unsigned char)message[length - 1] & 0xC0) == 0x80)
        length--;
    if (length && (unsigned char)message[length - 1] >= 0xC0)
        length--;
    message[length] = '\0';
}

__attribute__((format(printf, 5, 0))) static void fill(plim_error *err, plim_status status,
                                                       plim_code code, plim_not_dispatched reason,
                                                       const char *format, va_list args)
{
    if (!err)
        return;
    plim_error_clear(err);
    err->status = status;
    err->code = code;
    err->not_dispatched = reason;
    vsnprintf(err->message, sizeof(err->message), format, args);
    trim_to_character(err->message);
}

bool plim_fail(plim_error *err, plim_status status, plim_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, code, PLIM_ND_NONE, format, args);
    va_end(args);
    return false;
}

bool plim_refuse(plim_error *err, plim_status status, plim_code code, plim_not_dispatched reason,
                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, code, reason, format, args);
    va_end(args);
    return false;
}

bool plim_refuse_nomem(plim_error *err)
{
    return plim_refuse(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED, PLIM_ND_REQUEST,
                       "out of memory");
}

bool plim_error_wrap(plim_error *err, const char *format, ...)
{
    if (!err)
        return false;
    char inner[PLIM_ERROR_MESSAGE_MAX];
    memcpy(inner, err->message, sizeof(inner));
    va_list args;
    va_start(args, format);
    int length = vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    /* What does not fit is cut, which is not a failure. */
    if (length >= 0 && (size_t)length < sizeof(err->message) &&
        snprintf(err->message + length, sizeof(err->message) - (size_t)length, ": %s", inner) < 0)
        err->message[length] = '\0';
    trim_to_character(err->message);
    return false;
}

bool plim_error_move(plim_error *to, plim_error *from)
{
    if (to) {
        plim_error_clear(to);
        *to = *from;
        *from = (plim_error)PLIM_ERROR_INIT;
    } else {
        plim_error_clear(from);
    }
    return false;
}

plim_status plim_error_status(const plim_error *err)
{
    return err->status;
}

const char *plim_error_code(const plim_error *err)
{
    return plim_code_name(err->code);
}

const char *plim_error_message(const plim_error *err)
{
    return err->message;
}

plim_not_dispatched plim_error_not_dispatched(const plim_error *err)
{
    return err->not_dispatched;
}

int plim_error_http_status(const plim_error *err)
{
    return err->http_status;
}

bool plim_may_have_run(const plim_error *err)
{
    return err->not_dispatched == PLIM_ND_NONE;
}

void plim_error_clear(plim_error *err)
{
    if (!err)
        return;
    if (err->more)
        err->more->free(err->more);
    *err = (plim_error)PLIM_ERROR_INIT;
}

const char *base_errno_text(int number)
{
    const char *text = strerrordesc_np(number);
    return text ? text : "unknown error";
}
