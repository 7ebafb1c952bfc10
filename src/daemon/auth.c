#include "daemon/auth.h"

#include "daemon/throttle.h"
#include "registry/registry.h"

/* A caller of the registry under the digest of its token. */
struct entry {
    unsigned char digest[BASE_SHA256_BYTES];
    daemon_caller caller;
};

struct daemon_auth {
    daemon_auth_mode mode;
    registry *registry;    /* holds what the entries borrow; NULL without one */
    struct entry *entries; /* sorted by digest; one for a shared token */
    size_t count;
    daemon_throttle refused;
};

static const plim_bytes shared_scope = {"code:run", 8};

/* ---- the registry ---- */

static int by_digest(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return memcmp(x->digest, y->digest, sizeof(x->digest));
}

static unsigned char hex_value(char c)
{
    return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* The registry's parser has checked that these are 64 lowercase hex digits. */
static void read_digest(const char *hex, unsigned char out[BASE_SHA256_BYTES])
{
    for (size_t i = 0; i < BASE_SHA256_BYTES; i++)
        out[i] = (unsigned char)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
}

static bool use_registry(daemon_auth *auth, const char *path, plim_error *err)
{
    if (!registry_load(path, &auth->registry, err))
        return plim_error_wrap(err, "PLIMSOLL_CLIENTS_FILE");
    if (auth->registry->count == 0)
        return core_refuse_configuration(err, "PLIMSOLL_CLIENTS_FILE: %s names no caller", path);
    auth->mode = DAEMON_AUTH_REGISTRY;
    auth->count = auth->registry->count;
    auth->entries = base_alloc(auth->count, sizeof(*auth->entries));
    if (!auth->entries)
        return plim_refuse_nomem(err);
    for (size_t i = 0; i < auth->count; i++) {
        const registry_caller *from = &auth->registry->callers[i];
        struct entry *to = &auth->entries[i];
        read_digest(from->fingerprint, to->digest);
        to->caller = (daemon_caller){from->id, from->scopes, from->scope_count};
    }
    qsort(auth->entries, auth->count, sizeof(*auth->entries), by_digest);
    base_log(BASE_LOG_INFO, "callers loaded", LOG_INT("callers", (int64_t)auth->count));
    return true;
}

/* ---- the shared token ---- */

static bool use_shared(daemon_auth *auth, const char *token, plim_error *err)
{
    auth->mode = DAEMON_AUTH_SHARED;
    auth->count = 1;
    auth->entries = base_new(struct entry);
    if (!auth->entries)
        return plim_refuse_nomem(err);
    auth->entries->caller = (daemon_caller){PLIM_LIT("static"), &shared_scope, 1};
    return base_sha256_of(plim_bytes_of(token), auth->entries->digest) ||
           core_fail_internal(err, "cannot compute a SHA-256");
}

/* ---- nobody ---- */

static bool use_open(daemon_auth *auth, const core_daemon_settings *settings, bool runs_code,
                     plim_error *err)
{
    auth->mode = DAEMON_AUTH_OPEN;
    if (runs_code && settings->insecure != CORE_ACK_GIVEN)
        return core_refuse_configuration(
            err, "callers are not authenticated: set PLIMSOLL_CLIENTS_FILE (or PLIMSOLL_TOKEN); "
                 "for development only, PLIMSOLL_INSECURE=1 lets everybody run code");
    base_log(BASE_LOG_WARN, "callers are not authenticated: every caller may run code");
    return true;
}

/* ---- all of them ---- */

static bool choose(daemon_auth *auth, const core_daemon_settings *settings, bool runs_code,
                   plim_error *err)
{
    if (settings->clients_file[0])
        return use_registry(auth, settings->clients_file, err);
    if (settings->token[0])
        return use_shared(auth, settings->token, err);
    return use_open(auth, settings, runs_code, err);
}

daemon_auth *daemon_auth_new(core_daemon_settings *settings, bool runs_code, plim_error *err)
{
    daemon_auth *auth = base_new(daemon_auth);
    if (!auth) {
        plim_refuse_nomem(err);
        return NULL;
    }
    auth->refused = (daemon_throttle)DAEMON_THROTTLE_INIT;
    bool chosen = choose(auth, settings, runs_code, err);
    base_wipe(settings->token, sizeof(settings->token));
    if (chosen)
        return auth;
    daemon_auth_free(auth);
    return NULL;
}

void daemon_auth_free(daemon_auth *auth)
{
    if (!auth)
        return;
    base_free_secret(auth->entries, auth->count * sizeof(*auth->entries));
    registry_free(auth->registry);
    base_free(auth);
}

daemon_auth_mode daemon_auth_mode_of(const daemon_auth *auth)
{
    return auth->mode;
}

/* ---- verifying ---- */

/* One entry: a comparison that takes the same time whatever it holds. */
static const struct entry *match_shared(const daemon_auth *auth, const struct entry *sought)
{
    return base_equal_constant_time(auth->entries->digest, sought->digest, BASE_SHA256_BYTES)
               ? auth->entries
               : NULL;
}

daemon_auth_verdict daemon_auth_verify(const daemon_auth *auth, plim_bytes token,
                                       const daemon_caller **out)
{
    struct entry sought;
    if (!base_sha256_of(token, sought.digest))
        return DAEMON_AUTH_FAILED;
    /* How long a search by digest takes tells nothing of use about the tokens behind the digests.
     */
    const struct entry *found =
        auth->mode == DAEMON_AUTH_SHARED
            ? match_shared(auth, &sought)
            : bsearch(&sought, auth->entries, auth->count, sizeof(sought), by_digest);
    base_wipe(&sought, sizeof(sought));
    if (!found)
        return DAEMON_AUTH_UNKNOWN;
    *out = &found->caller;
    return DAEMON_AUTH_KNOWN;
}

bool daemon_caller_has_scope(const daemon_caller *caller, const char *scope)
{
    for (size_t i = 0; i < caller->scope_count; i++)
        if (base_bytes_is(caller->scopes[i], scope) || base_bytes_is(caller->scopes[i], "*"))
            return true;
    return false;
}

/* ---- refusals ---- */

static void write_refused(const daemon_throttled *line)
{
    base_log(BASE_LOG_WARN, "credentials refused", LOG_INT("count", (int64_t)line->count),
             LOG_INT("window_ms", line->window_ms));
}

void daemon_auth_count_refused(daemon_auth *auth)
{
    daemon_throttled line;
    if (daemon_throttle_hit(&auth->refused, base_monotonic_ns(), &line))
        write_refused(&line);
}

void daemon_auth_report_refused(daemon_auth *auth, bool flush)
{
    daemon_throttled line;
    if (daemon_throttle_due(&auth->refused, base_monotonic_ns(), flush, &line))
        write_refused(&line);
}

/* ---- for rpc ---- */

static rpc_auth_verdict rpc_verify(void *data, plim_bytes token, rpc_caller *out)
{
    const daemon_caller *caller = NULL;
    switch (daemon_auth_verify(data, token, &caller)) {
    case DAEMON_AUTH_KNOWN:
        *out = (rpc_caller){caller->id, caller};
        return RPC_AUTH_KNOWN;
    case DAEMON_AUTH_UNKNOWN:
        return RPC_AUTH_UNKNOWN;
    case DAEMON_AUTH_FAILED:
        break;
    }
    base_log(BASE_LOG_ERROR, "a credential could not be verified",
             LOG_STR("error", "cannot compute a SHA-256"));
    return RPC_AUTH_FAILED;
}

static bool rpc_has_scope(void *data, const rpc_caller *caller, const char *scope)
{
    (void)data;
    return daemon_caller_has_scope(caller->known, scope);
}

static void rpc_refused(void *data)
{
    daemon_auth_count_refused(data);
}

bool daemon_auth_for_rpc(daemon_auth *auth, rpc_authenticator *out)
{
    *out = (rpc_authenticator){rpc_verify, rpc_has_scope, rpc_refused, auth};
    return auth->mode != DAEMON_AUTH_OPEN;
}
