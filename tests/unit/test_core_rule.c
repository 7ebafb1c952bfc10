/* Software rules: what is well formed, what is met, and the ID that records state. */
#include "unit.h"

#include "core/core.h"

#define A                                                                                          \
    "oci-manifest:linux/amd64@sha256:"                                                             \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B                                                                                          \
    "oci-manifest:linux/amd64@sha256:"                                                             \
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const plim_software_rule no_rule = {PLIM_RULE_NONE, NULL, 0};

static void well_formed_rules_are_accepted(void **state)
{
    (void)state;
    char longest[PLIM_SOFTWARE_IDENTITY_BYTES_MAX];
    memset(longest, 'i', sizeof(longest));
    char names[PLIM_SOFTWARE_IDENTITIES_MAX][4];
    plim_bytes many[PLIM_SOFTWARE_IDENTITIES_MAX];
    for (size_t i = 0; i < PLIM_COUNT(many); i++) {
        snprintf(names[i], sizeof(names[i]), "i%zu", i);
        many[i] = plim_bytes_of(names[i]);
    }
    const plim_bytes one[] = {PLIM_LIT("a")}, all[] = {PLIM_LIT("ABCXYZabcxyz0189._:/@+-")},
                     full[] = {{longest, sizeof(longest)}};
    const plim_software_rule good[] = {
        no_rule,
        {PLIM_RULE_EXACT, one, 1},
        {PLIM_RULE_EXACT, all, 1},
        {PLIM_RULE_EXACT, full, 1},
        {PLIM_RULE_APPROVED, one, 1},
        {PLIM_RULE_APPROVED, many, PLIM_SOFTWARE_IDENTITIES_MAX},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++)
        assert_true(core_rule_valid(&good[i], NULL));
}

static void malformed_rules_are_refused(void **state)
{
    (void)state;
    char long_name[PLIM_SOFTWARE_IDENTITY_BYTES_MAX + 1];
    memset(long_name, 'i', sizeof(long_name));
    char names[PLIM_SOFTWARE_IDENTITIES_MAX + 1][4];
    plim_bytes many[PLIM_SOFTWARE_IDENTITIES_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(many); i++) {
        snprintf(names[i], sizeof(names[i]), "i%zu", i);
        many[i] = plim_bytes_of(names[i]);
    }
    const plim_bytes two[] = {PLIM_LIT("a"), PLIM_LIT("b")},
                     same[] = {PLIM_LIT("a"), PLIM_LIT("b"), PLIM_LIT("a")},
                     too_long[] = {{long_name, sizeof(long_name)}}, empty[] = {{NULL, 0}};
    const plim_software_rule bad[] = {
        {PLIM_RULE_NONE, two, 1},       {PLIM_RULE_EXACT, two, 0},
        {PLIM_RULE_EXACT, two, 2},      {PLIM_RULE_APPROVED, two, 0},
        {PLIM_RULE_APPROVED, same, 3},  {PLIM_RULE_APPROVED, many, PLIM_COUNT(many)},
        {PLIM_RULE_EXACT, too_long, 1}, {PLIM_RULE_EXACT, empty, 1},
        {(plim_rule_mode)3, two, 1},    {(plim_rule_mode)-1, two, 1},
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        plim_error err = PLIM_ERROR_INIT;
        assert_false(core_rule_valid(&bad[i], &err));
        assert_refused(&err, PLIM_E_INVALID_REQUEST, "invalid_argument", PLIM_ND_REQUEST);
    }
}

/* Every byte: the 68 of the contract and no other. */
static void identities_hold_listed_bytes_only(void **state)
{
    (void)state;
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@+-";
    for (int byte = 0; byte < 256; byte++) {
        char text[] = {'a', (char)byte, 'z'};
        const plim_bytes identity = {text, sizeof(text)};
        const plim_software_rule rule = {PLIM_RULE_EXACT, &identity, 1};
        assert_int_equal(core_rule_valid(&rule, NULL), byte && strchr(allowed, byte) != NULL);
    }
}

