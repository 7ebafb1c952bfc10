/*
 * The report of a run, in the two parts that it is made of: the steps, whose outputs are cut so
 * that all of them fit their budget, and the artifacts, which are dropped from the end until the
 * whole fits. It ends as one frame. Appending allocates; a report that ran out of memory says so
 * when it is written.
 */
#ifndef GUEST_CTL_REPORT_H
#define GUEST_CTL_REPORT_H

#include "common.h"
#include "ctl.h"
#include "step.h"

struct ctl_report {
    base_buf steps, artifacts;
    size_t artifact_ends[CTL_PLAN_ARTIFACTS_MAX]; /* of each in `artifacts`, without the comma after
                                                     it */
    size_t artifact_count, artifact_bytes;        /* `artifact_bytes`: raw, of all */
    bool artifacts_truncated;
};

void ctl_report_init(struct ctl_report *report);

void ctl_report_step(struct ctl_report *report, plim_bytes command,
                     const struct ctl_step_result *result);

/* Add an artifact read from `fd`, of `size` bytes when it was opened. False when it does not fit,
 * and then the report says that artifacts were cut; one that cannot be read is left out. */
bool ctl_report_artifact(struct ctl_report *report, plim_bytes path, int fd, size_t size);

/*
 * Write the frame: the report's, or with `error` one that says only that. `key` of CTL_KEY_BYTES
 * authenticates it; NULL leaves it unsigned. False when memory or the descriptor failed.
 */
bool ctl_report_write(struct ctl_report *report, int fd, const unsigned char *key);
bool ctl_report_write_error(int fd, const unsigned char *key, const char *error, plim_bytes about);

/* The longest prefix of text of at most `max` bytes that does not cut a character. Pure. */
plim_bytes ctl_cut_text(plim_bytes text, size_t max);

#endif
