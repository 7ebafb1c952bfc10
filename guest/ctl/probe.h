/* The storage and identity probe: `plimsoll-guest probe`. Its document stands in ctl.h. */
#ifndef GUEST_CTL_PROBE_H
#define GUEST_CTL_PROBE_H

#include "common.h"

/* What to look at beyond what is always looked at. */
struct ctl_probe_options {
    bool kernel, banner, socket;
};

/* Look, and write the document to stdout. The exit status. */
int ctl_probe(const struct ctl_probe_options *options);

/*
 * Parts of it that read the kernel's text; pure.
 *
 * Next mount point of a mount table, its octal escapes undone, into `out` of `size` bytes; false at
 * the end. One that does not fit or is malformed is passed over.
 */
bool ctl_probe_next_mount(plim_bytes *table, char *out, size_t size);

/* Append a JSON list of the numbers of the line `label` ("Uid:") of a status file, or null when it
 * is not there. */
bool ctl_probe_add_ids(base_buf *json, const char *status, const char *label);

/* Append a JSON list of the names in a table of interfaces. */
bool ctl_probe_add_interfaces(base_buf *json, const char *table);

#endif
