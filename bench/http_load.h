/*
 * A small load generator: a number of kept-alive HTTP/1.1 connections on loopback, each sending the
 * same request again as soon as its answer is complete. One thread; the same code loads the daemon
 * and what it is compared with.
 */
#ifndef BENCH_HTTP_LOAD_H
#define BENCH_HTTP_LOAD_H

#include <stddef.h>

typedef struct load_result {
    double per_s;          /* answers a second */
    double p50_ms, p99_ms; /* from the first byte sent to the last byte received */
    long answers;
} load_result;

/*
 * Send `request` to 127.0.0.1:`port` over `count` connections for about `seconds`. Every answer
 * must have status 200 and a Content-Length; anything else ends the program with a message.
 */
load_result load_run(int port, const char *request, size_t count, double seconds);

double load_now_s(void);

#endif
