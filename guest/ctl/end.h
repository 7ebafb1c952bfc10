/*
 * The end of a container, told by its first process: what its kernel counted is read, and a signed
 * frame becomes the last thing on each stream. The frame stands in ctl.h.
 */
#ifndef GUEST_CTL_END_H
#define GUEST_CTL_END_H

#include "common.h"
#include "ctl.h"

/* How many of the writable places have no block left. */
uint32_t ctl_end_full_places(void);

/*
 * Write the frames to both descriptors, once ctl_tree_end has ended every other process. `disk` is
 * what ctl_end_full_places said. False when a descriptor broke: then no frame, or only one, was
 * written.
 */
bool ctl_end_write(const int streams[2], const unsigned char key[CTL_KEY_BYTES], int status,
                   uint32_t disk);

/* A frame of the stream that CTL_END_STDOUT or CTL_END_STDERR names. Pure. */
void ctl_end_frame(const struct ctl_end *end, const char *stream,
                   const unsigned char key[CTL_KEY_BYTES], char out[CTL_END_BYTES]);

#endif
