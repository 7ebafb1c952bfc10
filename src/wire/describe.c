#include "wire/internal.h"

/* A limit as Describe states it: what does not fit is stated as near as can be. */
static uint32_t stated(int64_t value)
{
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static bool add_language(base_arena *arena, wire_payload_environment *out, const char *name)
{
    if (!out->languages)
        out->languages = base_arena_alloc(arena, 2, sizeof(*out->languages));
    if (!out->languages)
        return false;
    out->languages[out->n_languages++] = plim_bytes_of(name);
    return true;
}

static wire_payload_environment *write_environment(base_arena *arena, const core_environment *in)
{
    wire_payload_environment *out = wire_make(arena, payload_environment);
    if (!out)
        return NULL;
    out->identity = plim_bytes_of(in->identity);
    out->software_identity = plim_bytes_of(in->software_identity);
    int64_t longest =
        in->max_timeout_ms < WIRE_TIMEOUT_MS_MAX ? in->max_timeout_ms : WIRE_TIMEOUT_MS_MAX;
    out->max_timeout_ms = stated(longest);
    if ((in->javascript && !add_language(arena, out, "javascript")) ||
        (in->python && !add_language(arena, out, "python")))
        return NULL;
    return out;
}

static wire_run_resources *write_resources(base_arena *arena, const core_description *in)
{
    wire_run_resources *out = wire_make(arena, run_resources);
    if (!out)
        return NULL;
    out->memory_mb = stated(in->memory_mb);
    out->cpus = in->cpus > 0 ? in->cpus : 0;
    out->pids = stated(in->pids);
    out->disk_mb = stated(in->disk_mb);
    return out;
}

wire_describe_response *
wire_write_description(base_arena *arena, const core_description *description, uint32_t protocol)
{
    wire_describe_response *out = wire_make(arena, describe_response);
    if (!out)
        return NULL;
    out->sandbox = plim_bytes_of(description->provider);
    out->isolation = plim_bytes_of(plim_tier_name(description->tier));
    out->supports_project = description->supports[PLIM_KIND_PROJECT];
    out->supports_module = description->supports[PLIM_KIND_MODULE];
    out->supports_javascript_grants = description->supports_grant[PLIM_KIND_JAVASCRIPT];
    out->supports_project_grants = description->supports_grant[PLIM_KIND_PROJECT];
    out->protocol = protocol;
    out->policy = plim_bytes_of(description->policy);
    out->javascript_environment =
        write_environment(arena, &description->environment[PLIM_KIND_JAVASCRIPT]);
    out->project_environment =
        write_environment(arena, &description->environment[PLIM_KIND_PROJECT]);
    out->module_environment = write_environment(arena, &description->environment[PLIM_KIND_MODULE]);
    out->resources = write_resources(arena, description);
    bool complete = out->javascript_environment && out->project_environment &&
                    out->module_environment && out->resources;
    return complete ? out : NULL;
}