static void a_rule_is_met_by_a_listed_identity_only(void **state)
{
    (void)state;
    const plim_bytes list[] = {PLIM_LIT(A), PLIM_LIT(B)};
    const plim_software_rule exact = {PLIM_RULE_EXACT, list, 1},
                             approved = {PLIM_RULE_APPROVED, list, 2};
    assert_true(core_rule_allows(&no_rule, (plim_bytes){NULL, 0}));
    assert_true(core_rule_allows(&no_rule, PLIM_LIT(A)));
    assert_true(core_rule_allows(&exact, PLIM_LIT(A)));
    assert_false(core_rule_allows(&exact, PLIM_LIT(B)));
    assert_true(core_rule_allows(&approved, PLIM_LIT(B)));
    assert_false(core_rule_allows(&approved, PLIM_LIT(A "a")));
    assert_false(core_rule_allows(&approved, (plim_bytes){A, sizeof(A) - 2}));
    /* A provider that states none meets no rule, not even one that could not be written. */
    const plim_bytes nothing = {NULL, 0};
    const plim_software_rule empty = {PLIM_RULE_EXACT, &nothing, 1};
    assert_false(core_rule_allows(&exact, nothing));
    assert_false(core_rule_allows(&empty, nothing));
}

static void rule_ids_match_the_vectors(void **state)
{
    (void)state;
    static const char both[] =
        "approved:sha256:def36ca56c26169c32c1690b9f8df85526c919015dc46db52662b58d98ad7a10";
    const plim_bytes in_order[] = {PLIM_LIT(A), PLIM_LIT(B)},
                     reversed[] = {PLIM_LIT(B), PLIM_LIT(A)};
    const struct {
        plim_software_rule rule;
        const char *id;
    } cases[] = {
        {no_rule, ""},
        {{PLIM_RULE_EXACT, in_order, 1}, "exact:" A},
        {{PLIM_RULE_APPROVED, in_order, 1}, "exact:" A},
        {{PLIM_RULE_APPROVED, in_order, 2}, both},
        {{PLIM_RULE_APPROVED, reversed, 2}, both},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        char id[CORE_RULE_ID_MAX] = "x";
        assert_true(core_rule_id(&cases[i].rule, id));
        assert_string_equal(id, cases[i].id);
    }
    assert_string_equal(in_order[0].data, A); /* sorted a copy */
}

/* The hash is over the sorted identities with one NUL between: a boundary moved is another rule. */
static void rule_ids_tell_rules_apart(void **state)
{
    (void)state;
    const plim_bytes first[] = {PLIM_LIT("ab"), PLIM_LIT("c")},
                     second[] = {PLIM_LIT("a"), PLIM_LIT("bc")};
    char one[CORE_RULE_ID_MAX], other[CORE_RULE_ID_MAX], expected[BASE_SHA256_HEX + 1];
    assert_true(core_rule_id(&(plim_software_rule){PLIM_RULE_APPROVED, first, 2}, one));
    assert_true(core_rule_id(&(plim_software_rule){PLIM_RULE_APPROVED, second, 2}, other));
    assert_string_not_equal(one, other);
    assert_true(base_sha256_hex_of(PLIM_LIT("ab\0c"), expected));
    assert_string_equal(one + strlen("approved:sha256:"), expected);
}

static void the_longest_rule_id_fits(void **state)
{
    (void)state;
    char name[PLIM_SOFTWARE_IDENTITY_BYTES_MAX], id[CORE_RULE_ID_MAX];
    memset(name, 'i', sizeof(name));
    const plim_bytes identity = {name, sizeof(name)};
    assert_true(core_rule_id(&(plim_software_rule){PLIM_RULE_EXACT, &identity, 1}, id));
    assert_int_equal(strlen(id), strlen("exact:") + sizeof(name));
    plim_bytes many[PLIM_SOFTWARE_IDENTITIES_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(many); i++)
        many[i] = identity;
    assert_true(core_rule_id(
        &(plim_software_rule){PLIM_RULE_APPROVED, many, PLIM_SOFTWARE_IDENTITIES_MAX}, id));
    assert_int_equal(strlen(id), strlen("approved:sha256:") + BASE_SHA256_HEX);
    /* A rule that validation would refuse has no ID. */
    assert_false(
        core_rule_id(&(plim_software_rule){PLIM_RULE_APPROVED, many, PLIM_COUNT(many)}, id));
    assert_false(core_rule_id(&(plim_software_rule){PLIM_RULE_EXACT, many, 0}, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_rules_are_accepted),
        cmocka_unit_test(malformed_rules_are_refused),
        cmocka_unit_test(identities_hold_listed_bytes_only),
        cmocka_unit_test(a_rule_is_met_by_a_listed_identity_only),
        cmocka_unit_test(rule_ids_match_the_vectors),
        cmocka_unit_test(rule_ids_tell_rules_apart),
        cmocka_unit_test(the_longest_rule_id_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
