/* Validation: each limit of the contract at its bound and one past it, the path table, the module
 * rules; nothing is repaired and a refusal is always "nothing ran". */
#include "unit.h"

#include <math.h>

#include "core/core.h"

/* The biggest text any limit is about, all 'x'; tests borrow a front of it. */
static char filler[PLIM_FILE_CONTENT_BYTES_MAX + 1];

static plim_bytes text_of(size_t length)
{
    return (plim_bytes){filler, length};
}

static int fill_filler(void **state)
{
    (void)state;
    memset(filler, 'x', sizeof(filler));
    return 0;
}

static void expect(const core_request *request, bool good, const char *what)
{
    plim_error err = PLIM_ERROR_INIT;
    if (core_validate(request, &err) != good)
        fail_msg("%s was %s", what, good ? plim_error_message(&err) : "accepted");
    if (!good)
        assert_refused(&err, PLIM_E_INVALID_REQUEST, "invalid_argument", PLIM_ND_REQUEST);
}

static void expect_javascript(plim_javascript_request request, bool good, const char *what)
{
    core_request inner = {PLIM_KIND_JAVASCRIPT, &request.options, .javascript = &request};
    expect(&inner, good, what);
}

static void expect_project(plim_project_request request, bool good, const char *what)
{
    core_request inner = {PLIM_KIND_PROJECT, &request.options, .project = &request};
    expect(&inner, good, what);
}

static void expect_module(plim_module_request request, bool good, const char *what)
{
    core_request inner = {PLIM_KIND_MODULE, &request.options, .module = &request};
    expect(&inner, good, what);
}

/* ---- snippets ---- */

static void code_has_limits(void **state)
{
    (void)state;
    expect_javascript((plim_javascript_request){.code = {NULL, 0}}, false, "no code");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("1")}, true, "one byte");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("\xF0\x9F\x98\x80")}, true,
                      "a character of four bytes");
    expect_javascript((plim_javascript_request){.code = text_of(PLIM_CODE_BYTES_MAX)}, true,
                      "262,144 bytes");
    expect_javascript((plim_javascript_request){.code = text_of(PLIM_CODE_BYTES_MAX + 1)}, false,
                      "262,145 bytes");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("a\0b")}, false, "a NUL");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("\0")}, false, "only a NUL");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("'\xFF'")}, false, "bad UTF-8");
    expect_javascript((plim_javascript_request){.code = PLIM_LIT("'\xED\xA0\x80'")}, false,
                      "a surrogate");
}

static void grant_profiles_have_a_length(void **state)
{
    (void)state;
    for (size_t length = 0; length <= PLIM_GRANT_PROFILE_BYTES_MAX + 1; length++) {
        bool good = length <= PLIM_GRANT_PROFILE_BYTES_MAX;
        expect_javascript(
            (plim_javascript_request){.code = PLIM_LIT("1"), .grant_profile = text_of(length)},
            good, "a grant profile of a snippet");
        expect_project((plim_project_request){.steps = &PLIM_LIT("true"),
                                              .step_count = 1,
                                              .grant_profile = text_of(length)},
                       good, "a grant profile of a project");
    }
}

static void timeouts_are_never_refused(void **state)
{
    (void)state;
    static const int64_t timeouts[] = {INT64_MIN, -5, 0, 1, 300000, INT32_MAX, INT64_MAX};
    for (size_t i = 0; i < PLIM_COUNT(timeouts); i++)
        expect_javascript(
            (plim_javascript_request){.code = PLIM_LIT("1"), .options.timeout_ms = timeouts[i]},
            true, "a timeout");
}

static void floors_are_one_of_four(void **state)
{
    (void)state;
    for (int tier = -1; tier <= PLIM_TIER_VM + 2; tier++) {
        bool good =
            tier == PLIM_TIER_UNKNOWN || (tier >= PLIM_TIER_PROCESS && tier <= PLIM_TIER_VM);
        expect_javascript((plim_javascript_request){.code = PLIM_LIT("1"),
                                                    .options.minimum_isolation = (plim_tier)tier},
                          good, "a floor");
    }
}

