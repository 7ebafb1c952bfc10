/*
 * Our codec as a filter, for a comparison with another one: frames of {codec, length of the type's
 * name, length of the message, name, message} in; {decoded, length, binary, length, JSON} out.
 */
#include "wire/wire.h"

enum { MESSAGE_BYTES_MAX = 16 * 1024 * 1024, NAME_MAX_BYTES = 256 };

struct frame {
    uint8_t codec, name_length;
    uint32_t length; /* of the machine's byte order */
} __attribute__((packed));

static bool read_exactly(void *to, size_t size)
{
    return size == 0 || fread(to, size, 1, stdin) == 1;
}

static const wire_type *find_type(const char *name)
{
    static const wire_type *const types[] = {
#define X(lower, generated) WIRE_TYPE(lower),
        WIRE_MESSAGES(X)
#undef X
    };
    for (size_t i = 0; i < PLIM_COUNT(types); i++)
        if (strcmp(types[i]->short_name, name) == 0)
            return types[i];
    return NULL;
}

static void write_encoded(wire_codec codec, const void *message)
{
    base_buf buf = BASE_BUF_INIT(MESSAGE_BYTES_MAX);
    if (!wire_encode(codec, message, &buf))
        exit(1);
    uint32_t length = (uint32_t)buf.len;
    fwrite(&length, sizeof(length), 1, stdout);
    fwrite(base_buf_text(&buf), 1, buf.len, stdout);
    base_buf_free(&buf);
}

int main(void)
{
    struct frame frame;
    while (read_exactly(&frame, sizeof(frame))) {
        char name[NAME_MAX_BYTES] = {0};
        base_buf in = BASE_BUF_INIT(MESSAGE_BYTES_MAX);
        char *room = base_buf_reserve(&in, frame.length);
        if (!room || !read_exactly(name, frame.name_length) || !read_exactly(room, frame.length))
            return 1;
        base_arena *arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
        const wire_type *type = find_type(name);
        if (!arena || !type)
            return 1;
        void *message = wire_decode(arena, frame.codec ? WIRE_JSON : WIRE_PROTO, type,
                                    (plim_bytes){in.data, frame.length}, NULL);
        putchar(message != NULL);
        if (message) {
            write_encoded(WIRE_PROTO, message);
            write_encoded(WIRE_JSON, message);
        }
        fflush(stdout);
        base_arena_free(arena);
        base_buf_free(&in);
    }
    return 0;
}
