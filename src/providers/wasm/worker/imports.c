#include "imports.h"

#include <string.h>

#include "providers/wasm/protocol.h"

/* WASI error numbers and the like, from the preview 1 interface. */
enum { WASI_OK = 0, WASI_BADF = 8, WASI_FAULT = 21, WASI_INVAL = 28, WASI_SPIPE = 70 };
enum { WASI_CLOCK_REALTIME, WASI_CLOCK_MONOTONIC, WASI_CLOCK_PROCESS, WASI_CLOCK_THREAD };
enum { WASI_FILETYPE_CHARACTER_DEVICE = 2 };

#define WASI_RIGHT_FD_WRITE (UINT64_C(1) << 6)
#define WASI_FDSTAT_BYTES   24u
#define WASI_IOVEC_BYTES    8u
#define WRITE_BYTES_MAX     0x7fffffffu

#define NS_PER_MS     UINT64_C(1000000)
#define WALL_START_MS UINT64_C(1640995200000) /* 2022-01-01T00:00:00Z */

static const wasm_rt_memory_t *memory;
static const struct engine_ports *ports;
static uint64_t wall_readings, monotonic_readings;
static uint8_t chunk[ENGINE_CHUNK_HEADROOM + PLIM_WORKER_OUTPUT_MAX];

void imports_bind(const wasm_rt_memory_t *guest_memory)
{
    memory = guest_memory;
}

void imports_set_ports(const struct engine_ports *new_ports)
{
    ports = new_ports;
}

void imports_reset(void)
{
    wall_readings = 0;
    monotonic_readings = 0;
}

/* ---- clocks ---- */

/* Both advance one millisecond a reading and know nothing of real time. */
u32 WASI_FUNCTION(clock_time_get)(wasi_instance *instance, u32 id, u64 precision, u32 out)
{
    uint8_t *target = rt_guest_bytes(memory, out, sizeof(uint64_t));
    uint64_t now;

    (void)instance;
    (void)precision;
    switch (id) {
    case WASI_CLOCK_REALTIME:
        now = (WALL_START_MS + wall_readings++) * NS_PER_MS;
        break;
    case WASI_CLOCK_MONOTONIC:
    case WASI_CLOCK_PROCESS:
    case WASI_CLOCK_THREAD:
        now = monotonic_readings++ * NS_PER_MS;
        break;
    default:
        return WASI_INVAL;
    }
    if (target == NULL)
        wasm_rt_trap(WASM_RT_TRAP_OOB);
    memcpy(target, &now, sizeof(now));
    return WASI_OK;
}

/* ---- descriptors ---- */

static uint32_t load_u32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* Bytes of all vectors together; false when one is outside the memory or the sum is beyond what a
 * write may report. */
static bool check_vectors(const uint8_t *vectors, uint32_t count, uint64_t *total)
{
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *vector = vectors + (size_t)i * WASI_IOVEC_BYTES;
        const uint32_t length = load_u32(vector + 4);
        if (rt_guest_bytes(memory, load_u32(vector), length) == NULL)
            return false;
        *total += length;
        if (*total > WRITE_BYTES_MAX)
            return false;
    }
    return true;
}

/* Gathers the vectors into as few chunks as hold them: one import call is one message in nearly all
 * cases. */
static void send_vectors(int fd, const uint8_t *vectors, uint32_t count)
{
    size_t filled = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *vector = vectors + (size_t)i * WASI_IOVEC_BYTES;
        const uint8_t *data = rt_guest_bytes(memory, load_u32(vector), load_u32(vector + 4));
        size_t rest = load_u32(vector + 4);
        while (rest > 0) {
            const size_t space = PLIM_WORKER_OUTPUT_MAX - filled;
            const size_t step = rest < space ? rest : space;
            memcpy(chunk + ENGINE_CHUNK_HEADROOM + filled, data, step);
            filled += step;
            data += step;
            rest -= step;
            if (filled == PLIM_WORKER_OUTPUT_MAX) {
                ports->output(fd, chunk + ENGINE_CHUNK_HEADROOM, filled);
                filled = 0;
            }
        }
    }
    if (filled > 0)
        ports->output(fd, chunk + ENGINE_CHUNK_HEADROOM, filled);
}

u32 WASI_FUNCTION(fd_write)(wasi_instance *instance, u32 fd, u32 iovs, u32 count, u32 out)
{
    const uint8_t *vectors = rt_guest_bytes(memory, iovs, (uint64_t)count * WASI_IOVEC_BYTES);
    uint8_t *written = rt_guest_bytes(memory, out, sizeof(uint32_t));
    uint64_t total;

    (void)instance;
    if (fd != 1 && fd != 2)
        return WASI_BADF;
    if (vectors == NULL || written == NULL)
        return WASI_FAULT;
    if (!check_vectors(vectors, count, &total))
        return total > WRITE_BYTES_MAX ? WASI_INVAL : WASI_FAULT;
    send_vectors((int)fd, vectors, count);
    memcpy(written, &(uint32_t){(uint32_t)total}, sizeof(uint32_t));
    return WASI_OK;
}

u32 WASI_FUNCTION(fd_fdstat_get)(wasi_instance *instance, u32 fd, u32 out)
{
    uint8_t *stat = rt_guest_bytes(memory, out, WASI_FDSTAT_BYTES);
    const uint64_t rights = fd == 0 ? 0 : WASI_RIGHT_FD_WRITE;

    (void)instance;
    if (fd > 2)
        return WASI_BADF;
    if (stat == NULL)
        return WASI_FAULT;
    memset(stat, 0, WASI_FDSTAT_BYTES);
    stat[0] = WASI_FILETYPE_CHARACTER_DEVICE;
    memcpy(stat + 8, &rights, sizeof(rights));
    return WASI_OK;
}

u32 WASI_FUNCTION(fd_seek)(wasi_instance *instance, u32 fd, u64 offset, u32 whence, u32 out)
{
    (void)instance;
    (void)offset;
    (void)whence;
    (void)out;
    return fd <= 2 ? WASI_SPIPE : WASI_BADF;
}

/* Nothing may be closed. */
u32 WASI_FUNCTION(fd_close)(wasi_instance *instance, u32 fd)
{
    (void)instance;
    (void)fd;
    return WASI_BADF;
}

/* ---- host calls ---- */

static uint64_t packed(uint32_t status, uint32_t body_length)
{
    return (uint64_t)status << 32 | body_length;
}

static uint64_t refusal(uint32_t status, const char *text, uint8_t *body, uint32_t capacity)
{
    const size_t length = strlen(text);

    if (body == NULL || length > capacity)
        return packed(500, 0);
    memcpy(body, text, length);
    return packed(status, (uint32_t)length);
}

u64 PLIMSOLL_FUNCTION(host_call)(plimsoll_instance *instance, u32 request, u32 request_length,
                                 u32 response, u32 capacity)
{
    const uint8_t *envelope = rt_guest_bytes(memory, request, request_length);
    uint8_t *body = rt_guest_bytes(memory, response, capacity);
    uint32_t status, body_length = 0;

    (void)instance;
    if (request_length == 0 || request_length > PLIM_WORKER_ENVELOPE_MAX)
        return refusal(413, "host api request envelope too large\n", body, capacity);
    if (envelope == NULL)
        return refusal(400, "invalid host api request envelope\n", body, capacity);
    if (body == NULL)
        return packed(500, 0);
    status = ports->call(envelope, request_length, body, capacity, &body_length);
    if (status < 100 || status > 599 || body_length > capacity)
        return packed(500, 0);
    return packed(status, body_length);
}
