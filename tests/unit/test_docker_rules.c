/* What settings ask of a container, tables against the contract: disk, users, references,
 * platforms, labels, the Engine's address, shares of a pool. */
#include "unit.h"

#include "providers/docker/cgroup.h"
#include "providers/docker/discover.h"
#include "providers/docker/keeper.h"
#include "providers/docker/limits.h"
#include "providers/docker/shares.h"
#include "providers/docker/smoke.h"
#include "providers/docker/text.h"

#include <math.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void disk_sizes_add_up(void **state)
{
    (void)state;
    static const struct {
        docker_disk disk;
        int64_t work; /* -1: refused */
    } rows[] = {
        {{0, 16, 16, 0}, 128},  {{256, 16, 16, 0}, 224},   {{512, 32, 16, 0}, 464},
        {{32, 16, 16, 0}, -1},  {{33, 16, 16, 0}, 1},      {{128, 16, 16, 128}, -1},
        {{256, -1, 16, 0}, -1}, {{256, 16, -1, 0}, -1},    {{256, 16, 16, -1}, -1},
        {{-1, 16, 16, 0}, -1},  {{160, 16, 16, 128}, 128}, {{0, 16, 16, 4000}, 4000},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        docker_disk disk = rows[i].disk;
        plim_error err = PLIM_ERROR_INIT;
        bool good = docker_disk_resolve(&disk, &err);
        assert_int_equal(good, rows[i].work >= 0);
        if (good)
            assert_int_equal(disk.work, rows[i].work);
        else
            assert_refused(&err, PLIM_E_REMOTE, "internal", PLIM_ND_ENVIRONMENT);
    }
}

static void users_that_the_host_hands_out_are_refused(void **state)
{
    (void)state;
    static const int64_t good[] = {1, 1000, 59999, 60514, 60576, 60706, 61000, 61182};
    static const int64_t bad[] = {0,     -1,    65533, 60000, 60001, 60513,
                                  60577, 60578, 60705, 61183, 61184, 65519};
    for (size_t i = 0; i < PLIM_COUNT(good); i++)
        assert_true(docker_guest_uid_valid(good[i]));
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_false(docker_guest_uid_valid(bad[i]));
    assert_true(docker_guest_uid_valid(65532));
}

static void accounts_of_the_host_collide(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool group, collides;
    } rows[] = {
        {"root:x:0:0:root:/root:/bin/sh\n", false, false},
        {"a:x:61000:1:::\n", false, true},
        {"a:x:1:61000:::\n", false, true},
        {"a:x:61001:1:::", false, true},
        {"a:x:061000:1:::", false, true},
        {"a:x:61002:60999:::", false, false},
        {"a:x:610000:1:::", false, false},
        {"a:x\nb\n\n:::\n", false, false},
        {"g:x:61000:\n", true, true},
        {"g:x:061001:\n", true, true},
        {"g:x:1:61000\n", true, false},
        {"", true, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        char entry[16] = "";
        if (docker_account_collides(plim_bytes_of(rows[i].text), rows[i].group, 61000, entry,
                                    sizeof(entry)) != rows[i].collides)
            fail_msg("row %zu", i);
        if (rows[i].collides)
            assert_int_equal(entry[0], rows[i].group ? 'g' : 'a');
    }
}

static void references_are_well_formed_and_pinned(void **state)
{
    (void)state;
    assert_true(docker_image_ref_valid("node:22-alpine"));
    assert_false(docker_image_ref_valid(""));
    assert_false(docker_image_ref_valid(" node"));
    assert_false(docker_image_ref_valid("node\n"));
    assert_false(docker_image_ref_valid("-v"));
    assert_true(docker_image_ref_pinned("node@sha256:" HEX64));
    assert_true(docker_image_ref_pinned("node:22@sha256:" HEX64));
    assert_false(docker_image_ref_pinned("node:22"));
    assert_false(docker_image_ref_pinned("@sha256:" HEX64));
    assert_false(docker_image_ref_pinned("node@sha256:" HEX64 "0"));
    assert_false(docker_image_ref_pinned("node@sha256:0123"));
    assert_false(docker_image_ref_pinned("node@sha512:" HEX64));
}

static void platforms_have_one_form(void **state)
{
    (void)state;
    static const struct {
        const char *given, *normal;
    } rows[] = {
        {"linux/aarch64", "linux/arm64"},
        {"linux/arm64/v8", "linux/arm64"},
        {"Linux/ARM64/8", "linux/arm64"},
        {"linux/arm64/v8.0", "linux/arm64"},
        {"linux/arm64/9", "linux/arm64/v9"},
        {"linux/arm64/9.0", "linux/arm64/v9"},
        {"linux/arm64/v9.0", "linux/arm64/v9"},
        {"linux/x86_64", "linux/amd64"},
        {"linux/x86-64", "linux/amd64"},
        {"linux/amd64/v1", "linux/amd64"},
        {"linux/amd64/v3", "linux/amd64/v3"},
        {"linux/i386", "linux/386"},
        {"linux/armhf", "linux/arm/v7"},
        {"linux/armel", "linux/arm/v6"},
        {"linux/arm", "linux/arm/v7"},
        {"linux/arm/7", "linux/arm/v7"},
        {"linux/arm/5", "linux/arm/v5"},
        {"linux/arm/6", "linux/arm/v6"},
        {"linux/arm/8", "linux/arm/v8"},
        {"linux", "linux"},
        {"a/b/c/d", "a/b/c/d"},
        {"windows/amd64", "windows/amd64"},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        char out[64];
        assert_true(docker_platform_normalise(plim_bytes_of(rows[i].given), out, sizeof(out)));
        assert_string_equal(out, rows[i].normal);
    }
    char small[4];
    assert_false(docker_platform_normalise(PLIM_LIT("linux/amd64"), small, sizeof(small)));
}

