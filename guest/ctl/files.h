/*
 * Files of the work directory, which the guest may have filled with links, FIFOs and folders that
 * change while they are walked. A path is taken against that directory; links in it are followed
 * only as long as they stay inside, and what is opened is opened step by step below its descriptor
 * without following any. One thread.
 */
#ifndef GUEST_CTL_FILES_H
#define GUEST_CTL_FILES_H

#include <limits.h>

#include "common.h"

struct ctl_root {
    int fd;
    char path[PATH_MAX]; /* as it was named */
    char real[PATH_MAX]; /* with links followed */
};

/* Open a directory by its absolute path, made when missing. False with errno set. */
bool ctl_root_open(struct ctl_root *root, const char *path);

/*
 * Take `path` against the directory `root`, an absolute path, as a shell would: `.` and `..` are
 * worked out in the text, an absolute path stands for itself. False when that lands outside, or is
 * too long. `out` is then relative to `root`: "" is the directory itself. Pure.
 */
bool ctl_path_inside(const char *root, plim_bytes path, char out[PATH_MAX]);

enum ctl_file_fault {
    CTL_FILE_OK = 0,
    CTL_FILE_OUTSIDE,     /* the path, or its parent with links followed, is outside */
    CTL_FILE_NOT_REGULAR, /* there is something else of that name */
    CTL_FILE_FAILED,      /* errno says why */
};

/* Write a file, whole: parents are made, what was in it is dropped. */
enum ctl_file_fault ctl_file_write(const struct ctl_root *root, plim_bytes path,
                                   plim_bytes content);

/* The same for one absolute path whose parent exists and is trusted: no link is followed at its
 * end. */
enum ctl_file_fault ctl_file_write_at(const char *path, plim_bytes content);

/*
 * Open a file for reading. The descriptor, with its size in `*size`, or -1 when it is missing,
 * outside, not a regular file or not readable.
 */
int ctl_file_open(const struct ctl_root *root, plim_bytes path, size_t *size);

#endif
