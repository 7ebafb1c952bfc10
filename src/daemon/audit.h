/*
 * Audit lines: what was asked, what ran it and how it ended, never what the code or its output was.
 * The messages, the keys and their order are an interface that programs read. Pure: a call in, the
 * fields of one log line out.
 */
#ifndef DAEMON_AUDIT_H
#define DAEMON_AUDIT_H

#include "core/core.h"

/* One dispatched call. Everything is borrowed. */
typedef struct daemon_audit_call {
    const core_request *request;
    plim_bytes caller;         /* id of the principal, or `anon` */
    plim_bytes trace_id;       /* accepted; empty for none */
    bool trace_id_rejected;    /* one was sent and is not well formed */
    const char *sandbox;       /* provider */
    const char *isolation;     /* tier the call ran behind, or the provider's now */
    const plim_result *result; /* NULL when it failed */
    const plim_error *error;   /* when it failed */
    int64_t duration_ms;       /* when it failed; a result has its own */
} daemon_audit_call;

enum { DAEMON_AUDIT_FIELDS_MAX = 24 };

typedef struct daemon_audit_line {
    base_log_level level;
    const char *message;
    base_log_field fields[DAEMON_AUDIT_FIELDS_MAX];
    size_t count;
} daemon_audit_line;

void daemon_audit_build(const daemon_audit_call *call, daemon_audit_line *out);

#endif
