/* The registry's parser: what it takes, what it refuses, and that writing gives back what was read.
 */
#include "registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HEX_A "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define HEX_B "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"

#define CLIENT(members) "{\"clients\":[{" members "}]}"
#define WITH(more)      CLIENT("\"id\":\"a\",\"token_sha256\":\"" HEX_A "\"" more)
#define WITH_ID(id)     CLIENT("\"id\":\"" id "\",\"token_sha256\":\"" HEX_A "\"")
#define WITH_TOKEN(hex) CLIENT("\"id\":\"a\",\"token_sha256\":\"" hex "\"")
#define TWO(id_b, hex_b)                                                                           \
    "{\"clients\":[{\"id\":\"a\",\"token_sha256\":\"" HEX_A "\"},{\"id\":\"" id_b                  \
    "\",\"token_sha256\":\"" hex_b "\"}]}"

static registry *parse(const char *text)
{
    registry *reg = NULL;
    plim_error err = PLIM_ERROR_INIT;
    if (!registry_parse(plim_bytes_of(text), &reg, &err))
        fail_msg("%s: %s", text, plim_error_message(&err));
    return reg;
}

static void accepts_the_documented_file(void **state)
{
    (void)state;
    registry *reg = parse(
        "{ \"clients\": [\n"
        "{ \"id\": \"build-bot\", \"token_sha256\": \"" HEX_A "\", \"scopes\": [\"code:run\"] },\n"
        "{ \"id\": \"tutor\", \"token_sha256\": \"" HEX_B
        "\", \"scopes\": [\"code:run\", \"*\"], \"paid_seconds_per_day\": 3600 } ] }");
    assert_int_equal(reg->count, 2);
    assert_true(base_bytes_is(reg->callers[0].id, "build-bot"));
    assert_string_equal(reg->callers[0].fingerprint, HEX_A);
    assert_int_equal(reg->callers[0].paid_seconds_per_day, 0);
    assert_int_equal(reg->callers[1].scope_count, 2);
    assert_true(base_bytes_is(reg->callers[1].scopes[1], "*"));
    assert_int_equal(reg->callers[1].paid_seconds_per_day, 3600);
    assert_ptr_equal(registry_find(reg, PLIM_LIT("tutor")), &reg->callers[1]);
    assert_null(registry_find(reg, PLIM_LIT("Tutor")));
    registry_free(reg);
}

static void normalises_ids_and_fingerprints(void **state)
{
    (void)state;
    registry *reg =
        parse("{\"clients\":[{\"id\":\" \\u00a0caf\\u00e9 bot\\t\",\"token_sha256\":\" "
              "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\\n\"}]}");
    assert_true(base_bytes_is(reg->callers[0].id, "caf\xC3\xA9 bot"));
    assert_string_equal(reg->callers[0].fingerprint, HEX_A);
    assert_int_equal(reg->callers[0].scope_count, 0);
    registry_free(reg);
}

static void accepts_an_empty_list(void **state)
{
    (void)state;
    registry *reg = parse("{\"clients\":[]}\n");
    assert_int_equal(reg->count, 0);
    registry_free(reg);
}

static const char *const refused[] = {
    "",
    "null",
    "[]",
    "{}",
    "{\"clients\":null}",
    "{\"clients\":{}}",
    "{\"clients\":[null]}",
    "{\"clients\":[[]]}",
    "{\"clients\":[]",
    "{\"clients\":[]}x",
    "{\"clients\":[]}{}",
    "{\"clients\":[],}",
    "{\"clients\":[],\"more\":1}",
    "{\"clients\":[],\"clients\":[]}",
    "{\"Clients\":[]}",
    "\xEF\xBB\xBF{\"clients\":[]}",
    "{\"clients\":[] /* none */}",
    WITH(",\"more\":1"),
    WITH(",\"id\":\"a\""),
    WITH(",\"scopes\":[],\"scopes\":[]"),
    CLIENT("\"id\":\"a\""),
    CLIENT("\"token_sha256\":\"" HEX_A "\""),
    CLIENT("\"id\":7,\"token_sha256\":\"" HEX_A "\""),
    CLIENT("\"id\":null,\"token_sha256\":\"" HEX_A "\""),
    CLIENT("\"id\":\"a\",\"token_sha256\":7"),
    WITH_ID(""),
    WITH_ID("  "),
    WITH_ID("*"),
    WITH_ID(" * "),
    WITH_ID("a\\nb"),
    WITH_ID("a\\u0000b"),
    WITH_ID("a\\u0085b"),
    WITH_ID("a\\u007f"),
    WITH_ID("a\xFF"),
    WITH_ID("a\\ud800"),
    WITH_TOKEN(""),
    WITH_TOKEN("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a0"),
    WITH_TOKEN("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a088"),
    WITH_TOKEN("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a0g"),
    WITH_TOKEN("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a 8"),
    TWO("a", HEX_B),
    TWO(" a ", HEX_B),
    TWO("b", HEX_A),
    TWO("b", "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"),
    WITH(",\"scopes\":null"),
    WITH(",\"scopes\":\"code:run\""),
    WITH(",\"scopes\":[7]"),
    WITH(",\"scopes\":[\"\"]"),
    WITH(",\"scopes\":[\"code run\"]"),
    WITH(",\"scopes\":[\" code:run\"]"),
    WITH(",\"scopes\":[\"code\\u00a0run\"]"),
    WITH(",\"scopes\":[\"code\\trun\"]"),
    WITH(",\"scopes\":[\"a\",\"a\"]"),
    WITH(",\"paid_seconds_per_day\":null"),
    WITH(",\"paid_seconds_per_day\":-1"),
    WITH(",\"paid_seconds_per_day\":1.5"),
    WITH(",\"paid_seconds_per_day\":\"60\""),
    WITH(",\"paid_seconds_per_day\":99999999999999999999"),
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(refused); i++) {
        registry *reg = NULL;
        plim_error err = PLIM_ERROR_INIT;
        if (registry_parse(plim_bytes_of(refused[i]), &reg, &err))
            fail_msg("accepted: %s", refused[i]);
        assert_null(reg);
        assert_int_equal(plim_error_status(&err), PLIM_E_INVALID_OPTION);
        assert_null(strstr(plim_error_message(&err), "9f86"));
        plim_error_clear(&err);
    }
}

