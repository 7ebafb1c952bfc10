#include "frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Received ahead: a typical run message arrives with one system call. Wiped once used: a later run
   must not find an earlier one's source even by escaping the engine. */
static uint8_t ahead[65536];
static size_t ahead_start, ahead_end;

static void send_all(const uint8_t *data, size_t length, int flags)
{
    while (length > 0) {
        const ssize_t sent = send(PLIM_WORKER_FD, data, length, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            _exit(PLIM_WORKER_EXIT_OK); /* the parent is gone */
        data += sent;
        length -= (size_t)sent;
    }
}

void frame_send(uint8_t tag, const void *payload, size_t length)
{
    const struct plim_worker_frame header = {.tag = tag, .length = (uint32_t)length};
    uint8_t small[sizeof(header) + PLIM_WORKER_TRAP_MAX];

    memcpy(small, &header, sizeof(header));
    if (length <= PLIM_WORKER_TRAP_MAX) {
        if (length > 0)
            memcpy(small + sizeof(header), payload, length);
        send_all(small, sizeof(header) + length, 0);
        return;
    }
    send_all(small, sizeof(header), MSG_MORE);
    send_all(payload, length, 0);
}

void frame_send_in_place(uint8_t tag, uint8_t *payload, size_t length)
{
    const struct plim_worker_frame header = {.tag = tag, .length = (uint32_t)length};
    uint8_t *start = payload - sizeof(header);

    memcpy(start, &header, sizeof(header));
    send_all(start, sizeof(header) + length, 0);
    memset(start, 0, sizeof(header) + length); /* for the same reason as `ahead` */
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
