/* Numbers as text, exact in both directions and the same in every locale. */
#include "wire/internal.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>

enum { DOUBLE_TEXT_MAX = 32 };

/* Integers up to here are exact in a double, and so are powers of ten up to EXACT_POWER_MAX. */
#define EXACT_INTEGER_MAX 9007199254740992.0
enum { EXACT_POWER_MAX = 22 };

static const double exact_powers[EXACT_POWER_MAX + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod of the C locale, whatever locale the process has. */
static double read_double(const char *text)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? strtod_l(text, NULL, c_locale) : strtod(text, NULL);
}

bool wire_number_add(base_buf *out, double value)
{
    if (value == trunc(value) && fabs(value) < EXACT_INTEGER_MAX)
        return base_buf_printf(out, "%s%" PRIu64, signbit(value) ? "-" : "", (uint64_t)fabs(value));
    char text[DOUBLE_TEXT_MAX];
    /* A text of up to 15 digits is found by %.15g, which drops zeros; 17 always suffice. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        for (char *c = text; *c; c++)
            if (*c == ',')
                *c = '.';
        if (digits == 17 || read_double(text) == value)
            break;
    }
    return base_buf_add_text(out, text);
}

/* A decimal: magnitude x 10^power, exactly unless `inexact`. */
struct decimal {
    bool negative, inexact;
    uint64_t magnitude;
    int64_t power;
};

/* An exponent beyond this decides alone: no input is long enough to make up for it. */
#define POWER_FAR INT64_C(1000000000)

static int64_t read_power(plim_bytes text, size_t at)
{
    bool negative = text.data[at] == '-';
    if (text.data[at] == '-' || text.data[at] == '+')
        at++;
    int64_t power = 0;
    for (; at < text.len && power < POWER_FAR; at++)
        power = power * 10 + (text.data[at] - '0');
    return negative ? -power : power;
}

static struct decimal read_decimal(plim_bytes text)
{
    struct decimal d = {.negative = text.data[0] == '-'};
    bool fraction = false;
    /* Zeros wait until a digit follows, so that "100" and "1.00" are 1 with a power. */
    int64_t zeros = 0;
    for (size_t at = d.negative; at < text.len; at++) {
        char c = text.data[at];
        if (c == '.') {
            fraction = true;
            continue;
        }
        if (c == 'e' || c == 'E') {
            d.power += read_power(text, at + 1);
            break;
        }
        if (fraction)
            d.power--;
        zeros++;
        if (c == '0')
            continue;
        for (; zeros && d.magnitude; zeros--)
            d.inexact |= __builtin_mul_overflow(d.magnitude, 10, &d.magnitude);
        d.inexact |= __builtin_add_overflow(d.magnitude, (uint64_t)(c - '0'), &d.magnitude);
        zeros = 0;
    }
    d.power += zeros;
    if (d.magnitude == 0 && !d.inexact)
        d.power = 0;
    return d;
}

bool wire_integer_read(plim_bytes text, bool *negative, uint64_t *magnitude)
{
    struct decimal d = read_decimal(text);
    if (d.inexact || d.power < 0)
        return false;
    for (; d.power > 0; d.power--)
        if (__builtin_mul_overflow(d.magnitude, 10, &d.magnitude))
            return false;
    *negative = d.negative && d.magnitude;
    *magnitude = d.magnitude;
    return true;
}

/* A number too long for the stack, or too precise for the short way. */
static bool read_long(plim_bytes text, double *out)
{
    char small[64];
    _cleanup_buf_ base_buf large = BASE_BUF_INIT(text.len);
    if (text.len < sizeof(small)) {
        memcpy(small, text.data, text.len);
        small[text.len] = '\0';
        *out = read_double(small);
    } else {
        if (!base_buf_add(&large, text))
            return false;
        *out = read_double(base_buf_text(&large));
    }
    return isfinite(*out);
}

bool wire_number_read(plim_bytes text, double *out)
{
    struct decimal d = read_decimal(text);
    if (d.inexact || (double)d.magnitude >= EXACT_INTEGER_MAX || d.power > EXACT_POWER_MAX ||
        d.power < -EXACT_POWER_MAX)
        return read_long(text, out);
    /* Both operands are exact, so the one rounding of the operation is the right one. */
    double value = d.power < 0 ? (double)d.magnitude / exact_powers[-d.power]
                               : (double)d.magnitude * exact_powers[d.power];
    *out = d.negative ? -value : value;
    return true;
}