static void labels_round_up(void **state)
{
    (void)state;
    int64_t value;
    assert_int_equal(docker_expiry(1000000000, 500), 1000001);
    assert_int_equal(docker_expiry(1000000000, 0), 1000000);
    assert_int_equal(docker_expiry(1000000001, 0), 1000001);
    assert_true(docker_expiry_parse(PLIM_LIT("1000001"), &value));
    assert_int_equal(value, 1000001);
    static const plim_bytes bad[] = {PLIM_LIT(""),   PLIM_LIT("-1"),
                                     PLIM_LIT("+1"), PLIM_LIT(" 1"),
                                     PLIM_LIT("1x"), PLIM_LIT("99999999999999999999")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_false(docker_expiry_parse(bad[i], &value));
}

static bool is_held(void *data, const char *name)
{
    return strcmp(data, name) == 0;
}

static void a_sweep_takes_what_is_long_over(void **state)
{
    (void)state;
    static const struct {
        const char *label, *name;
        bool taken;
    } rows[] = {
        {"\"640\"", "/plsm-run-1", true},   {"\"699\"", "/plsm-run-1", true},
        {"\"700\"", "/plsm-run-1", false},  {"\"940\"", "/plsm-run-1", false},
        {"\"2000\"", "/plsm-run-1", false}, {"\"640\"", "/plsm-run-held", false},
        {"\"soon\"", "/plsm-run-1", false}, {"\"-5\"", "/plsm-run-1", false},
        {"640", "/plsm-run-1", false},      {"\"\"", "/plsm-run-1", false},
    };
    char held[] = "plsm-run-held";
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        _cleanup_buf_ base_buf text = BASE_BUF_INIT(1024), ids = BASE_BUF_INIT(1024);
        base_buf_printf(&text,
                        "[{\"Id\":\"" HEX64 "\",\"Names\":[\"%s\"],"
                        "\"Labels\":{\"io.plimsoll.expires\":%s}}]",
                        rows[i].name, rows[i].label);
        assert_true(docker_sweep_choose(base_buf_bytes(&text), 1000, is_held, held, &ids));
        if ((ids.len == BASE_SHA256_HEX + 1) != rows[i].taken)
            fail_msg("row %zu", i);
    }
    _cleanup_buf_ base_buf none = BASE_BUF_INIT(1024);
    assert_false(docker_sweep_choose(PLIM_LIT("{}"), 1000, is_held, held, &none));
    assert_false(docker_sweep_choose(PLIM_LIT("[{\"Id\""), 1000, is_held, held, &none));
    assert_false(docker_sweep_choose((plim_bytes){NULL, 0}, 1000, is_held, held, &none));
    assert_true(docker_sweep_choose(
        PLIM_LIT("[{\"Id\":\"../x\",\"Labels\":{\"io.plimsoll.expires\":\"1\"}},{},null]"), 1000,
        is_held, held, &none));
    assert_int_equal(none.len, 0);
}

