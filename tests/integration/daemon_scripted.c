/*
 * plimsolld with a provider that does what a test says: its tier, its checks and its runs follow a
 * file of words (SCRIPT_FILE), read anew each time, so that a test can break it while it serves.
 *
 *   tier=NAME: what it claims; `vm` when the file says nothing
 *
 *   lost: the evidence is gone; the tier is unknown until a preflight succeeds without this word
 *
 *   preflight-fails, smoke-fails: what they say
 *
 *   projects: it takes them too. A step `exit N` ends with that code, `time` with its time, another
 *   writes itself; an artifact is the file of that path. surplus: one more than was asked for.
 *
 * SCRIPT_DRAIN_MS is how long a drain may take.
 *
 * The code of a run is a command: `sleep MS`, `linger MS` (the answer comes at once, what ran it is
 * gone only then; once per program), `exit N`, `fault`, `refuse`, or text to give back.
 */
#include "daemon/daemon.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct scripted {
    core_provider base;
    atomic_bool lost;
    pthread_t lingerer; /* holds `slot` for `linger_ms` */
    core_slot *slot;    /* NULL until there is one */
    int64_t linger_ms;
} scripted;

static const core_provider_ops scripted_ops;

static void read_words(char out[256])
{
    const char *path = getenv("SCRIPT_FILE");
    base_buf text = BASE_BUF_INIT(255);
    if (path && !base_read_file(path, &text, NULL))
        base_buf_clear(&text);
    snprintf(out, 256, "%s", base_buf_text(&text));
    base_buf_free(&text);
}

static bool says(const char *word)
{
    char words[256];
    read_words(words);
    return strstr(words, word) != NULL;
}

static plim_tier claimed_tier(void)
{
    char words[256];
    plim_tier tier = PLIM_TIER_VM;
    read_words(words);
    const char *at = strstr(words, "tier=");
    if (at)
        plim_tier_from_name((plim_bytes){at + 5, strcspn(at + 5, " \n")}, &tier);
    return tier;
}

static bool scripted_open(const core_settings *settings, core_provider **out, plim_error *err)
{
    (void)settings;
    scripted *provider = base_new(scripted);
    if (!provider)
        return plim_refuse_nomem(err);
    provider->base.ops = &scripted_ops;
    *out = &provider->base;
    return true;
}

static void scripted_free(core_provider *base)
{
    scripted *provider = (scripted *)base;
    if (provider->slot)
        pthread_join(provider->lingerer, NULL);
    base_free(provider);
}

static void *linger(void *data)
{
    const scripted *provider = data;
    run_ctx until = {base_deadline_after_ms(provider->linger_ms), -1};
    (void)run_ctx_poll(&until, NULL, 0);
    core_slot_release(provider->slot);
    return NULL;
}

static bool begin_to_linger(scripted *provider, core_slot *slot, int64_t ms)
{
    if (provider->slot) /* the one before is over, or about to be */
        pthread_join(provider->lingerer, NULL);
    provider->linger_ms = ms;
    provider->slot = core_slot_hold(slot);
    return pthread_create(&provider->lingerer, NULL, linger, provider) == 0;
}

static bool scripted_preflight(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    (void)ctx;
    if (says("preflight-fails"))
        return core_refuse_environment(err,
                                       "SECRET-CAUSE: the provider was told to fail its preflight");
    if (!says("lost"))
        atomic_store(&((scripted *)base)->lost, false);
    return true;
}

static bool scripted_smoke(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    (void)base, (void)ctx;
    return !says("smoke-fails") || core_refuse_environment(err, "the provider was told to fail");
}

static void scripted_describe(core_provider *base, core_description *out)
{
    scripted *provider = (scripted *)base;
    if (says("lost"))
        atomic_store(&provider->lost, true);
    *out = (core_description){.provider = "scripted", .tier = claimed_tier()};
    if (atomic_load(&provider->lost))
        out->tier = PLIM_TIER_UNKNOWN;
    out->supports[PLIM_KIND_JAVASCRIPT] = true;
    out->environment[PLIM_KIND_JAVASCRIPT].max_timeout_ms = 30000;
    out->supports[PLIM_KIND_PROJECT] = says("projects");
}

static bool answer(plim_bytes text, int32_t exit_code, plim_result **out, plim_error *err)
{
    plim_result *result = core_result_new(PLIM_KIND_JAVASCRIPT);
    if (!result || !base_arena_dup(result->arena, text, &result->out)) {
        plim_result_free(result);
        return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED, "out of memory");
    }
    result->provider = "scripted";
    result->tier = claimed_tier();
    result->isolation = plim_tier_name(result->tier);
    result->exit_code = exit_code;
    *out = result;
    return true;
}

/* The number after a command's name. */
static int64_t number_of(plim_bytes code, size_t name)
{
    int64_t number = 0;
    base_parse_int((plim_bytes){code.data + name, code.len - name}, &number);
    return number;
}

