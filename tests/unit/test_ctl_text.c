/* What the control program reads of the system's own text: passwd, mount table, ids, interfaces;
 * and how an environment is put together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "env.h"
#include "probe.h"

static void homes_are_found(void **state)
{
    (void)state;
    static const char passwd[] =
        "root:x:0:0:root:/root:/bin/sh\nbroken\n:::\nshort:x:7\nempty:x:8:8:::\n"
        "guest:x:61000:61000:G:/home/guest:/bin/sh\nagain:x:61000:1::/other:/bin/sh\nlast:x:9:9::/"
        "last";
    static const char *const rows[][2] = {
        {"0", "/root"}, {"61000", "/home/guest"}, {"9", "/last"}, {"7", ""}, {"8", ""}, {"1", ""},
        {"", ""}};
    for (size_t i = 0; i < PLIM_COUNT(rows); i++)
        assert_true(base_bytes_is(ctl_home_of(plim_bytes_of(passwd), plim_bytes_of(rows[i][0])),
                                  rows[i][1]));
}

static void the_last_of_a_name_wins_in_the_first_ones_place(void **state)
{
    (void)state;
    static struct ctl_env env;
    assert_true(ctl_env_init(&env));
    assert_true(ctl_env_put(&env, (char *)"A=1") && ctl_env_put(&env, (char *)"AB=2") &&
                ctl_env_put(&env, (char *)"A=3=4"));
    assert_int_equal(env.count, 2);
    assert_string_equal(env.entries[0], "A=3=4");
    assert_string_equal(ctl_env_get(&env, "A"), "3=4");
    assert_string_equal(ctl_env_get(&env, "AB"), "2");
    assert_null(ctl_env_get(&env, "B"));
    assert_null(env.entries[2]);
    assert_false(ctl_env_put(&env, (char *)"=1") || ctl_env_put(&env, (char *)"none") ||
                 ctl_env_put(&env, (char *)""));
    assert_true(ctl_env_set(&env, "N", "--a", " --b"));
    assert_string_equal(ctl_env_get(&env, "N"), "--a --b");
    assert_true(ctl_env_put(&env, (char *)"HOME=/h") && ctl_env_add_identity(&env));
    assert_string_equal(ctl_env_get(&env, "HOME"), "/h");
    assert_non_null(ctl_env_get(&env, "PATH"));
    assert_non_null(ctl_env_get(&env, "HOSTNAME"));
    base_arena_free(env.arena);
}

static void mount_points_are_read(void **state)
{
    (void)state;
    static const char table[] =
        "overlay / overlay rw 0 0\nnospace\n\ntmpfs /with\\040space\\011tab tmpfs rw 0 0\n"
        "x /back\\134slash\\9\\4 y\na \\000nul b\nlast /no-newline";
    static const char *const points[] = {"/", "/with space\ttab", "/back\\slash\\9\\4",
                                         "/no-newline"};
    plim_bytes rest = plim_bytes_of(table);
    char point[64];
    for (size_t i = 0; i < PLIM_COUNT(points); i++) {
        assert_true(ctl_probe_next_mount(&rest, point, sizeof point));
        assert_string_equal(point, points[i]);
    }
    assert_false(ctl_probe_next_mount(&rest, point, sizeof point));
    rest = PLIM_LIT("a /longer b\nc /ok d\n");
    assert_true(ctl_probe_next_mount(&rest, point, 5));
    assert_string_equal(point, "/ok");
}

static void ids_and_interfaces_are_listed(void **state)
{
    (void)state;
    static const char status[] =
        "Name:\tx Uid:\nUid:\t61000\t61000\t61000\t61000\nGid:\t1\nGroups:\t5 6 \nEnd:\t1\n";
    static const char *const rows[][2] = {{"Uid:", "[\"61000\",\"61000\",\"61000\",\"61000\"]"},
                                          {"Gid:", "[\"1\"]"},
                                          {"Groups:", "[\"5\",\"6\"]"},
                                          {"None:", "null"}};
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        _cleanup_buf_ base_buf json = BASE_BUF_INIT(1024);
        assert_true(ctl_probe_add_ids(&json, status, rows[i][0]));
        assert_string_equal(base_buf_text(&json), rows[i][1]);
    }
    _cleanup_buf_ base_buf json = BASE_BUF_INIT(1024);
    assert_true(ctl_probe_add_interfaces(
        &json, "Inter-|   Receive |  Transmit\n face |bytes    packets\n    lo:       0\n"
               "  eth0: 1\naninterfacewithanamethatnobodywouldgive: 0\n"));
    assert_string_equal(base_buf_text(&json),
                        "[\"lo\",\"eth0\",\"aninterfacewithanamethatnobodywo\"]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(homes_are_found),
        cmocka_unit_test(the_last_of_a_name_wins_in_the_first_ones_place),
        cmocka_unit_test(mount_points_are_read),
        cmocka_unit_test(ids_and_interfaces_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
