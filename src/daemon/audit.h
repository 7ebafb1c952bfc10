/*
 * Audit lines: what was asked, what ran it and how it ended, never what the code or its output was.
 * The messages, the keys and their order are an interface that programs read. Pure: a call in, the
 * fields of one log line out.
 */
#ifndef DAEMON_AUDIT_H
#define DAEMON_AUDIT_H

#include "rpc/rpc.h"

enum { DAEMON_AUDIT_FIELDS_MAX = 24 };

typedef struct daemon_audit_line {
    base_log_level level;
    const char *message;
    base_log_field fields[DAEMON_AUDIT_FIELDS_MAX];
    size_t count;
} daemon_audit_line;

void daemon_audit_build(const rpc_dispatched *call, daemon_audit_line *out);

#endif
