/* Placing a request: floor, software rule, candidates, rank, send; docs/placement.md states the
 * rules. */
#include "placement/choice.h"
#include "placement/pool.h"

/* A request of any kind, as it is sent: a copy of the caller's, with floor and rule merged in. */
typedef struct placed {
    plim_kind kind;
    union {
        plim_javascript_request javascript;
        plim_project_request project;
        plim_module_request module;
    };
    plim_run_options *options; /* of the copy */
    plim_bytes grant_profile;
    plim_bytes identities[PLIM_SOFTWARE_IDENTITIES_MAX]; /* of the merged rule */
} placed;

/* A placement in progress. */
typedef struct placement {
    plim_pool *pool;
    const plim_requirement *need;
    placed *request;
    plim_cancel *cancel;
    pool_backend **backends; /* the candidates, in the order to try */
    pool_info **infos;
    size_t count;
    base_buf reasons; /* "name: reason; ..." of those that do not fit */
} placement;

enum { REASONS_BYTES_MAX = 65536 };

/* ---- floor and rule ---- */

static bool merge_floor(placed *request, const plim_requirement *need, plim_error *err)
{
    plim_run_options asked = {.minimum_isolation = need->minimum_isolation};
    if (!core_validate_options(&asked, err) || !core_validate_options(request->options, err))
        return false;
    if (need->minimum_isolation > request->options->minimum_isolation)
        request->options->minimum_isolation = need->minimum_isolation;
    return true;
}

/* The identities that both rules name, in the order of the requirement's: neither is weakened. */
static bool merge_rule(placed *request, const plim_requirement *need, plim_error *err)
{
    plim_software_rule *rule = &request->options->software;
    if (!core_rule_valid(&need->software, err))
        return false;
    if (need->software.mode == PLIM_RULE_NONE)
        return true;
    size_t count = 0;
    for (size_t i = 0; i < need->software.count; i++)
        if (core_rule_allows(rule, need->software.identities[i]))
            request->identities[count++] = need->software.identities[i];
    if (count == 0)
        return core_refuse_request(
            err, "the requirement's software rule and the request's have nothing in common");
    plim_rule_mode mode = count == 1 ? PLIM_RULE_EXACT : PLIM_RULE_APPROVED;
    *rule = (plim_software_rule){mode, request->identities, count};
    return true;
}

/* ---- candidates ---- */

static bool carries_grant(const placement *it)
{
    return it->need->grant_profile || it->request->grant_profile.len > 0;
}

/* Why a backend does not fit, the first reason that counts; NULL when it does. */
static const char *unfit(const placement *it, const plim_info *info, char *room, size_t size)
{
    const plim_requirement *need = it->need;
    const plim_run_options *options = it->request->options;
    plim_kind kind = it->request->kind;
    plim_environment environment = plim_info_environment(info, kind);
    if (need->provider.len && !base_bytes_is(need->provider, plim_info_provider(info)))
        snprintf(room, size, "its provider is %s, not %.*s", plim_info_provider(info),
                 (int)need->provider.len, need->provider.data);
    else if (kind != PLIM_KIND_JAVASCRIPT && !plim_info_supports(info, kind))
        snprintf(room, size, "it runs no %s", plim_kind_name(kind));
    else if (carries_grant(it) && !plim_info_supports_grant(info, kind))
        snprintf(room, size, "a %s may not carry a grant there", plim_kind_name(kind));
    else if (!plim_tier_meets(plim_info_tier(info), options->minimum_isolation))
        snprintf(room, size, "its tier is %s, below the floor %s",
                 plim_tier_name(plim_info_tier(info)), plim_tier_name(options->minimum_isolation));
    else if (need->environment.len && !base_bytes_is(need->environment, environment.identity))
        snprintf(room, size, "its environment is another");
    else if (!core_rule_allows(&options->software, plim_bytes_of(environment.software_identity)))
        snprintf(room, size, "its software is not what the rule names");
    else
        return NULL;
    return room;
}

static void add_reason(placement *it, const char *name, const char *reason)
{
    base_buf_printf(&it->reasons, "%s%s: %s", it->reasons.len ? "; " : "", name, reason);
}

