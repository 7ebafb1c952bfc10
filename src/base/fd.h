/* Descriptors: closing with scope, whole reads and writes, bounded file reading. Everything opened
 * is close-on-exec. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <plimsoll/error.h>

#include "base/bytes.h"

/* Close if open and set to -1; errno is kept. */
void base_fd_close(int *fd);
#define _cleanup_fd_ _cleanup_(base_fd_close)

/*
 * Open what is missing of stdin, stdout and stderr, the wrong way round, so that using it fails as
 * it should. Else the next file opened would take its place, and what is meant for a reader would
 * go into it. Before anything else is opened.
 */
void base_fd_occupy_standard(void);

/*
 * Raise the soft limit of descriptors to the hard one and return what holds now; 0 when it cannot
 * be read. Once, before the program has threads. A program that is started later must not inherit
 * it, for some look at every descriptor below their limit or keep them in fixed tables: whoever
 * starts one gives it base_fd_limit_before, the soft limit as it was, or 0 when it was not raised.
 * This pair mirrors a limit of the whole process, so it is process-wide too.
 */
uint64_t base_fd_limit_raise(void);
uint64_t base_fd_limit_before(void);

/*
 * Write everything to a blocking descriptor, through short writes and EINTR. False with errno set
 * otherwise. Raises SIGPIPE on pipes like write; sockets are written with MSG_NOSIGNAL.
 */
bool base_write_all(int fd, plim_bytes bytes) PLIM_MUST_USE;

/*
 * Read until end of file into `buf`, at most its maximum. False with errno set on a read error or,
 * with EFBIG, when there is more than the maximum.
 */
bool base_read_all(int fd, base_buf *buf) PLIM_MUST_USE;

/* The same for a file by name. The error names the path. */
bool base_read_file(const char *path, base_buf *buf, plim_error *err) PLIM_MUST_USE;

#endif
