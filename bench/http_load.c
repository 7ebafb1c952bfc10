#include "http_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, ANSWER_BYTES_MAX = 65536, SAMPLES_MAX = 1 << 20 };

struct connection {
    int fd;
    double sent_s;
    size_t have;
    char answer[ANSWER_BYTES_MAX];
};

static struct connection connections[CONNECTIONS_MAX];
static double samples_ms[SAMPLES_MAX];

double load_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("bench: connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void send_request(struct connection *connection, const char *request, size_t length)
{
    connection->have = 0;
    connection->sent_s = load_now_s();
    if (send(connection->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length)
        die("bench: send");
}

/* Length of the complete answer in the buffer, or 0. */
static size_t complete(struct connection *connection)
{
    connection->answer[connection->have] = '\0';
    const char *end = strstr(connection->answer, "\r\n\r\n");
    if (!end)
        return 0;
    const char *length = strcasestr(connection->answer, "\r\ncontent-length:");
    if (strncmp(connection->answer, "HTTP/1.1 200", 12) != 0 || !length || length > end) {
        fprintf(stderr, "bench: unexpected answer: %.200s\n", connection->answer);
        exit(1);
    }
    size_t whole = (size_t)(end + 4 - connection->answer) + strtoul(length + 17, NULL, 10);
    return connection->have >= whole ? whole : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static load_result summary(size_t samples, double seconds)
{
    qsort(samples_ms, samples, sizeof(*samples_ms), compare);
    return (load_result){
        .per_s = (double)samples / seconds,
        .p50_ms = samples_ms[samples / 2],
        .p99_ms = samples_ms[samples * 99 / 100],
        .answers = (long)samples,
    };
}

load_result load_run(int port, const char *request, size_t count, double seconds)
{
    struct pollfd fds[CONNECTIONS_MAX];
    size_t length = strlen(request), samples = 0;
    for (size_t i = 0; i < count; i++) {
        connections[i].fd = connect_to(port);
        fds[i] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
        send_request(&connections[i], request, length);
    }
    double began = load_now_s(), now = began;
    while (now - began < seconds && samples < SAMPLES_MAX) {
        if (poll(fds, count, 10000) <= 0)
            die("bench: no answer");
        now = load_now_s();
        for (size_t i = 0; i < count && samples < SAMPLES_MAX; i++) {
            struct connection *connection = &connections[i];
            if (!fds[i].revents)
                continue;
            ssize_t got = recv(connection->fd, connection->answer + connection->have,
                               ANSWER_BYTES_MAX - 1 - connection->have, 0);
            if (got <= 0)
                die("bench: recv");
            connection->have += (size_t)got;
            if (!complete(connection))
                continue;
            samples_ms[samples++] = (load_now_s() - connection->sent_s) * 1e3;
            send_request(connection, request, length);
        }
    }
    for (size_t i = 0; i < count; i++)
        close(connections[i].fd);
    return summary(samples, now - began);
}
