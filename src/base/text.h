/* Reading numbers, switches and durations from configuration text; strict, and pure functions over
 * bytes. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <plimsoll/types.h>

/* Without leading and trailing white space (space, tab, CR, LF, VT, FF). */
plim_bytes base_trim(plim_bytes text);

bool base_ascii_equal_ignore_case(plim_bytes a, const char *b);

/* Optional sign and decimal digits, nothing else, fitting int64. */
bool base_parse_int(plim_bytes text, int64_t *out);

/* Decimal floating point, finite; no hex, no "inf", no "nan". */
bool base_parse_number(plim_bytes text, double *out);

/* Empty, "0", "false" = off; "1", "true" = on; any case. */
bool base_parse_bool(plim_bytes text, bool *out);

/* One or more <decimal><unit> with ns, us, µs, ms, s, m, h; a bare "0". Not negative; fits int64
 * nanoseconds. */
bool base_parse_duration_ns(plim_bytes text, int64_t *out);

#endif