static void rules_and_odd_kinds(void **state)
{
    (void)state;
    const plim_bytes identity = PLIM_LIT("a b");
    expect_javascript(
        (plim_javascript_request){.code = PLIM_LIT("1"),
                                  .options.software = {PLIM_RULE_EXACT, &identity, 1}},
        false, "an identity with a space");
    /* A trace id that cannot be logged is dropped where it would be logged; it refuses nothing. */
    expect_javascript(
        (plim_javascript_request){.code = PLIM_LIT("1"), .options.trace_id = PLIM_LIT("a/b")}, true,
        "a trace id with a slash");
    plim_run_options options = {0};
    for (int kind = -1; kind <= PLIM_KIND_CELL + 1; kind++)
        if (kind < PLIM_KIND_JAVASCRIPT || kind > PLIM_KIND_MODULE)
            expect(&(core_request){(plim_kind)kind, &options, .javascript = NULL}, false,
                   "a kind that cannot run on its own");
}

/* ---- projects ---- */

static void steps_have_limits(void **state)
{
    (void)state;
    plim_bytes steps[PLIM_STEPS_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(steps); i++)
        steps[i] = PLIM_LIT("true");
    plim_project_request request = {.steps = steps};
    for (size_t count = 0; count <= PLIM_STEPS_MAX + 1; count++) {
        request.step_count = count;
        expect_project(request, count >= 1 && count <= PLIM_STEPS_MAX, "a number of steps");
    }
    request.step_count = 2;
    static const struct {
        plim_bytes step;
        bool good;
    } cases[] = {
        {{NULL, 0}, true},
        {PLIM_LIT("a\nb"), true},
        {PLIM_LIT("\xC3\xA9"), true},
        {PLIM_LIT("a\0b"), false},
        {PLIM_LIT("\xFF"), false},
        {{filler, PLIM_STEP_BYTES_MAX}, true},
        {{filler, PLIM_STEP_BYTES_MAX + 1}, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        steps[1] = cases[i].step;
        expect_project(request, cases[i].good, "a step");
    }
}

static plim_project_request project_with(const plim_file *files, size_t count)
{
    static const plim_bytes step = PLIM_LIT("true");
    return (plim_project_request){
        .steps = &step, .step_count = 1, .files = files, .file_count = count};
}

static void files_have_limits(void **state)
{
    (void)state;
    static char names[PLIM_FILES_MAX + 1][8];
    static plim_file files[PLIM_FILES_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(files); i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        files[i] = (plim_file){plim_bytes_of(names[i]), {NULL, 0}};
    }
    expect_project(project_with(NULL, 0), true, "no file");
    expect_project(project_with(files, PLIM_FILES_MAX), true, "200 files");
    expect_project(project_with(files, PLIM_FILES_MAX + 1), false, "201 files");

    files[0].content = text_of(PLIM_FILE_CONTENT_BYTES_MAX);
    expect_project(project_with(files, 2), true, "4 MiB in one file");
    files[1].content = PLIM_LIT("x");
    expect_project(project_with(files, 2), false, "4 MiB and a byte in two files");
    files[1].content = (plim_bytes){NULL, 0};
    files[0].content = text_of(PLIM_FILE_CONTENT_BYTES_MAX + 1);
    expect_project(project_with(files, 2), false, "4 MiB and a byte in one file");

    files[0].content = PLIM_LIT("a\0b");
    expect_project(project_with(files, 2), true, "a NUL in a file");
    files[0].content = PLIM_LIT("\xC3");
    expect_project(project_with(files, 2), false, "bad UTF-8 in a file");
}

static void file_paths_differ(void **state)
{
    (void)state;
    plim_file files[] = {
        {PLIM_LIT("a"), {NULL, 0}}, {PLIM_LIT("b"), {NULL, 0}}, {PLIM_LIT("a"), {NULL, 0}}};
    expect_project(project_with(files, 3), false, "a path twice");
    files[2].path = PLIM_LIT("A");
    expect_project(project_with(files, 3), true, "paths that differ in case");
    files[2].path = PLIM_LIT("a/b");
    expect_project(project_with(files, 3), true, "a path below another");
}

static void artifacts_have_limits(void **state)
{
    (void)state;
    static char names[PLIM_ARTIFACTS_MAX + 1][8];
    static plim_bytes artifacts[PLIM_ARTIFACTS_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(artifacts); i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        artifacts[i] = plim_bytes_of(names[i]);
    }
    plim_project_request request = project_with(NULL, 0);
    request.artifacts = artifacts;
    request.artifact_count = PLIM_ARTIFACTS_MAX;
    expect_project(request, true, "100 artifacts");
    request.artifact_count = PLIM_ARTIFACTS_MAX + 1;
    expect_project(request, false, "101 artifacts");
    request.artifact_count = 3;
    artifacts[2] = artifacts[0];
    expect_project(request, false, "an artifact twice");
    artifacts[2] = PLIM_LIT("../x");
    expect_project(request, false, "an artifact outside");
}

static void paths_follow_the_table(void **state)
{
    (void)state;
    static const struct {
        plim_bytes path;
        bool good;
    } cases[] = {
        {PLIM_LIT("a"), true},
        {PLIM_LIT("a/b.c"), true},
        {PLIM_LIT("..a"), true},
        {PLIM_LIT("a.."), true},
        {PLIM_LIT("..."), true},
        {PLIM_LIT(".a/.b"), true},
        {PLIM_LIT("a b"), true},
        {PLIM_LIT("\xC3\xA9"), true},
        {PLIM_LIT("a:b"), true},
        {PLIM_LIT("a\xC2\xA0"), true}, /* U+00A0 is no control */
        {{NULL, 0}, false},
        {PLIM_LIT("."), false},
        {PLIM_LIT(".."), false},
        {PLIM_LIT("/"), false},
        {PLIM_LIT("/a"), false},
        {PLIM_LIT("a/"), false},
        {PLIM_LIT("a//b"), false},
        {PLIM_LIT("./a"), false},
        {PLIM_LIT("a/."), false},
        {PLIM_LIT("a/./b"), false},
        {PLIM_LIT("../a"), false},
        {PLIM_LIT("a/.."), false},
        {PLIM_LIT("a/../b"), false},
        {PLIM_LIT("a\\b"), false},
        {PLIM_LIT("a\xC2\x85"), false}, /* U+0085 */
        {PLIM_LIT("a\xC2\x80"), false},
        {PLIM_LIT("a\xC2\x9F"), false},
        {PLIM_LIT("a\x7F"), false},
        {PLIM_LIT("a\x1F"), false},
        {PLIM_LIT("a\nb"), false},
        {PLIM_LIT("a\0b"), false},
        {PLIM_LIT("a\xFF"), false},
        {PLIM_LIT("a\xC0\xAF"
                  "b"),
         false}, /* an overlong slash */
        {PLIM_LIT("\xED\xA0\x80"), false},
        {{filler, PLIM_PATH_BYTES_MAX}, true},
        {{filler, PLIM_PATH_BYTES_MAX + 1}, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        if (core_path_valid(cases[i].path) != cases[i].good)
            fail_msg("path \"%.*s\"", (int)cases[i].path.len, cases[i].path.data);
        expect_project(project_with(&(plim_file){cases[i].path, {NULL, 0}}, 1), cases[i].good,
                       "a file");
    }
}

static void names_follow_their_rule(void **state)
{
    (void)state;
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(core_name_valid((plim_bytes){&(char){(char)byte}, 1}),
                         byte && strchr(allowed, byte) != NULL);
    assert_false(core_name_valid((plim_bytes){NULL, 0}));
    assert_true(core_name_valid(text_of(PLIM_TRACE_ID_BYTES_MAX)));
    assert_false(core_name_valid(text_of(PLIM_TRACE_ID_BYTES_MAX + 1)));
}

/* ---- modules ---- */

/* One row of one value, one step. */
static plim_module_request small_module(void)
{
    static const double value = 1;
    return (plim_module_request){
        .model = PLIM_LIT("m"), .values = &value, .rows = 1, .width = 1, .end_time = 1, .step = 1};
}

static void models_are_named(void **state)
{
    (void)state;
    static const struct {
        plim_bytes model;
        bool good;
    } cases[] = {
        {PLIM_LIT("m"), true},    {PLIM_LIT("9"), true},          {PLIM_LIT("A-b_c.d9"), true},
        {{filler, 64}, true},     {{filler, 65}, false},          {{NULL, 0}, false},
        {PLIM_LIT("-m"), false},  {PLIM_LIT("_m"), false},        {PLIM_LIT(".m"), false},
        {PLIM_LIT("m:n"), false}, {PLIM_LIT("m n"), false},       {PLIM_LIT("m\n"), false},
        {PLIM_LIT("m/n"), false}, {PLIM_LIT("m\xC3\xA9"), false}, {PLIM_LIT("m\0"), false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        plim_module_request request = small_module();
        request.model = cases[i].model;
        expect_module(request, cases[i].good, "a model's name");
    }
}

static void module_tables_have_limits(void **state)
{
    (void)state;
    static double values[(PLIM_MODULE_ROWS_MAX + 1)];
    plim_module_request request = small_module();
    request.values = values;
    static const struct {
        size_t rows, width;
        bool good;
    } cases[] = {
        {0, 1, false},
        {1, 0, false},
        {0, 0, false},
        {1, 64, true},
        {1, 65, false},
        {1000, 64, true},
        {SIZE_MAX, 1, false},
        {1, SIZE_MAX, false},
        {SIZE_MAX, SIZE_MAX, false},
        {PLIM_MODULE_ROWS_MAX + 1, 1, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        request.rows = cases[i].rows;
        request.width = cases[i].width;
        expect_module(request, cases[i].good, "a table");
    }
    /* 20 + rows x (4 + 8 x (steps + 2)) bytes: with fewer steps than one, 20 a row. */
    request.rows = PLIM_MODULE_ROWS_MAX;
    request.width = 1;
    request.end_time = 0.5;
    expect_module(request, true, "100,000 rows");
    request.rows = PLIM_MODULE_ROWS_MAX + 1;
    expect_module(request, false, "100,001 rows");
}

static void module_values_are_finite(void **state)
{
    (void)state;
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < PLIM_COUNT(odd); i++)
        for (size_t at = 0; at < 6; at++) {
            double values[6] = {1, 2, 3, 4, 5, 6};
            values[at] = odd[i];
            plim_module_request request = small_module();
            request.values = values;
            request.rows = 3;
            request.width = 2;
            expect_module(request, false, "a value that is not finite");
        }
    double edge[] = {-0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308};
    plim_module_request request = small_module();
    request.values = edge;
    request.width = 4;
    expect_module(request, true, "extreme values");
}

static void module_times_have_limits(void **state)
{
    (void)state;
    static const struct {
        double end_time, step;
        bool good;
    } cases[] = {
        {1, 1, true},           {0, 1, false},     {-1, 1, false},      {NAN, 1, false},
        {INFINITY, 1, false},   {1, 0, false},     {1, -1, false},      {1, NAN, false},
        {1, INFINITY, false},   {-0.0, 1, false},  {1, -0.0, false},    {1, 5e-324, false},
        {1e308, 1e-308, false}, {5e-324, 1, true}, {999999.5, 1, true}, {1000001, 1, false},
        {1000000.5, 1, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        plim_module_request request = small_module();
        request.end_time = cases[i].end_time;
        request.step = cases[i].step;
        expect_module(request, cases[i].good, "an end and a step");
    }
}

/* 20 + rows x (4 + 8 x (floor(end / step) + 2)) <= 8,388,608: exactly at it and just past it. */
static void module_results_have_a_budget(void **state)
{
    (void)state;
    static double values[2];
    plim_module_request request = small_module();
    request.values = values;
    request.end_time = 1000000;
    expect_module(request, true, "a million steps in one row");
    request.rows = 2;
    expect_module(request, false, "a million steps in two rows");
    for (size_t rows = 1; rows <= 2; rows++) {
        double steps = floor(((PLIM_MODULE_RESULT_BYTES_MAX - 20) / (double)rows - 4) / 8) - 2;
        request.rows = rows;
        request.end_time = steps + 0.5; /* a part of a step is not counted */
        bool in_budget = steps + 0.5 <= PLIM_MODULE_STEPS_MAX;
        expect_module(request, in_budget, "the last table that fits");
        request.end_time = steps + 1;
        expect_module(request, false, "the first table that does not");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_has_limits),
        cmocka_unit_test(grant_profiles_have_a_length),
        cmocka_unit_test(timeouts_are_never_refused),
        cmocka_unit_test(floors_are_one_of_four),
        cmocka_unit_test(rules_and_odd_kinds),
        cmocka_unit_test(steps_have_limits),
        cmocka_unit_test(files_have_limits),
        cmocka_unit_test(file_paths_differ),
        cmocka_unit_test(artifacts_have_limits),
        cmocka_unit_test(paths_follow_the_table),
        cmocka_unit_test(names_follow_their_rule),
        cmocka_unit_test(models_are_named),
        cmocka_unit_test(module_tables_have_limits),
        cmocka_unit_test(module_values_are_finite),
        cmocka_unit_test(module_times_have_limits),
        cmocka_unit_test(module_results_have_a_budget),
    };
    return cmocka_run_group_tests(tests, fill_filler, NULL);
}
