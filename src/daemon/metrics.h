/*
 * The metrics of the daemon: one table, from which the numbers, their names and the text that
 * /metrics serves are made. A snapshot is plain numbers; building the text is pure.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "core/core.h"

/* Why work was shed, in the order of the series. The paid reasons belong to providers that are
 * billed by the second; their series exist at zero so that dashboards need not change. */
#define DAEMON_SHED_REASONS(X) X(at_capacity) X(per_key) X(rate) X(paid_caller) X(paid_daemon)

enum {
#define X(reason) DAEMON_SHED_##reason,
    DAEMON_SHED_REASONS(X) DAEMON_SHED_COUNT
#undef X
};

/* X(member, name, type, label or "", names of its values or NULL, number of series, help) */
#define DAEMON_METRICS(X)                                                                          \
    X(runs, "plimsoll_runs_total", "counter", "", NULL, 1, "Calls dispatched to the provider.")    \
    X(runs_failed, "plimsoll_runs_failed_total", "counter", "", NULL, 1,                           \
      "Dispatched calls that failed with an infrastructure fault.")                                \
    X(inflight, "plimsoll_inflight", "gauge", "", NULL, 1, "Run slots held.")                      \
    X(shed, "plimsoll_shed_total", "counter", "reason", daemon_shed_names, DAEMON_SHED_COUNT,      \
      "Calls refused at admission, by reason.")

typedef struct daemon_metrics {
#define X(member, name, type, label, values, count, help) uint64_t member[count];
    DAEMON_METRICS(X)
#undef X
} daemon_metrics;

/* The exposition format, version 0.0.4. `out` fails when it is too small. */
void daemon_metrics_text(const daemon_metrics *metrics, base_buf *out);

/* A label's value as the format wants it: backslash, double quote and newline escaped. */
void daemon_metrics_add_label(base_buf *out, const char *value);

/* Is this error of a dispatched call a fault of the infrastructure, rather than a refusal or the
 * caller's own end? */
bool daemon_metrics_is_fault(const plim_error *err);

#endif
