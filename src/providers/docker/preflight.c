#include "providers/docker/preflight.h"

#include "providers/docker/discover.h"
#include "providers/docker/text.h"

#include <pthread.h>
#include <signal.h>

enum { OWN_LOOK_MS = 2 };

struct docker_preflight {
    const core_settings *settings;
    pthread_mutex_t mutex; /* guards everything below */
    docker_engine *engine; /* pinned: set once */
    docker_state *state;   /* in force; NULL after a failure */
    bool probing, has_thread;
    pthread_t thread; /* of the last probe */
    uint64_t done;    /* probes that have ended */
    char failure[PLIM_ERROR_MESSAGE_MAX];

    bool proven;
    docker_proof proof;
    char proven_ids[DOCKER_KINDS][DOCKER_ID_MAX];
    docker_file_id proven_runtime;
    bool runtime_replaced; /* once seen, nothing runs until a restart has proven what is there */
};

docker_preflight *docker_preflight_new(const core_settings *settings)
{
    docker_preflight *preflight = base_new(docker_preflight);
    if (!preflight)
        return NULL;
    preflight->settings = settings;
    preflight->proof.control = DOCKER_CONTROL_SHELL;
    snprintf(preflight->failure, sizeof(preflight->failure), "no preflight was made");
    pthread_mutex_init(&preflight->mutex, NULL);
    return preflight;
}

void docker_preflight_free(docker_preflight *preflight)
{
    if (!preflight)
        return;
    if (preflight->has_thread)
        pthread_join(preflight->thread, NULL);
    docker_state_release(preflight->state);
    docker_engine_free(preflight->engine);
    pthread_mutex_destroy(&preflight->mutex);
    base_free(preflight);
}

docker_engine *docker_preflight_engine(docker_preflight *preflight)
{
    pthread_mutex_lock(&preflight->mutex);
    docker_engine *engine = preflight->engine;
    pthread_mutex_unlock(&preflight->mutex);
    return engine;
}

/* ---- the probe ---- */

/* Find the Engine once; later changes of the environment change nothing. */
static docker_engine *pin(docker_preflight *preflight, plim_error *err)
{
    char path[DOCKER_SOCKET_MAX];
    docker_engine *engine = docker_preflight_engine(preflight);
    if (engine)
        return engine;
    if (!docker_discover(preflight->settings, path, err))
        return NULL;
    engine = docker_engine_new(path);
    if (!engine) {
        plim_refuse_nomem(err);
        return NULL;
    }
    pthread_mutex_lock(&preflight->mutex);
    preflight->engine = engine;
    pthread_mutex_unlock(&preflight->mutex);
    return engine;
}

/* Under gVisor the proof holds for the file that was proven, and for no other. */
static bool is_proven_runtime(const docker_preflight *preflight, const docker_state *state)
{
    return !preflight->proven || !docker_is_runsc(state->runtime) ||
           (state->has_runtime_file && memcmp(&state->runtime_file, &preflight->proven_runtime,
                                              sizeof(state->runtime_file)) == 0);
}

static void publish(docker_preflight *preflight, docker_state *state, const plim_error *err)
{
    pthread_mutex_lock(&preflight->mutex);
    const char *failure = state ? "" : plim_error_message(err);
    if (state && !is_proven_runtime(preflight, state))
        preflight->runtime_replaced = true;
    if (state && preflight->runtime_replaced) {
        failure = "the program behind the runtime was replaced since it was proven; restart to "
                  "prove it again";
        docker_state_release(TAKE_PTR(state));
    }
    docker_state_release(preflight->state);
    preflight->state = state;
    snprintf(preflight->failure, sizeof(preflight->failure), "%s", failure);
    preflight->probing = false;
    preflight->done++;
    pthread_mutex_unlock(&preflight->mutex);
}

static void *probe(void *data)
{
    docker_preflight *preflight = data;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    run_ctx ctx = {base_deadline_after_ms(DOCKER_PREFLIGHT_MS), -1};
    docker_state *state = NULL;
    /* What the settings forbid is said before an Engine is looked for. */
    docker_engine *engine =
        docker_state_check_settings(preflight->settings, NULL, &err) ? pin(preflight, &err) : NULL;
    if (engine)
        state = docker_state_probe(preflight->settings, engine, &ctx, &err);
    publish(preflight, state, &err);
    return NULL;
}