static void an_engine_is_a_socket_of_this_machine(void **state)
{
    (void)state;
    static const struct {
        const char *given, *path;
    } rows[] = {
        {"unix:///var/run/docker.sock", "/var/run/docker.sock"},
        {"/run/user/1/docker.sock", "/run/user/1/docker.sock"},
        {"tcp://127.0.0.1:2375", NULL},
        {"ssh://host", NULL},
        {"npipe:////./pipe/docker_engine", NULL},
        {"fd://", NULL},
        {"unix://", NULL},
        {"unix://relative", NULL},
        {"docker.sock", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        char path[DOCKER_SOCKET_MAX];
        plim_error err = PLIM_ERROR_INIT;
        bool good = docker_endpoint_parse(plim_bytes_of(rows[i].given), "DOCKER_HOST", path, &err);
        assert_int_equal(good, rows[i].path != NULL);
        if (good)
            assert_string_equal(path, rows[i].path);
        else
            assert_refused(&err, PLIM_E_REMOTE, "internal", PLIM_ND_ENVIRONMENT);
    }
    char longest[256] = "/";
    char path[DOCKER_SOCKET_MAX];
    memset(longest + 1, 'x', 150);
    assert_false(docker_endpoint_parse(plim_bytes_of(longest), "DOCKER_HOST", path, NULL));
}

static void control_groups_name_their_file(void **state)
{
    (void)state;
    static const struct {
        const docker_cgroup_file *which;
        const char *text, *file;
    } rows[] = {
        {&docker_cgroup_limit, "5:pids:/docker/" HEX64 "\n",
         "/sys/fs/cgroup/pids/docker/" HEX64 "/pids.max"},
        {&docker_cgroup_limit, "0::/system.slice/docker-" HEX64 ".scope\n",
         "/sys/fs/cgroup/system.slice/docker-" HEX64 ".scope/pids.max"},
        {&docker_cgroup_limit, "0::/x/" HEX64 "\n4:cpu,pids:/y/" HEX64 "\n",
         "/sys/fs/cgroup/pids/y/" HEX64 "/pids.max"},
        {&docker_cgroup_kills, "0::/x/" HEX64 "\n4:cpu,pids:/y/" HEX64 "\n",
         "/sys/fs/cgroup/x/" HEX64 "/memory.events"},
        {&docker_cgroup_kills, "0::/\n4:memory:/y/" HEX64 "\n",
         "/sys/fs/cgroup/memory/y/" HEX64 "/memory.oom_control"},
        {&docker_cgroup_forks, "4:pids:/y/" HEX64 "\n",
         "/sys/fs/cgroup/pids/y/" HEX64 "/pids.events"},
        {&docker_cgroup_limit, "5:pids:/docker/other\n", NULL},
        {&docker_cgroup_limit, "5:pidsx:/docker/" HEX64 "\n", NULL},
        {&docker_cgroup_limit, "nonsense\n", NULL},
        {&docker_cgroup_limit, "", NULL},
    };
    char out[512];
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        bool good =
            docker_cgroup_path(plim_bytes_of(rows[i].text), HEX64, rows[i].which, out, sizeof(out));
        assert_int_equal(good, rows[i].file != NULL);
        if (good)
            assert_string_equal(out, rows[i].file);
    }
    assert_false(docker_cgroup_path(PLIM_LIT("5:pids:/docker/0123\n"), "0123", &docker_cgroup_limit,
                                    out, sizeof(out)));
    assert_false(
        docker_cgroup_path(PLIM_LIT("0::/\n"), "", &docker_cgroup_limit, out, sizeof(out)));
}

/* A process that is nobody's container is not believed to be one. */
static void a_process_of_the_host_is_no_container(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(1024);
    assert_int_equal(docker_process_open(getpid(), HEX64), -1);
    assert_false(docker_cgroup_read(getpid(), HEX64, &docker_cgroup_kills, &text));
    assert_int_equal(docker_process_open(0, HEX64), -1);
    assert_false(docker_cgroup_read(0, HEX64, &docker_cgroup_kills, &text));
}

static void shares_follow_demand_slowly(void **state)
{
    (void)state;
    docker_shares shares = docker_shares_new(8);
    assert_true(fabs(docker_shares_of(&shares, DOCKER_SNIPPET) - 8) < 1e-9);
    docker_shares_demand(&shares, DOCKER_PROJECT);
    assert_true(fabs(shares.weight[DOCKER_PROJECT] - 1.0 / 32) < 1e-12);
    assert_true(fabs(shares.weight[DOCKER_SNIPPET] - 31.0 / 32) < 1e-12);
    for (int i = 0; i < 500; i++)
        docker_shares_demand(&shares, DOCKER_PROJECT);
    assert_true(shares.weight[DOCKER_SNIPPET] == 0); /* forgotten below r/4 */
    assert_true(fabs(docker_shares_of(&shares, DOCKER_PROJECT) - 8) < 1e-9);

    size_t have[DOCKER_KINDS] = {8, 0};
    assert_int_equal(docker_shares_next(&shares, have), DOCKER_PROJECT);
    assert_int_equal(docker_shares_rebalance(&shares, have, 1), DOCKER_SNIPPET);
    assert_int_equal(docker_shares_rebalance(&shares, have, 59 * BASE_NS_PER_S), DOCKER_KINDS);
    assert_int_equal(docker_shares_rebalance(&shares, have, 61 * BASE_NS_PER_S), DOCKER_SNIPPET);

    docker_shares one = docker_shares_new(1);
    docker_shares_demand(&one, DOCKER_PROJECT);
    assert_true(fabs(one.weight[DOCKER_PROJECT] - 1.0 / 16) < 1e-12);
    size_t single[DOCKER_KINDS] = {1, 0};
    assert_int_equal(docker_shares_rebalance(&one, single, 1), DOCKER_KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disk_sizes_add_up),
        cmocka_unit_test(users_that_the_host_hands_out_are_refused),
        cmocka_unit_test(accounts_of_the_host_collide),
        cmocka_unit_test(references_are_well_formed_and_pinned),
        cmocka_unit_test(platforms_have_one_form),
        cmocka_unit_test(labels_round_up),
        cmocka_unit_test(a_sweep_takes_what_is_long_over),
        cmocka_unit_test(an_engine_is_a_socket_of_this_machine),
        cmocka_unit_test(control_groups_name_their_file),
        cmocka_unit_test(a_process_of_the_host_is_no_container),
        cmocka_unit_test(shares_follow_demand_slowly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
