/*
 * Settings of capabilities that this version does not have: one table. Somebody who sets one asks
 * for a limit or a rule that nothing here would keep, so a value stops the start, as a limit that
 * cannot be enforced does; `-h` and docs/configuration.md list them. A capability that arrives
 * takes its rows to settings.h. Those that only another vendor's programs have defined
 * (E2B_API_KEY, DOCKER_SBX_TOKEN and the like) are not here: they may stand in an environment for
 * these programs, and the provider that would read them is refused by its name.
 */
#ifndef CORE_ABSENT_H
#define CORE_ABSENT_H

#include "core/settings.h"

/* X(scope, name, does 0 count as unset, capability). Rows of one capability stand together. */
#define CORE_ABSENT(X)                                                                             \
    X(DAEMON, "PLIMSOLL_GRANTS_FILE", false, "grants of host APIs")                                \
    X(DAEMON, "PLIMSOLL_GUARD_ADDR", false, "egress guard")                                        \
    X(SANDBOX, "SANDBOX_MAX_SESSIONS", true, "sessions")                                           \
    X(SANDBOX, "SANDBOX_MAX_SESSIONS_PER_CALLER", true, "sessions")                                \
    X(SANDBOX, "SANDBOX_MAX_SESSIONS_PER_OWNER", true, "sessions")                                 \
    X(SANDBOX, "SANDBOX_SESSION_POOL", true, "sessions")                                           \
    X(SANDBOX, "SANDBOX_SESSION_LIFETIME", false, "sessions")                                      \
    X(SANDBOX, "SANDBOX_SESSION_IDLE", true, "sessions")                                           \
    X(SANDBOX, "SANDBOX_SESSION_DISK_MB", true, "sessions")                                        \
    X(SANDBOX, "SANDBOX_PAID_SECONDS_PER_DAY", true, "providers billed by the second")             \
    X(SANDBOX, "E2B_GUARD_URL", false, "provider e2b")                                             \
    X(SANDBOX, "E2B_SESSION_GRANTS", false, "provider e2b")                                        \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_AUTH_URL", false, "provider dockercloud")                      \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_API", false, "provider dockercloud")                           \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_API_URL", false, "provider dockercloud")                       \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_POLICY_URL", false, "provider dockercloud")                    \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_GUARD_URL", false, "provider dockercloud")                     \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_IMAGE", false, "provider dockercloud")                         \
    X(SANDBOX, "SANDBOX_DOCKERCLOUD_STORE_IMAGE", false, "provider dockercloud")                   \
    X(SANDBOX, "SANDBOX_OPENSHELL_GATEWAY_URL", false, "provider openshell")                       \
    X(SANDBOX, "SANDBOX_OPENSHELL_CA_FILE", false, "provider openshell")                           \
    X(SANDBOX, "SANDBOX_OPENSHELL_CERT_FILE", false, "provider openshell")                         \
    X(SANDBOX, "SANDBOX_OPENSHELL_KEY_FILE", false, "provider openshell")                          \
    X(SANDBOX, "SANDBOX_OPENSHELL_IMAGE", false, "provider openshell")

typedef struct core_absent {
    const char *name;
    core_setting_scope scope; /* who refuses it, as for a setting */
    bool zero_is_unset;
    const char *capability; /* as in "this version has no sessions" */
} core_absent;

/* The table and its length. */
extern const core_absent core_absent_table[];
extern const size_t core_absent_count;

/* The row of a variable; NULL when there is none such. */
const core_absent *core_absent_find(plim_bytes name);

/* Refuse a value of a variable of `scope` through `lookup` that asks for something. Errors:
 * PLIM_E_INVALID_OPTION naming the variable and the capability, never the value. */
bool core_absent_check(core_setting_scope scope, core_lookup *lookup, void *ctx, plim_error *err);

#endif
