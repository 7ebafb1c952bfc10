#include "record/writer.h"

enum { WORD_BYTES = 8 };

static void put_word(char out[WORD_BYTES], uint64_t word)
{
    for (int i = 0; i < WORD_BYTES; i++)
        out[i] = (char)(word >> (8 * (WORD_BYTES - 1 - i)));
}

static void write_length(record_writer *writer, size_t length)
{
    char prefix[WORD_BYTES];
    put_word(prefix, length);
    base_sha256_update(writer->sha, (plim_bytes){prefix, sizeof(prefix)});
}

static void write_value(record_writer *writer, plim_bytes value)
{
    write_length(writer, value.len);
    base_sha256_update(writer->sha, value);
}

record_writer record_writer_start(const char *domain)
{
    record_writer writer = {base_sha256_new()};
    if (writer.sha)
        write_value(&writer, plim_bytes_of(domain));
    return writer;
}

void record_write_bytes(record_writer *writer, const char *name, plim_bytes content)
{
    if (!writer->sha)
        return;
    write_value(writer, plim_bytes_of(name));
    write_value(writer, content);
}

void record_write_text(record_writer *writer, const char *name, const char *content)
{
    record_write_bytes(writer, name, plim_bytes_of(content));
}

void record_write_int(record_writer *writer, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    record_write_text(writer, name, text);
}

void record_write_uint(record_writer *writer, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    record_write_text(writer, name, text);
}

void record_write_bool(record_writer *writer, const char *name, bool value)
{
    record_write_text(writer, name, value ? "true" : "false");
}

void record_write_doubles(record_writer *writer, const char *name, const double *values,
                          size_t count)
{
    if (!writer->sha)
        return;
    write_value(writer, plim_bytes_of(name));
    write_length(writer, count * WORD_BYTES);
    char block[64][WORD_BYTES];
    for (size_t at = 0; at < count;) {
        size_t filled = 0;
        for (; filled < PLIM_COUNT(block) && at < count; filled++, at++) {
            uint64_t bits;
            memcpy(&bits, &values[at], sizeof(bits));
            put_word(block[filled], bits);
        }
        base_sha256_update(writer->sha, (plim_bytes){block[0], filled * WORD_BYTES});
    }
}

bool record_writer_finish(record_writer *writer, char out[BASE_SHA256_HEX + 1])
{
    unsigned char hash[BASE_SHA256_BYTES];
    bool finished = writer->sha && base_sha256_final(writer->sha, hash);
    if (finished)
        base_hex(hash, sizeof(hash), out);
    else
        out[0] = '\0';
    base_sha256_free(TAKE_PTR(writer->sha));
    return finished;
}
