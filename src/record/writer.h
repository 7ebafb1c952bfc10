/*
 * The one writer of digests: a domain, then named fields in order, streamed
 * into SHA-256. A value is its length as 8 bytes big-endian, then its bytes. Errors are remembered,
 * so a run of fields needs one check, at record_writer_finish. One thread at a time.
 */
#ifndef RECORD_WRITER_H
#define RECORD_WRITER_H

#include "base/base.h"

typedef struct record_writer {
    base_sha256 *sha;
} record_writer;

/* Start a digest. Memory that runs out is reported by record_writer_finish. */
record_writer record_writer_start(const char *domain);

void record_write_bytes(record_writer *writer, const char *name, plim_bytes content);
void record_write_text(record_writer *writer, const char *name, const char *content);
void record_write_int(record_writer *writer, const char *name, int64_t value);
void record_write_uint(record_writer *writer, const char *name, uint64_t value);
void record_write_bool(record_writer *writer, const char *name, bool value);
/* One field that holds `count` doubles as their IEEE 754 bits, big-endian. */
void record_write_doubles(record_writer *writer, const char *name, const double *values,
                          size_t count);

/* End the digest and release the writer: lowercase hex, or false when memory or the library failed.
 */
bool record_writer_finish(record_writer *writer, char out[BASE_SHA256_HEX + 1]) PLIM_MUST_USE;

#endif