static bool begins(plim_bytes code, const char *with)
{
    return code.len >= strlen(with) && memcmp(code.data, with, strlen(with)) == 0;
}

/* ---- projects ---- */

static void run_step(plim_bytes command, core_step_result *out)
{
    *out = (core_step_result){.command = command, .out = command, .limit_reached = ""};
    if (begins(command, "exit "))
        out->exit_code = (int32_t)number_of(command, 5);
    out->timed_out = begins(command, "time");
    if (out->timed_out)
        out->exit_code = 124;
}

static plim_bytes content_of(const plim_project_request *project, plim_bytes path)
{
    for (size_t i = 0; i < project->file_count; i++)
        if (base_bytes_equal(project->files[i].path, path))
            return project->files[i].content;
    return (plim_bytes){NULL, 0};
}

/* The result borrows the request's texts: an answer is written before the request is gone. */
static bool run_project(const plim_project_request *project, plim_result **out, plim_error *err)
{
    plim_result *result = core_result_new(PLIM_KIND_PROJECT);
    core_step_result *steps =
        result ? base_arena_alloc(result->arena, project->step_count, sizeof(*steps)) : NULL;
    core_artifact *artifacts =
        result ? base_arena_alloc(result->arena, project->artifact_count + 1, sizeof(*artifacts))
               : NULL;
    if (!steps || !artifacts) {
        plim_result_free(result);
        return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED, "out of memory");
    }
    result->outcome = PLIM_OUTCOME_COMPLETED;
    for (size_t i = 0; i < project->step_count; i++) {
        run_step(project->steps[i], &steps[i]);
        if (steps[i].timed_out)
            result->outcome = PLIM_OUTCOME_TIMED_OUT;
    }
    for (size_t i = 0; i < project->artifact_count; i++)
        artifacts[i] =
            (core_artifact){project->artifacts[i], content_of(project, project->artifacts[i])};
    artifacts[project->artifact_count] = (core_artifact){PLIM_LIT("surplus"), PLIM_LIT("x")};
    result->steps = steps;
    result->step_count = project->step_count;
    result->artifacts = artifacts;
    result->artifact_count = project->artifact_count + says("surplus");
    result->provider = "scripted";
    result->tier = claimed_tier();
    result->isolation = plim_tier_name(result->tier);
    *out = result;
    return true;
}

/* ---- snippets ---- */

static bool scripted_run(core_provider *base, const core_request *request, plim_bytes principal,
                         const run_ctx *ctx, plim_result **out, plim_error *err)
{
    (void)principal;
    if (request->kind == PLIM_KIND_PROJECT && says("projects"))
        return run_project(request->project, out, err);
    if (request->kind != PLIM_KIND_JAVASCRIPT)
        return core_refuse_unsupported(err, "the scripted provider runs snippets");
    plim_bytes code = request->javascript->code;
    if (begins(code, "fault"))
        return core_fail_internal(err, "SECRET-CAUSE: the provider was told to fail");
    if (begins(code, "refuse"))
        return core_refuse_request(err, "the provider was told to refuse");
    if (begins(code, "linger ") &&
        !begin_to_linger((scripted *)base, request->slot, number_of(code, 7)))
        return core_fail_internal(err, "no thread");
    if (begins(code, "exit "))
        return answer(code, (int32_t)number_of(code, 5), out, err);
    if (begins(code, "sleep ")) {
        run_ctx until = run_ctx_until(ctx, base_deadline_after_ms(number_of(code, 6)));
        run_wait why = run_ctx_poll(&until, NULL, 0);
        if (why != RUN_DEADLINE || base_monotonic_ns() >= ctx->deadline_ns)
            return core_fail_gone(err, why);
    }
    return answer(code, 0, out, err);
}

static const core_provider_ops scripted_ops = {
    .name = "scripted",
    .summary = "does what a test says",
    .on_host = true,
    .default_memory_mb = 256,
    .open = scripted_open,
    .free = scripted_free,
    .preflight = scripted_preflight,
    .smoke_test = scripted_smoke,
    .describe = scripted_describe,
    .run = scripted_run,
};

static const core_provider_ops *find(const core_settings *settings, plim_error *err)
{
    if (strcmp(settings->provider, scripted_ops.name) == 0)
        return &scripted_ops;
    core_refuse_configuration(err, "SANDBOX_PROVIDER must be scripted here");
    return NULL;
}

int main(int argc, char **argv)
{
    int64_t drain_ms = DAEMON_DRAIN_MS;
    base_parse_int(plim_bytes_of(getenv("SCRIPT_DRAIN_MS")), &drain_ms);
    return daemon_main(
        argc, argv,
        &(daemon_program){.find_provider = find, .recheck_ms = 200, .drain_ms = drain_ms});
}