static void refuses_nul_bytes_and_deep_nesting(void **state)
{
    (void)state;
    static char deep[200000];
    registry *reg = NULL;
    memset(deep, '[', sizeof(deep));
    assert_false(registry_parse((plim_bytes){deep, sizeof(deep)}, &reg, NULL));
    assert_false(registry_parse(PLIM_LIT("{\"clients\":[]}\0"), &reg, NULL));
    assert_false(registry_parse(PLIM_LIT("\0{\"clients\":[]}"), &reg, NULL));
}

static void errors_name_the_place(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    registry *reg;
    assert_false(registry_parse(PLIM_LIT(TWO("*", HEX_B)), &reg, &err));
    assert_non_null(strstr(plim_error_message(&err), "clients[1]"));
    assert_false(registry_parse(PLIM_LIT(TWO("a", HEX_B)), &reg, &err));
    assert_non_null(strstr(plim_error_message(&err), "\"a\""));
    assert_false(registry_parse(PLIM_LIT("{\n  \"clients\": [}\n"), &reg, &err));
    assert_non_null(strstr(plim_error_message(&err), "line 2"));
}

static void writes_what_it_read(void **state)
{
    (void)state;
    static const char text[] = "{\n"
                               "  \"clients\": [\n"
                               "    {\n"
                               "      \"id\": \"caf\xC3\xA9 \\\"1\\\"\",\n"
                               "      \"token_sha256\": \"" HEX_A "\",\n"
                               "      \"scopes\": [\n"
                               "        \"code:run\"\n"
                               "      ]\n"
                               "    },\n"
                               "    {\n"
                               "      \"id\": \"b\",\n"
                               "      \"token_sha256\": \"" HEX_B "\",\n"
                               "      \"scopes\": [],\n"
                               "      \"paid_seconds_per_day\": 60\n"
                               "    }\n"
                               "  ]\n"
                               "}\n";
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    registry *reg = parse(text);
    assert_true(registry_serialize(reg, &out));
    assert_string_equal(base_buf_text(&out), text);
    registry_free(reg);
}

static void a_list_holds_no_fingerprint(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    registry *reg = parse(WITH(",\"paid_seconds_per_day\":5"));
    const registry_caller *one = &reg->callers[0];
    assert_true(registry_serialize_list(&one, 1, &out));
    assert_string_equal(base_buf_text(&out), "[\n  {\n    \"id\": \"a\",\n    \"scopes\": [],\n"
                                             "    \"paid_seconds_per_day\": 5\n  }\n]\n");
    registry_free(reg);
}

static void a_registry_too_large_is_not_written(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(64);
    registry *reg = parse(WITH(""));
    assert_false(registry_serialize(reg, &out));
    registry_free(reg);
}

static void adds_and_removes(void **state)
{
    (void)state;
    registry *reg = parse(TWO("b", HEX_B));
    registry_caller added = {.id = PLIM_LIT("c"), .fingerprint = HEX_A};
    assert_true(registry_add(reg, &added, NULL));
    registry_remove(reg, registry_find(reg, PLIM_LIT("a")));
    assert_int_equal(reg->count, 2);
    assert_true(base_bytes_is(reg->callers[0].id, "b"));
    assert_true(base_bytes_is(reg->callers[1].id, "c"));
    registry_free(reg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_documented_file),
        cmocka_unit_test(normalises_ids_and_fingerprints),
        cmocka_unit_test(accepts_an_empty_list),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_nul_bytes_and_deep_nesting),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(writes_what_it_read),
        cmocka_unit_test(a_list_holds_no_fingerprint),
        cmocka_unit_test(a_registry_too_large_is_not_written),
        cmocka_unit_test(adds_and_removes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
