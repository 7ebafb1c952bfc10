/*
 * What `plimsoll doctor` finds: one finding for each tier and one for each property of the machine.
 * A finding states what was looked at and never more than that. The checks of the machine only
 * look: they open, read and connect, and use nothing they find.
 */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include <stdbool.h>

typedef enum {
    FINDING_NO,   /* it is not there, or it does not work */
    FINDING_SEEN, /* it is there; nobody has tried it */
    FINDING_WORKS /* it was tried, and it works */
} finding_state;

typedef struct finding {
    finding_state state;
    char evidence[640]; /* what was looked at, and what was seen */
    char change[320];   /* the one thing to change; empty when there is nothing to */
} finding;

/* The wasm provider of this library: started, and its startup test run. */
void finding_wasm(finding *out);

/* An Engine behind the usual socket, a runsc in the usual folders, hardware virtualization. */
void finding_engine(finding *out);
void finding_runsc(finding *out);
void finding_kvm(finding *out);

/* What the kernel offers. */
void finding_cgroups(finding *out);
void finding_user_namespaces(finding *out);
void finding_seccomp(finding *out);

/* X(tier, what would run it, check, whether this version has a provider that uses it) */
#define FINDING_TIERS(X)                                                                           \
    X(PROCESS, "wasm", finding_wasm, true)                                                         \
    X(CONTAINER, "Docker Engine", finding_engine, true)                                            \
    X(KERNEL, "runsc", finding_runsc, true)                                                        \
    X(VM, "KVM", finding_kvm, false)

/* X(JSON name, label, check) */
#define FINDING_MACHINE(X)                                                                         \
    X("cgroups", "cgroups", finding_cgroups)                                                       \
    X("user_namespaces", "user namespaces", finding_user_namespaces)                               \
    X("seccomp", "seccomp", finding_seccomp)

#endif
