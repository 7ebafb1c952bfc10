/* The few system calls that every part of the control program needs, through short counts and
 * EINTR. A descriptor opened here is close-on-exec. */
#ifndef GUEST_CTL_IO_H
#define GUEST_CTL_IO_H

#include "common.h"

/* The monotonic clock in milliseconds. */
int64_t ctl_now_ms(void);

/* Write everything to a blocking descriptor; false with errno set. */
bool ctl_write_all(int fd, plim_bytes bytes);

/* Read to the end, at most the buffer's maximum: false with errno set, EFBIG when there is more. */
bool ctl_read_all(int fd, base_buf *buf);

/* The first `size` - 1 bytes of a file at most, with a terminator. False, and "" in `out`, when it
 * cannot be opened or read. */
bool ctl_read_text(const char *path, char *out, size_t size);

/* A message for people on stderr, which reaches nobody's result: "plimsoll-guest: WHAT: WHY". */
void ctl_complain(const char *what, int error);

#endif