static bool consider(placement *it, pool_backend *backend, plim_error *err)
{
    _cleanup_error_ plim_error inner = PLIM_ERROR_INIT;
    pool_info *info = pool_describe(it->pool, backend, it->cancel, &inner);
    if (!info) {
        /* Whatever became of the question, the request itself was never sent. */
        if (it->cancel && plim_cancel_fired(it->cancel))
            return core_refuse_gone(err, RUN_CANCELED);
        add_reason(it, backend->name, plim_error_message(&inner));
        return true;
    }
    char room[512];
    const char *reason = unfit(it, info->info, room, sizeof(room));
    if (reason) {
        add_reason(it, backend->name, reason);
        pool_info_release(info);
        return true;
    }
    it->backends[it->count] = backend;
    it->infos[it->count++] = info;
    return true;
}

static bool find_candidates(placement *it, plim_error *err)
{
    plim_bytes only = it->need->backend;
    if (only.len && !pool_find(it->pool, only))
        base_buf_printf(&it->reasons, "the pool has no backend of the name asked for");
    for (size_t i = 0; i < it->pool->count; i++) {
        pool_backend *backend = &it->pool->backends[i];
        if ((!only.len || base_bytes_is(only, backend->name)) && !consider(it, backend, err))
            return false;
    }
    return it->count > 0 ||
           plim_refuse(err, PLIM_E_NO_BACKEND, PLIM_CODE_UNIMPLEMENTED, PLIM_ND_UNSUPPORTED,
                       "no backend fits: %s", base_buf_text(&it->reasons));
}

/* A stable sort: what the caller does not rank keeps the pool's order. */
static void rank(placement *it)
{
    plim_prefer_fn *prefer = it->need->prefer;
    for (size_t i = 1; prefer && i < it->count; i++) {
        pool_backend *backend = it->backends[i];
        pool_info *info = it->infos[i];
        plim_candidate moving = {backend->name, info->info};
        size_t at = i;
        for (; at > 0; at--) {
            plim_candidate before = {it->backends[at - 1]->name, it->infos[at - 1]->info};
            if (prefer(&moving, &before, it->need->prefer_ctx) >= 0)
                break;
            it->backends[at] = it->backends[at - 1];
            it->infos[at] = it->infos[at - 1];
        }
        it->backends[at] = backend;
        it->infos[at] = info;
    }
}

/* ---- sending ---- */

static plim_status run_on(const placement *it, plim_sandbox *sandbox, plim_result **out,
                          plim_error *err)
{
    switch (it->request->kind) {
    case PLIM_KIND_JAVASCRIPT:
        return plim_run_javascript(sandbox, &it->request->javascript, it->cancel, out, err);
    case PLIM_KIND_PROJECT:
        return plim_run_project(sandbox, &it->request->project, it->cancel, out, err);
    default:
        return plim_run_module(sandbox, &it->request->module, it->cancel, out, err);
    }
}

/* Only a promise that nothing ran, for a reason that another backend need not share. */
static bool may_go_on(const placement *it, const plim_error *err)
{
    switch (plim_error_not_dispatched(err)) {
    case PLIM_ND_UNSUPPORTED:
    case PLIM_ND_ISOLATION:
    case PLIM_ND_ENVIRONMENT:
    case PLIM_ND_CAPACITY:
        return !it->cancel || !plim_cancel_fired(it->cancel);
    default:
        return false;
    }
}

/* What ran must have run where the requirement says; the description may have been stale. */
static bool check_environment(const placement *it, const plim_result *result, plim_error *err)
{
    plim_bytes wanted = it->need->environment;
    const plim_record *record = result ? plim_result_record(result) : NULL;
    if (!wanted.len || !result ||
        base_bytes_is(wanted,
                      record ? plim_record_environment(record) : plim_result_environment(result)))
        return true;
    plim_error first = PLIM_ERROR_INIT;
    plim_error_move(&first, err);
    plim_fail(err, PLIM_E_ENVIRONMENT_MISMATCH, PLIM_CODE_FAILED_PRECONDITION,
              "the code ran in another environment than the requirement names");
    if (plim_error_status(&first) != PLIM_OK)
        client_error_set_cause(err, &first);
    return false;
}

