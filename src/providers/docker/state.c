#include "providers/docker/state.h"

#include "providers/docker/text.h"

#include <jansson.h>
#include <sys/stat.h>

enum { STATE_BYTES_MAX = 8 * 1024 * 1024 };

docker_state *docker_state_hold(docker_state *state)
{
    if (state)
        atomic_fetch_add(&state->holders, 1);
    return state;
}

void docker_state_release(docker_state *state)
{
    if (state && atomic_fetch_sub(&state->holders, 1) == 1)
        base_arena_free(state->arena);
}

int64_t docker_uid_of(const core_settings *settings)
{
    return settings->guest_uid == CORE_SETTING_UNSET ? DOCKER_GUEST_UID : settings->guest_uid;
}

bool docker_is_runsc(const char *runtime)
{
    return strcmp(runtime, "runsc") == 0;
}

const char *docker_reference_of(const core_settings *settings, docker_kind kind)
{
    if (kind == DOCKER_SNIPPET)
        return settings->docker_image[0] ? settings->docker_image : "plimsoll/sandbox-js:latest";
    return settings->docker_project_image[0] ? settings->docker_project_image
                                             : "plimsoll/sandbox:latest";
}

/* ---- what needs no Engine ---- */

static bool check_reference(const core_settings *settings, const char *name, const char *reference,
                            plim_error *err)
{
    if (!docker_image_ref_valid(reference))
        return core_refuse_environment(err, "%s is not an image reference", name);
    return !settings->require_pinned_images || docker_image_ref_pinned(reference) ||
           core_refuse_environment(
               err, "%s is not pinned: SANDBOX_REQUIRE_PINNED_IMAGES wants @sha256: at its end",
               name);
}

static bool check_references(const core_settings *settings, plim_error *err)
{
    const char *module = settings->docker_module_image;
    return check_reference(settings, "SANDBOX_DOCKER_IMAGE",
                           docker_reference_of(settings, DOCKER_SNIPPET), err) &&
           check_reference(settings, "SANDBOX_DOCKER_PROJECT_IMAGE",
                           docker_reference_of(settings, DOCKER_PROJECT), err) &&
           (!module[0] || check_reference(settings, "SANDBOX_DOCKER_MODULE_IMAGE", module, err));
}

static bool read_seccomp(const core_settings *settings, char **out, plim_error *err)
{
    const char *wanted = settings->docker_seccomp;
    if (!wanted[0] || strcmp(wanted, "default") == 0)
        return true;
    if (strcmp(wanted, "unconfined") == 0) {
        *out = base_strdup(wanted);
        return *out || plim_refuse_nomem(err);
    }
    return docker_seccomp_read(wanted, out, err);
}

bool docker_state_check_settings(const core_settings *settings, char **seccomp, plim_error *err)
{
    docker_disk disk = {settings->disk_mb, DOCKER_TMP_MB, DOCKER_SHM_MB, 0};
    _cleanup_free_ char *profile = NULL;
    int64_t uid = docker_uid_of(settings);
    if (!check_references(settings, err) || !docker_disk_resolve(&disk, err))
        return false;
    if (!docker_guest_uid_valid(uid))
        return core_refuse_environment(
            err, "SANDBOX_GUEST_UID=%" PRId64 ": it or the next is one that the host hands out",
            uid);
    if (!docker_check_accounts(uid, err) || !read_seccomp(settings, &profile, err))
        return false;
    if (seccomp)
        *seccomp = TAKE_PTR(profile);
    return true;
}

/* ---- the Engine ---- */

