/* Describe: what a daemon says of itself. Discovery; nothing is believed because of it. */
#include "client/call.h"

enum { DESCRIBE_BYTES_MAX = 1 << 20 };

/* The providers of the contract: an info outlives its self, so their names are static. */
static const char *provider_name(plim_bytes name)
{
    static const char *const known[] = {"disabled", "wasm",        "docker",
                                        "e2b",      "dockercloud", "openshell"};
    for (size_t i = 0; i < PLIM_COUNT(known); i++)
        if (base_bytes_is(name, known[i]))
            return known[i];
    return "unknown";
}

static plim_tier tier_of(plim_bytes name)
{
    for (int tier = PLIM_TIER_NONE; tier <= PLIM_TIER_VM; tier++)
        if (base_bytes_is(name, plim_tier_name((plim_tier)tier)))
            return (plim_tier)tier;
    return PLIM_TIER_UNKNOWN;
}

/* A text that does not fit is left out: a part of an identity would be another identity. */
static void copy_text(char *out, size_t size, plim_bytes text)
{
    out[0] = '\0';
    if (text.len >= size)
        return;
    if (text.len)
        memcpy(out, text.data, text.len);
    out[text.len] = '\0';
}

static core_environment read_environment(const wire_payload_environment *in)
{
    core_environment out = {.max_timeout_ms = 0};
    if (!in)
        return out;
    copy_text(out.identity, sizeof(out.identity), in->identity);
    copy_text(out.software_identity, sizeof(out.software_identity), in->software_identity);
    out.max_timeout_ms = in->max_timeout_ms;
    for (size_t i = 0; i < in->n_languages; i++) {
        out.javascript |= base_bytes_is(in->languages[i], "javascript");
        out.python |= base_bytes_is(in->languages[i], "python");
    }
    return out;
}

static void read_description(const wire_describe_response *in, core_description *out)
{
    *out =
        (core_description){.provider = provider_name(in->sandbox), .tier = tier_of(in->isolation)};
    out->supports[PLIM_KIND_JAVASCRIPT] = !base_bytes_is(in->sandbox, "disabled");
    out->supports[PLIM_KIND_PROJECT] = in->supports_project;
    out->supports[PLIM_KIND_MODULE] = in->supports_module;
    out->supports[PLIM_KIND_CELL] = in->supports_sessions;
    out->supports_sessions = in->supports_sessions;
    out->supports_grant[PLIM_KIND_JAVASCRIPT] = in->supports_javascript_grants;
    out->supports_grant[PLIM_KIND_PROJECT] = in->supports_project_grants;
    out->environment[PLIM_KIND_JAVASCRIPT] = read_environment(in->javascript_environment);
    out->environment[PLIM_KIND_PROJECT] = read_environment(in->project_environment);
    out->environment[PLIM_KIND_MODULE] = read_environment(in->module_environment);
    out->environment[PLIM_KIND_CELL] = read_environment(in->session_environment);
    if (in->resources) {
        out->memory_mb = in->resources->memory_mb;
        out->cpus = in->resources->cpus;
        out->pids = in->resources->pids;
        out->disk_mb = in->resources->disk_mb;
    }
    copy_text(out->policy, sizeof(out->policy), in->policy);
}

static bool describe(client *self, const run_ctx *ctx, core_description *out, plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(DESCRIBE_BYTES_MAX);
    _cleanup_(client_answer_free)
    client_answer answer;
    client_answer_init(&answer);
    if (!arena)
        return plim_refuse_nomem(err);
    if (client_call(self, "Describe", (plim_bytes){NULL, 0}, ctx, &answer, err) !=
        CLIENT_CALL_ANSWERED)
        return false;
    const wire_describe_response *response = wire_decode(
        arena, WIRE_PROTO, WIRE_TYPE(describe_response), base_buf_bytes(&answer.body), NULL);
    if (!response)
        return plim_fail(err, PLIM_E_MALFORMED, PLIM_CODE_INTERNAL,
                         "the daemon's description cannot be decoded");
    read_description(response, out);
    if (response->protocol == WIRE_PROTOCOL)
        return true;
    return plim_refuse(err, PLIM_E_PROTOCOL_MISMATCH, PLIM_CODE_UNIMPLEMENTED, PLIM_ND_PROTOCOL,
                       "the daemon speaks protocol %" PRIu32 ", this client %d", response->protocol,
                       WIRE_PROTOCOL);
}

bool client_describe(client *self, const run_ctx *ctx, core_description *out, plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    int64_t started_ns = base_monotonic_ns();
    bool good = describe(self, ctx, out, &local);
    client_log_call(self, "Describe", started_ns, &local);
    plim_error_move(err, &local);
    return good;
}
