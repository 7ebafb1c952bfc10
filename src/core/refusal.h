/*
 * The refusals of the contract, each in one place: class, code and reason of a mark belong
 * together, so callers name the cause and cannot mix them. All return false.
 */
#ifndef CORE_REFUSAL_H
#define CORE_REFUSAL_H

/* X(function suffix, class, code, reason): nothing ran. */
#define CORE_REFUSALS(X)                                                                           \
    X(request, INVALID_REQUEST, INVALID_ARGUMENT, REQUEST)                                         \
    X(permission, REMOTE, PERMISSION_DENIED, PERMISSION)                                           \
    X(isolation, INSUFFICIENT_ISOLATION, FAILED_PRECONDITION, ISOLATION)                           \
    X(software, SOFTWARE_MISMATCH, FAILED_PRECONDITION, ENVIRONMENT)                               \
    X(environment, REMOTE, INTERNAL, ENVIRONMENT)                                                  \
    X(configuration, INVALID_OPTION, FAILED_PRECONDITION, ENVIRONMENT)                             \
    X(disabled, DISABLED, FAILED_PRECONDITION, UNSUPPORTED)                                        \
    X(unsupported, UNSUPPORTED, UNIMPLEMENTED, UNSUPPORTED)                                        \
    X(capacity, AT_CAPACITY, RESOURCE_EXHAUSTED, CAPACITY)

/* Declares core_refuse_request, core_refuse_isolation, ... */
#define X(name, class, code, reason)                                                               \
    bool core_refuse_##name(plim_error *err, const char *format, ...) PLIM_PRINTF(2, 3);
CORE_REFUSALS(X)
#undef X

/* A fault of the machinery after dispatch may have begun: unmarked, `internal`. */
bool core_fail_internal(plim_error *err, const char *format, ...) PLIM_PRINTF(2, 3);

/* The caller went away, or its own deadline passed, while a run was in flight: unmarked. */
bool core_fail_gone(plim_error *err, run_wait why);

/* The same before dispatch: marked `request` when cancelled, `capacity` when its deadline passed.
 */
bool core_refuse_gone(plim_error *err, run_wait why);

#endif
