/* The body of a create call, whole and field by field: what it holds and that it holds nothing
 * more. */
#include "unit.h"

#include "providers/docker/argv.h"
#include "providers/docker/body.h"

#include <jansson.h>

#include "guest/ctl/ctl.h"

#define IMAGE "sha256:0000000000000000000000000000000000000000000000000000000000000001"

static const char *const argv[] = {"/usr/bin/env", "-i", "node"};
static const char *const image_env[] = {"PATH=/x", "NODE_OPTIONS=--require /work/x.js"};

static docker_body usual(void)
{
    return (docker_body){.image = IMAGE,
                         .argv = argv,
                         .argc = 3,
                         .uid = 61000,
                         .expires = 1000001,
                         .interactive = true,
                         .tmp_mb = 16,
                         .shm_mb = 16,
                         .work_mb = 128,
                         .memory_mb = 256,
                         .pids = 256,
                         .cpus = 1,
                         .runtime = ""};
}

static void assert_body(const docker_body *body, const char *expected)
{
    char *text = docker_body_write(body);
    json_t *have = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *want = json_loads(expected, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(have);
    assert_non_null(want);
    if (!json_equal(have, want))
        fail_msg("found %s", text);
    json_decref(have);
    json_decref(want);
    base_free(text);
}

#define BEFORE_HOST                                                                                \
    "{\"Image\":\"" IMAGE "\",\"Entrypoint\":[\"/usr/bin/env\"],\"Cmd\":[\"-i\",\"node\"],"        \
    "\"User\":\"61000:61000\",\"Tty\":false,\"Labels\":{\"io.plimsoll.expires\":\"1000001\"},"     \
    "\"Healthcheck\":{\"Test\":[\"NONE\"]},"
#define ATTACHED(yes)                                                                              \
    "\"OpenStdin\":" yes ",\"StdinOnce\":" yes ",\"AttachStdin\":" yes ",\"AttachStdout\":" yes    \
    ",\"AttachStderr\":" yes ","
#define HOST(automatic, init, more)                                                                \
    "\"HostConfig\":{\"AutoRemove\":" automatic                                                    \
    ",\"LogConfig\":{\"Type\":\"none\",\"Config\":{}},"                                            \
    "\"Memory\":268435456,\"MemorySwap\":268435456,\"PidsLimit\":256,\"NanoCpus\":1000000000,"     \
    "\"ReadonlyRootfs\":true,\"CapDrop\":[\"ALL\"],"                                               \
    "\"Ulimits\":[{\"Name\":\"core\",\"Soft\":0,\"Hard\":0},"                                      \
    "{\"Name\":\"nofile\",\"Soft\":4096,\"Hard\":4096}],\"IpcMode\":\"private\","                  \
    "\"NetworkMode\":\"none\",\"Init\":" init "," more "}"
#define TMPFS                                                                                      \
    "\"Tmpfs\":{\"/tmp\":\"rw,noexec,nosuid,size=16m\","                                           \
    "\"/dev/shm\":\"rw,noexec,nosuid,size=16m\"}"
#define TMPFS_WORK(size)                                                                           \
    "\"Tmpfs\":{\"/tmp\":\"rw,noexec,nosuid,size=16m\","                                           \
    "\"/dev/shm\":\"rw,noexec,nosuid,size=16m\","                                                  \
    "\"/work\":\"rw,noexec,nosuid,size=" size ",mode=1777\"}"
#define PLAIN_SECURITY "\"SecurityOpt\":[\"no-new-privileges\"]"

static void a_snippet_run_is_the_contract(void **state)
{
    (void)state;
    docker_body body = usual();
    assert_body(&body, BEFORE_HOST ATTACHED("true") "\"Env\":[]," HOST(
                           "true", "false", TMPFS "," PLAIN_SECURITY) "}");
}

static void a_project_run_has_work(void **state)
{
    (void)state;
    docker_body body = usual();
    body.work = true;
    assert_body(&body, BEFORE_HOST ATTACHED("true") "\"Env\":[],\"WorkingDir\":\"/work\"," HOST(
                           "true", "false", TMPFS_WORK("128m") "," PLAIN_SECURITY) "}");
    body.work_mb = 464;
    assert_body(&body, BEFORE_HOST ATTACHED("true") "\"Env\":[],\"WorkingDir\":\"/work\"," HOST(
                           "true", "false", TMPFS_WORK("464m") "," PLAIN_SECURITY) "}");
}

static void a_detached_one_is_not_removed_by_itself(void **state)
{
    (void)state;
    docker_body body = usual();
    body.interactive = false;
    assert_body(&body, BEFORE_HOST ATTACHED("false") "\"Env\":[]," HOST(
                           "false", "true", TMPFS "," PLAIN_SECURITY) "}");
}

static void options_are_sent_when_they_are_set(void **state)
{
    (void)state;
    docker_body body = usual();
    body.runtime = "runsc";
    body.seccomp = "{\"defaultAction\":\"SCMP_ACT_ERRNO\"}";
    body.socket = "/tmp/plsm-broker-x/host-api.sock";
    body.image_env = image_env;
    body.image_env_count = 2;
    assert_body(&body,
                BEFORE_HOST ATTACHED("true") "\"Env\":[\"PATH\",\"NODE_OPTIONS\"]," HOST(
                    "true", "false",
                    TMPFS
                    ",\"SecurityOpt\":[\"no-new-privileges\","
                    "\"seccomp={\\\"defaultAction\\\":\\\"SCMP_ACT_ERRNO\\\"}\"],"
                    "\"Runtime\":\"runsc\","
                    "\"Binds\":[\"/tmp/plsm-broker-x/host-api.sock:/run/host-api.sock\"]") "}");
}

static void fractions_of_a_processor_are_exact(void **state)
{
    (void)state;
    docker_body body = usual();
    body.cpus = 0.1;
    char *text = docker_body_write(&body);
    assert_contains(text, "\"NanoCpus\":100000000,");
    base_free(text);
}

static void command_lines_hold_nothing_of_the_image(void **state)
{
    (void)state;
    static const char *const node[] = {"node", "-"};
    base_arena *arena = base_arena_new(65536);
    docker_image image = {.env = (const char **)image_env, .env_count = 2};
    docker_argv line;
    assert_true(docker_argv_control(arena, "", "run", "MARK\n", &line));
    static const char *const control[] = {"/usr/bin/env", "-i",  ("PATH=" CTL_PATH),
                                          CTL_PROGRAM,    "run", "MARK\n"};
    assert_int_equal(line.count, PLIM_COUNT(control));
    for (size_t i = 0; i < line.count; i++)
        assert_string_equal(line.items[i], control[i]);

    assert_true(docker_argv_control(arena, "runsc", "run", "MARK\n", &line));
    assert_string_equal(line.items[3], CTL_PROGRAM_RUNSC);

    assert_true(
        docker_argv_start(arena, "", DOCKER_CONTROL_PROGRAM, "MARK\n", &image, node, 2, &line));
    static const char *const start[] = {"/usr/bin/env", "-i",     ("PATH=" CTL_PATH), CTL_PROGRAM,
                                        "supervise",    "MARK\n", "PATH=/x",          NULL,
                                        "node",         "-"};
    assert_int_equal(line.count, PLIM_COUNT(start));
    for (size_t i = 0; i < line.count; i++)
        assert_string_equal(line.items[i], i == 7 ? image_env[1] : start[i]);

    assert_true(
        docker_argv_start(arena, "", DOCKER_CONTROL_SHELL, "MARK\n", &image, node, 2, &line));
    assert_string_equal(line.items[3], "/bin/sh");
    assert_string_equal(line.items[7], "MARK\n");
    base_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snippet_run_is_the_contract),
        cmocka_unit_test(a_project_run_has_work),
        cmocka_unit_test(a_detached_one_is_not_removed_by_itself),
        cmocka_unit_test(options_are_sent_when_they_are_set),
        cmocka_unit_test(fractions_of_a_processor_are_exact),
        cmocka_unit_test(command_lines_hold_nothing_of_the_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