static json_t *get_json(docker_engine *engine, const char *target, const char *what,
                        const run_ctx *ctx, plim_error *err)
{
    char text[400];
    _cleanup_reply_ docker_reply reply;
    docker_engine_call(engine, "GET", target, (plim_bytes){NULL, 0}, ctx, &reply);
    if (!docker_reply_ok(&reply)) {
        core_refuse_environment(err, "%s", docker_reply_text(&reply, what, text, sizeof(text)));
        return NULL;
    }
    json_t *json =
        json_loadb(base_buf_text(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(json))
        return json;
    json_decref(json);
    core_refuse_environment(err, "%s: the Engine's answer cannot be read", what);
    return NULL;
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

/* The file that a registration names, where the Engine would look for a bare name. */
static bool identify(docker_state *state, const char *path)
{
    static const char *const dirs[] = {
        "", "/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"};
    for (size_t i = path[0] == '/' ? 0 : 1; i < PLIM_COUNT(dirs); i++) {
        char whole[PATH_MAX];
        struct stat info;
        snprintf(whole, sizeof(whole), "%s%s", dirs[i], path);
        if (stat(whole, &info) == 0) {
            state->runtime_file = (docker_file_id){
                (uint64_t)info.st_dev, (uint64_t)info.st_ino, (int64_t)info.st_size,
                (int64_t)info.st_mtim.tv_sec * BASE_NS_PER_S + info.st_mtim.tv_nsec};
            state->has_runtime_file = true;
            state->runtime_path = base_arena_text(state->arena, plim_bytes_of(whole));
            return state->runtime_path != NULL;
        }
        if (path[0] == '/')
            break;
    }
    return true; /* an Engine elsewhere than this mount namespace: the proof will want the file */
}

static bool read_runtime(docker_state *state, const json_t *info, plim_error *err)
{
    if (!state->runtime[0])
        return true;
    const json_t *entry = json_object_get(json_object_get(info, "Runtimes"), state->runtime);
    if (!entry)
        return core_refuse_environment(
            err, "SANDBOX_DOCKER_RUNTIME=%s is not registered with the Engine", state->runtime);
    const char *path = text_of(entry, "path"), *slash = strrchr(path, '/');
    if (docker_is_runsc(state->runtime) && strcmp(slash ? slash + 1 : path, "runsc") != 0)
        return core_refuse_environment(
            err, "the runtime runsc is registered with another program than runsc");
    char *registration = json_dumps(entry, JSON_COMPACT | JSON_SORT_KEYS);
    state->registration =
        registration ? base_arena_text(state->arena, plim_bytes_of(registration)) : NULL;
    free(registration);
    return (state->registration && identify(state, path)) || plim_refuse_nomem(err);
}

static bool has_image_store(const json_t *info)
{
    const json_t *status = json_object_get(info, "DriverStatus");
    for (size_t i = 0; i < json_array_size(status); i++) {
        const json_t *pair = json_array_get(status, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *value = json_string_value(json_array_get(pair, 1));
        if (name && value && strcmp(name, "driver-type") == 0 &&
            strcmp(value, "io.containerd.snapshotter.v1") == 0)
            return true;
    }
    return false;
}

static bool choose_platform(docker_state *state, const core_settings *settings, const run_ctx *ctx,
                            plim_error *err)
{
    char given[64];
    if (settings->docker_platform[0]) {
        snprintf(given, sizeof(given), "%s", settings->docker_platform);
    } else {
        _cleanup_(json_decrefp)
        json_t *version = get_json(state->engine, "/version", "version", ctx, err);
        if (!version)
            return false;
        const char *os = text_of(version, "Os"), *arch = text_of(version, "Arch");
        if (!os[0] || !arch[0] ||
            (size_t)snprintf(given, sizeof(given), "%s/%s", os, arch) >= sizeof(given))
            return core_refuse_environment(err, "the Engine does not state its platform");
    }
    if (docker_platform_normalise(plim_bytes_of(given), state->platform, sizeof(state->platform)) &&
        strchr(state->platform, '/'))
        return true;
    return core_refuse_environment(err, "DOCKER_DEFAULT_PLATFORM is not os/arch");
}

/* ---- images ---- */

static void add_platform(base_buf *target, const char *platform)
{
    char os[32], arch[32];
    const char *slash = strchr(platform, '/'), *second = strchr(slash + 1, '/');
    snprintf(os, sizeof(os), "%.*s", (int)(slash - platform), platform);
    snprintf(arch, sizeof(arch), "%.*s",
             second ? (int)(second - slash - 1) : (int)strlen(slash + 1), slash + 1);
    json_t *object = json_pack("{s:s,s:s}", "os", os, "architecture", arch);
    if (second)
        json_object_set_new(object, "variant", json_string(second + 1));
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    base_buf_add_text(target, "?platform=");
    docker_url_encode(target, plim_bytes_of(text));
    free(text);
}

static bool inspect(docker_state *state, const char *name, const char *reference,
                    const char *platform, const run_ctx *ctx, docker_image *out, plim_error *err)
{
    char text[400], what[400];
    _cleanup_reply_ docker_reply reply;
    _cleanup_buf_ base_buf target = BASE_BUF_INIT(2048);
    base_buf_add_text(&target, "/images/");
    docker_url_encode(&target, plim_bytes_of(name));
    base_buf_add_text(&target, "/json");
    if (platform)
        add_platform(&target, platform);
    docker_engine_call(state->engine, "GET", base_buf_text(&target), (plim_bytes){NULL, 0}, ctx,
                       &reply);
    snprintf(what, sizeof(what), "image %s", reference);
    if (!docker_reply_ok(&reply))
        return core_refuse_environment(err, "%s",
                                       docker_reply_text(&reply, what, text, sizeof(text)));
    return docker_image_read(base_buf_bytes(&reply.body), reference, state->arena, out, err);
}

/* What a run of the chosen platform gets. True with `state->platform` empty when the Engine cannot
 * say and need not. */
static bool inspect_platform(docker_state *state, docker_state_image *image, bool must,
                             const run_ctx *ctx, plim_error *err)
{
    _cleanup_error_ plim_error why = PLIM_ERROR_INIT;
    docker_image chosen = {.env = NULL};
    if (docker_engine_api(state->engine) < DOCKER_API_PLATFORM) {
        if (must)
            return core_refuse_environment(
                err, "the Engine cannot inspect image %s for one platform", image->reference);
        state->platform[0] = '\0';
        return true;
    }
    if (inspect(state, image->facts.id, image->reference, state->platform, ctx, &chosen, &why)) {
        image->facts.env = chosen.env;
        image->facts.env_count = chosen.env_count;
        docker_image_identity(&chosen, state->platform, image->software, sizeof(image->software));
        return true;
    }
    return plim_error_move(err, &why);
}

static bool read_image(docker_state *state, const char *reference, bool must, const run_ctx *ctx,
                       docker_state_image *image, plim_error *err)
{
    image->reference = reference;
    if (!inspect(state, reference, reference, NULL, ctx, &image->facts, err))
        return false;
    if (state->platform[0] && !inspect_platform(state, image, must, ctx, err))
        return false;
    char id[sizeof(image->facts.id)];
    memcpy(id, image->facts.id, sizeof(id));
    snprintf(image->environment, sizeof(image->environment), "docker-image:%s", id);
    return true;
}

static bool read_images(docker_state *state, const core_settings *settings, bool must,
                        const run_ctx *ctx, plim_error *err)
{
    const char *module = settings->docker_module_image;
    docker_state_image checked_only = {.reference = NULL}; /* nothing runs in the module image */
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
        if (!read_image(state, docker_reference_of(settings, kind), must, ctx, &state->images[kind],
                        err))
            return false;
    if (module[0] && !read_image(state, module, must, ctx, &checked_only, err))
        return false;
    if (!state->platform[0])
        for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
            state->images[kind].software[0] = '\0';
    return true;
}

/* ---- the key ---- */

static void add_part(base_sha256 *digest, const char *text)
{
    base_sha256_update(digest, plim_bytes_of(text));
    base_sha256_update(digest, (plim_bytes){"", 1});
}

static bool make_key(docker_state *state, docker_kind kind)
{
    unsigned char sum[BASE_SHA256_BYTES];
    const docker_state_image *image = &state->images[kind];
    const docker_file_id *file = &state->runtime_file;
    char numbers[160];
    _cleanup_(base_sha256_freep)
    base_sha256 *digest = base_sha256_new();
    if (!digest)
        return false;
    snprintf(numbers, sizeof(numbers),
             "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %zu", file->device,
             file->inode, file->size, file->modified_ns, state->uid, image->facts.env_count);
    const char *const parts[] = {docker_engine_path(state->engine),
                                 state->engine_id,
                                 state->runtime,
                                 state->registration,
                                 state->platform,
                                 image->facts.id,
                                 image->software,
                                 numbers,
                                 state->seccomp ? state->seccomp : "-"};
    for (size_t i = 0; i < PLIM_COUNT(parts); i++)
        add_part(digest, parts[i]);
    for (size_t i = 0; i < image->facts.env_count; i++)
        add_part(digest, image->facts.env[i]);
    if (!base_sha256_final(digest, sum))
        return false;
    base_hex(sum, sizeof(sum), state->key[kind]);
    return true;
}

/* ---- all of it ---- */

static docker_state *state_new(const core_settings *settings, docker_engine *engine)
{
    base_arena *arena = base_arena_new(STATE_BYTES_MAX);
    docker_state *state = arena ? base_arena_alloc(arena, 1, sizeof(*state)) : NULL;
    if (!state) {
        base_arena_free(arena);
        return NULL;
    }
    state->holders = 1;
    state->arena = arena;
    state->engine = engine;
    state->runtime = base_arena_text(arena, plim_bytes_of(settings->docker_runtime));
    state->registration = state->engine_id = state->runtime_path = "";
    state->uid = docker_uid_of(settings);
    if (state->runtime)
        return state;
    base_arena_free(arena);
    return NULL;
}

static bool keep_seccomp(docker_state *state, const char *profile)
{
    if (!profile || docker_is_runsc(state->runtime))
        return true;
    state->seccomp = base_arena_text(state->arena, plim_bytes_of(profile));
    return state->seccomp != NULL;
}

static bool fill(docker_state *state, const core_settings *settings, const run_ctx *ctx,
                 plim_error *err)
{
    _cleanup_(json_decrefp)
    json_t *info = get_json(state->engine, "/info", "info", ctx, err);
    if (!info)
        return false;
    state->engine_id = base_arena_text(state->arena, plim_bytes_of(text_of(info, "ID")));
    if (!state->engine_id)
        return plim_refuse_nomem(err);
    bool must = settings->docker_platform[0] || has_image_store(info);
    if (!read_runtime(state, info, err) || !choose_platform(state, settings, ctx, err) ||
        !read_images(state, settings, must, ctx, err))
        return false;
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
        if (!make_key(state, kind))
            return plim_refuse_nomem(err);
    state->verified_ns = base_monotonic_ns();
    return true;
}

docker_state *docker_state_probe(const core_settings *settings, docker_engine *engine,
                                 const run_ctx *ctx, plim_error *err)
{
    _cleanup_free_ char *seccomp = NULL;
    if (!docker_state_check_settings(settings, &seccomp, err) ||
        !docker_engine_hello(engine, ctx, err))
        return NULL;
    _cleanup_(docker_state_releasep)
    docker_state *state = state_new(settings, engine);
    if (!state || !keep_seccomp(state, seccomp)) {
        plim_refuse_nomem(err);
        return NULL;
    }
    return fill(state, settings, ctx, err) ? TAKE_PTR(state) : NULL;
}