/* With the mutex held. The thread of the probe before has ended: it published. */
static bool start_probe(docker_preflight *preflight)
{
    sigset_t all, before;
    if (preflight->has_thread)
        pthread_join(preflight->thread, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    preflight->has_thread = pthread_create(&preflight->thread, NULL, probe, preflight) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    preflight->probing = preflight->has_thread;
    return preflight->has_thread;
}

/* ---- callers ---- */

/* With the mutex held: is what is in force what the startup proof saw? */
static bool check_proven(const docker_preflight *preflight, plim_error *err)
{
    for (docker_kind kind = 0; preflight->proven && kind < DOCKER_KINDS; kind++) {
        const docker_state_image *image = &preflight->state->images[kind];
        char now[13], then[13];
        if (strcmp(image->facts.id, preflight->proven_ids[kind]) != 0)
            return core_refuse_environment(err, "image %s is %s now; %s was proven at start",
                                           image->reference, docker_short_id(image->facts.id, now),
                                           docker_short_id(preflight->proven_ids[kind], then));
    }
    return true;
}

static bool is_fresh(const docker_preflight *preflight, int64_t age_ms)
{
    return preflight->state &&
           base_monotonic_ns() - preflight->state->verified_ns <= age_ms * BASE_NS_PER_MS;
}

typedef enum { LOOK_AGAIN, LOOK_DONE, LOOK_FAILED } look;

/* With the mutex held. `*mine` is the number of the probe that this caller started, or 0. */
static look look_once(docker_preflight *preflight, uint64_t *mine, plim_error *err)
{
    bool mine_done = *mine && preflight->done >= *mine;
    if (is_fresh(preflight, DOCKER_FRESH_MS) || (mine_done && preflight->state))
        return check_proven(preflight, err) ? LOOK_DONE : LOOK_FAILED;
    if (mine_done) {
        core_refuse_environment(err, "%s", preflight->failure);
        return LOOK_FAILED;
    }
    if (preflight->probing)
        return LOOK_AGAIN;
    *mine = preflight->done + 1;
    if (start_probe(preflight))
        return LOOK_AGAIN;
    core_refuse_environment(err, "no thread for a preflight");
    return LOOK_FAILED;
}

bool docker_preflight_run(docker_preflight *preflight, const run_ctx *ctx, docker_state **out,
                          plim_error *err)
{
    int64_t give_up_ns = base_deadline_after_ms(DOCKER_CONTENTION_MS);
    uint64_t mine = 0;
    for (;;) {
        pthread_mutex_lock(&preflight->mutex);
        look found = look_once(preflight, &mine, err);
        if (found == LOOK_DONE)
            *out = docker_state_hold(preflight->state);
        pthread_mutex_unlock(&preflight->mutex);
        if (found != LOOK_AGAIN)
            return found == LOOK_DONE;
        if (!mine && base_monotonic_ns() >= give_up_ns)
            return core_refuse_environment(err, "a preflight is already in progress");
        run_ctx pause =
            run_ctx_until(ctx, base_deadline_after_ms(mine ? OWN_LOOK_MS : DOCKER_LOOK_MS));
        run_wait wait = run_ctx_poll(&pause, NULL, 0);
        if (wait != RUN_DEADLINE || base_monotonic_ns() >= ctx->deadline_ns)
            return core_refuse_gone(err, wait);
    }
}

docker_state *docker_preflight_last(docker_preflight *preflight, int64_t age_ms)
{
    docker_state *state = NULL;
    pthread_mutex_lock(&preflight->mutex);
    if (is_fresh(preflight, age_ms) && check_proven(preflight, NULL))
        state = docker_state_hold(preflight->state);
    pthread_mutex_unlock(&preflight->mutex);
    return state;
}

void docker_preflight_prove(docker_preflight *preflight, docker_state *state,
                            const docker_proof *proof)
{
    pthread_mutex_lock(&preflight->mutex);
    preflight->proven = true;
    preflight->proof = *proof;
    preflight->proof.kernel = proof->kernel && state->has_runtime_file;
    preflight->proven_runtime = state->runtime_file;
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
        snprintf(preflight->proven_ids[kind], DOCKER_ID_MAX, "%s", state->images[kind].facts.id);
    pthread_mutex_unlock(&preflight->mutex);
}

void docker_preflight_facts(docker_preflight *preflight, docker_facts *out)
{
    *out = (docker_facts){.tier = PLIM_TIER_CONTAINER};
    pthread_mutex_lock(&preflight->mutex);
    const docker_state *state = preflight->state;
    out->ready = state != NULL;
    out->proof = preflight->proof;
    if (state && preflight->proven && preflight->proof.kernel && docker_is_runsc(state->runtime))
        out->tier = PLIM_TIER_KERNEL;
    for (docker_kind kind = 0; state && kind < DOCKER_KINDS; kind++) {
        snprintf(out->environment[kind], sizeof(out->environment[kind]), "%s",
                 state->images[kind].environment);
        snprintf(out->software[kind], sizeof(out->software[kind]), "%s",
                 state->images[kind].software);
    }
    pthread_mutex_unlock(&preflight->mutex);
}
