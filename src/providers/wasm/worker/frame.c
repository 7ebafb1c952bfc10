#include "frame.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Received ahead: a typical run message arrives with one system call. Wiped once used: a later run
   must not find an earlier one's source even by escaping the engine. */
static uint8_t ahead[65536];
static size_t ahead_start, ahead_end;
static_assert(sizeof(ahead) >= PLIM_WORKER_PACKET_MAX, "a packet is received whole");

/* ---- saying ---- */

static struct plim_worker_outbox *outbox;

bool frame_open_outbox(int fd)
{
    void *page =
        mmap(NULL, sizeof(*outbox), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (page == MAP_FAILED)
        return false;
    outbox = page;
    return true;
}

/* The parent may find the page as any instruction leaves it: these two words in this order, and the
 * bytes before the length that counts them. */
static void count_waiting(uint32_t length)
{
    __atomic_store_n(&outbox->length, length, __ATOMIC_RELEASE);
}

static void count_sent(size_t length)
{
    __atomic_store_n(&outbox->sent, outbox->sent + length, __ATOMIC_RELEASE);
}

static void send_all(const uint8_t *data, size_t length)
{
    while (length > 0) {
        const size_t piece = length < PLIM_WORKER_PACKET_MAX ? length : PLIM_WORKER_PACKET_MAX;
        const ssize_t sent = send(PLIM_WORKER_FD, data, piece, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            _exit(PLIM_WORKER_EXIT_OK); /* the parent is gone */
        data += sent;
        length -= (size_t)sent;
    }
}

void frame_flush(void)
{
    const uint32_t length = outbox->length;

    if (length == 0)
        return;
    send_all(outbox->bytes, length);
    count_waiting(0);
    count_sent(length);
    memset(outbox->bytes, 0, length); /* for the same reason as `ahead` */
}

/* Adds a frame to what waits, after making room; false when it is larger than the outbox. */
static bool add(struct plim_worker_frame header, const void *payload)
{
    const size_t size = sizeof(header) + header.length;

    if (size > sizeof(outbox->bytes))
        return false;
    if (size > sizeof(outbox->bytes) - outbox->length)
        frame_flush();
    uint8_t *at = outbox->bytes + outbox->length;
    memcpy(at, &header, sizeof(header));
    if (header.length > 0)
        memcpy(at + sizeof(header), payload, header.length);
    count_waiting(outbox->length + (uint32_t)size);
    return true;
}

void frame_say(uint8_t tag, const void *payload, size_t length)
{
    const struct plim_worker_frame header = {.tag = tag, .length = (uint32_t)length};

    if (add(header, payload))
        return;
    frame_flush();
    send_all((const uint8_t *)&header, sizeof(header));
    send_all(payload, length);
    count_sent(sizeof(header) + length);
}

void frame_say_in_place(uint8_t tag, uint8_t *payload, size_t length)
{
    const struct plim_worker_frame header = {.tag = tag, .length = (uint32_t)length};
    uint8_t *start = payload - sizeof(header);

    if (!add(header, payload)) {
        frame_flush();
        memcpy(start, &header, sizeof(header));
        send_all(start, sizeof(header) + length);
        count_sent(sizeof(header) + length);
    }
    memset(start, 0, sizeof(header) + length); /* for the same reason as `ahead` */
}

/* ---- receiving ---- */

/* Each asks in about a microsecond: together as long as a caller that runs one snippet after the
 * other takes for what it does between them. */
enum { ASK_TIMES = 30 };

bool frame_ask(void)
{
    for (int i = 0; i < ASK_TIMES; i++) {
        const ssize_t got = recv(PLIM_WORKER_FD, ahead, sizeof(ahead), MSG_DONTWAIT);
        if (got > 0) {
            ahead_end = (size_t)got;
            return true;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            _exit(PLIM_WORKER_EXIT_OK); /* the parent is gone */
        sched_yield();                  /* it may be waiting for this very processor */
    }
    return false;
}

static size_t receive_some(void *target, size_t length)
{
    ssize_t got;

    do {
        got = recv(PLIM_WORKER_FD, target, length, 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        _exit(PLIM_WORKER_EXIT_OK); /* the parent is gone */
    return (size_t)got;
}

void frame_receive(void *target, size_t length)
{
    uint8_t *at = target;

    while (length > 0) {
        size_t step = ahead_end - ahead_start;
        if (step > 0) {
            step = step < length ? step : length;
            memcpy(at, ahead + ahead_start, step);
            ahead_start += step;
        } else if (length >= sizeof(ahead)) {
            step = receive_some(at, length);
        } else {
            memset(ahead, 0, ahead_end);
            ahead_start = 0;
            ahead_end = receive_some(ahead, sizeof(ahead));
            continue;
        }
        at += step;
        length -= step;
    }
}

void frame_skip(size_t length)
{
    uint8_t drop[4096];

    while (length > 0) {
        const size_t step = length < sizeof(drop) ? length : sizeof(drop);
        frame_receive(drop, step);
        length -= step;
    }
}

uint32_t frame_expect(uint8_t tag, uint32_t length_min, uint32_t length_max)
{
    struct plim_worker_frame header;

    frame_receive(&header, sizeof(header));
    if (header.tag != tag || header.length < length_min || header.length > length_max)
        _exit(PLIM_WORKER_EXIT_PROTOCOL);
    return header.length;
}

void frame_end(void)
{
    if (ahead_start != ahead_end)
        _exit(PLIM_WORKER_EXIT_PROTOCOL);
    memset(ahead, 0, ahead_end);
    ahead_start = 0;
    ahead_end = 0;
}
