/*
 * Who may call: the registry, one shared token, or everybody (development). Chosen once at startup;
 * afterwards it never changes and any thread may verify. Tokens are hashed and compared as digests;
 * neither a token nor a fingerprint is ever logged.
 */
#ifndef DAEMON_AUTH_H
#define DAEMON_AUTH_H

#include "rpc/rpc.h"

typedef enum { DAEMON_AUTH_OPEN, DAEMON_AUTH_SHARED, DAEMON_AUTH_REGISTRY } daemon_auth_mode;

/* A verified caller. Lives as long as the auth. */
typedef struct daemon_caller {
    plim_bytes id;
    const plim_bytes *scopes;
    size_t scope_count;
} daemon_caller;

typedef struct daemon_auth daemon_auth;

/*
 * Choose by the settings: the registry, else the shared token, else open mode, which a provider
 * that runs code (`runs_code`) has only with the acknowledgement. Logs what was chosen. Wipes the
 * token from `settings`. NULL and an error that says what is missing otherwise.
 */
daemon_auth *daemon_auth_new(core_daemon_settings *settings, bool runs_code,
                             plim_error *err) PLIM_MUST_USE;
void daemon_auth_free(daemon_auth *auth);

daemon_auth_mode daemon_auth_mode_of(const daemon_auth *auth);

typedef enum {
    DAEMON_AUTH_KNOWN,
    DAEMON_AUTH_UNKNOWN,
    DAEMON_AUTH_FAILED /* the digest could not be computed */
} daemon_auth_verdict;

/* Whose token is this? Not for open mode. */
daemon_auth_verdict daemon_auth_verify(const daemon_auth *auth, plim_bytes token,
                                       const daemon_caller **out);

/* Does a caller hold this scope? `*` holds every one. */
bool daemon_caller_has_scope(const daemon_caller *caller, const char *scope);

/* A credential was refused: count it, and write the one line when it is due. */
void daemon_auth_count_refused(daemon_auth *auth);

/* The same as rpc asks for it; false in open mode, where nobody is asked who they are. */
bool daemon_auth_for_rpc(daemon_auth *auth, rpc_authenticator *out);

/* Write the line for refusals that wait for it: when its time has come, or in any case (`flush`).
 */
void daemon_auth_report_refused(daemon_auth *auth, bool flush);

#endif
