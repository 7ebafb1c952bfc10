/*
 * Hardened mode: the rules that a production daemon must meet before it serves. Pure: facts in, the
 * list of violations out, all of them at once. The numbers are those of docs/hardened-mode.md.
 */
#ifndef DAEMON_HARDENED_H
#define DAEMON_HARDENED_H

#include "core/core.h"

#include "daemon/auth.h"

/* X(number, function suffix, the rule as the document states it) */
#define DAEMON_HARDENED_RULES(X)                                                                   \
    X(1, tier, "the proven tier is vm or kernel")                                                  \
    X(2, registry, "authentication is the caller registry")                                        \
    X(3, insecure, "PLIMSOLL_INSECURE is blank")                                                   \
    X(4, rpc_tls, "TLS is on, or PLIMSOLL_ADDR is a loopback address")                             \
    X(5, metrics_tls, "TLS is on, or PLIMSOLL_METRICS_ADDR is off or a loopback address")          \
    X(7, pinned_images, "docker: SANDBOX_REQUIRE_PINNED_IMAGES is on")                             \
    X(8, seccomp, "docker: SANDBOX_DOCKER_SECCOMP is not unconfined")                              \
    X(11, envelope,                                                                                \
      "SANDBOX_MEMORY_MB, SANDBOX_CPUS and SANDBOX_DISK_MB are set and above 0; docker also "      \
      "SANDBOX_PIDS and SANDBOX_TOTAL_MEMORY_MB")                                                  \
    X(12, rate, "SANDBOX_RATE_PER_MIN is above 0, and SANDBOX_RATE_BURST is not above it")         \
    X(13, per_key,                                                                                 \
      "SANDBOX_PER_KEY_CONCURRENT is above 0 and below the runs that may be in flight at once")

/* What the rules look at: resolved facts, not intentions. All borrowed. */
typedef struct daemon_facts {
    bool tier_known; /* false before the startup test: rule 1 is then left out */
    plim_tier tier;
    daemon_auth_mode auth;
    const core_daemon_settings *daemon;
    const core_settings *sandbox;
    const core_limits *limits; /* effective */
    core_lookup *lookup;       /* to tell a missing variable from one that is 0 */
    void *lookup_ctx;
} daemon_facts;

/* Append every violation, `rule N: what is wrong`, joined by "; ". Returns how many there are. */
size_t daemon_hardened_check(const daemon_facts *facts, base_buf *out);

#endif
