/* Time. Deadlines and durations use the monotonic clock, in nanoseconds; only records and logs use
 * the wall clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define BASE_NS_PER_MS INT64_C(1000000)
#define BASE_NS_PER_S  INT64_C(1000000000)

/* No deadline: later than any clock reading. */
#define BASE_NEVER INT64_MAX

int64_t base_monotonic_ns(void);
int64_t base_wall_unix_ms(void);

/* `ms` from now on the monotonic clock, saturating at BASE_NEVER; `ms` < 0 counts as 0. */
int64_t base_deadline_after_ms(int64_t ms);

#endif