static bool send_in_turn(const placement *it, plim_choice *choice, plim_result **out,
                         plim_error *err)
{
    for (size_t i = 0;; i++) {
        choice->backend = choice->names[i];
        plim_status status = run_on(it, it->backends[i]->sandbox, out, err);
        if (status == PLIM_OK || status == PLIM_E_NOT_RECORDED)
            return check_environment(it, *out, err) && status == PLIM_OK;
        if (i + 1 == it->count || !may_go_on(it, err))
            return false;
        choice_add_refusal(choice, err);
    }
}

/* ---- the whole ---- */

/* A choice that knows every candidate's name; NULL when memory is out. */
static plim_choice *prepare_choice(const placement *it)
{
    plim_choice *choice = choice_new(it->count);
    for (size_t i = 0; choice && i < it->count; i++) {
        choice->names[i] = base_arena_text(choice->arena, plim_bytes_of(it->backends[i]->name));
        if (choice->names[i])
            continue;
        plim_choice_free(choice);
        choice = NULL;
    }
    return choice;
}

static void free_placement(placement *it)
{
    for (size_t i = 0; i < it->count; i++)
        pool_info_release(it->infos[i]);
    base_free(it->backends);
    base_free(it->infos);
    base_buf_free(&it->reasons);
}

static bool place(plim_pool *pool, placed *request, const plim_requirement *need,
                  plim_cancel *cancel, plim_result **out, plim_choice **choice, plim_error *err)
{
    _cleanup_(free_placement)
    placement it = {.pool = pool,
                    .need = need,
                    .request = request,
                    .cancel = cancel,
                    .backends = base_alloc(pool->count, sizeof(pool_backend *)),
                    .infos = base_alloc(pool->count, sizeof(pool_info *)),
                    .reasons = BASE_BUF_INIT(REASONS_BYTES_MAX)};
    if (!it.backends || !it.infos)
        return plim_refuse_nomem(err);
    if (!merge_floor(request, need, err) || !merge_rule(request, need, err) ||
        !find_candidates(&it, err))
        return false;
    rank(&it);
    *choice = prepare_choice(&it);
    return *choice ? send_in_turn(&it, *choice, out, err) : plim_refuse_nomem(err);
}

static plim_status finish(plim_pool *pool, placed *request, const plim_requirement *given,
                          plim_cancel *cancel, plim_result **out, plim_choice **choice,
                          plim_error *local, plim_error *err)
{
    plim_requirement need = {.size = 0};
    _cleanup_(choice_freep)
    plim_choice *made = NULL;
    bool good = core_read_sized(&need, sizeof(need), given, local) &&
                place(pool, request, &need, cancel, out, &made, local);
    plim_status status = good ? PLIM_OK : plim_error_status(local);
    plim_error_move(err, local);
    if (choice)
        *choice = TAKE_PTR(made);
    return status;
}

#define DEFINE_POOL_RUN(name, kind_name, grant)                                                    \
    plim_status plim_pool_run_##name(plim_pool *pool, const plim_##name##_request *given,          \
                                     const plim_requirement *requirement, plim_cancel *cancel,     \
                                     plim_result **out, plim_choice **choice, plim_error *err)     \
    {                                                                                              \
        plim_error local = PLIM_ERROR_INIT;                                                        \
        placed request = {.kind = PLIM_KIND_##kind_name, .options = &request.name.options};        \
        *out = NULL;                                                                               \
        if (choice)                                                                                \
            *choice = NULL;                                                                        \
        if (!core_read_sized(&request.name, sizeof(request.name), given, &local)) {                \
            plim_error_move(err, &local);                                                          \
            return PLIM_E_INVALID_OPTION;                                                          \
        }                                                                                          \
        request.grant_profile = grant;                                                             \
        return finish(pool, &request, requirement, cancel, out, choice, &local, err);              \
    }

DEFINE_POOL_RUN(javascript, JAVASCRIPT, request.javascript.grant_profile)
DEFINE_POOL_RUN(project, PROJECT, request.project.grant_profile)
DEFINE_POOL_RUN(module, MODULE, ((plim_bytes){NULL, 0}))
