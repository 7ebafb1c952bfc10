/* Buffers, arenas, checked arithmetic, cleanup and transfer: the bounds, and what is left when one
 * is passed. */
#include "unit.h"

#include "base/base.h"

/* A sanitizer ends the program at a size that malloc only refuses, unless it is told not to. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ---- buffers ---- */

static void buffer_holds_its_maximum(void **state)
{
    (void)state;
    static const size_t maxima[] = {0, 1, 62, 63, 64, 65, 127, 128, 129, 1000, 65536};
    for (size_t i = 0; i < PLIM_COUNT(maxima); i++) {
        _cleanup_buf_ base_buf buf = BASE_BUF_INIT(maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++)
            assert_true(base_buf_add_byte(&buf, (char)('a' + n % 26)));
        assert_int_equal(buf.len, maxima[i]);
        assert_false(buf.failed);
        assert_false(base_buf_add_byte(&buf, '!'));
        assert_true(buf.failed);
        assert_int_equal(buf.len, maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++)
            assert_int_equal(buf.data[n], 'a' + n % 26);
        assert_int_equal(base_buf_text(&buf)[buf.len], '\0');
    }
}

static void buffer_remembers_that_it_failed(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(5);
    assert_true(base_buf_add_text(&buf, "abc"));
    assert_false(base_buf_add_text(&buf, "def"));
    /* It would fit, but a run of appends must not lose its middle. */
    assert_false(base_buf_add_byte(&buf, 'g'));
    assert_false(base_buf_printf(&buf, "%d", 1));
    assert_null(base_buf_reserve(&buf, 1));
    assert_false(base_buf_add(&buf, PLIM_LIT("")));
    assert_bytes(base_buf_bytes(&buf), "abc");
    base_buf_clear(&buf);
    assert_false(buf.failed);
    assert_string_equal(base_buf_text(&buf), "");
    assert_true(base_buf_add_text(&buf, "12345"));
    assert_bytes(base_buf_bytes(&buf), "12345");
    base_buf_free(&buf);
    assert_int_equal(buf.max, 5);
    assert_true(base_buf_add_text(&buf, "again"));
    assert_bytes(base_buf_bytes(&buf), "again");
}

static void buffer_of_nothing_is_empty_text(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(0);
    assert_string_equal(base_buf_text(&buf), "");
    assert_true(base_buf_add(&buf, (plim_bytes){NULL, 0}));
    assert_string_equal(base_buf_text(&buf), "");
    assert_int_equal(base_buf_bytes(&buf).len, 0);
}

static void buffer_keeps_any_byte(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(256);
    for (int byte = 0; byte < 256; byte++)
        assert_true(base_buf_add_byte(&buf, (char)byte));
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal((unsigned char)buf.data[byte], byte);
}

static void buffer_prints_to_the_last_byte(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(8);
    assert_true(base_buf_printf(&buf, "%s-%d", "abc", 1234));
    assert_bytes(base_buf_bytes(&buf), "abc-1234");
    assert_false(base_buf_printf(&buf, "%c", 'x'));
    assert_bytes(base_buf_bytes(&buf), "abc-1234");
}

static void buffer_reserves_room(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(100);
    assert_true(base_buf_add_text(&buf, "head"));
    char *room = base_buf_reserve(&buf, 96);
    assert_non_null(room);
    memset(room, 'r', 96);
    assert_int_equal(buf.len, 4);
    buf.len += 96;
    assert_int_equal(buf.data[100], '\0');
    assert_null(base_buf_reserve(&buf, 1));
}

/* Sizes near the end of size_t: no wrap-around, no endless doubling. */
static void buffer_survives_huge_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, SIZE_MAX / 2};
    for (size_t i = 0; i < PLIM_COUNT(sizes); i++) {
        _cleanup_buf_ base_buf buf = BASE_BUF_INIT(SIZE_MAX);
        assert_true(base_buf_add_text(&buf, "ab"));
        assert_null(base_buf_reserve(&buf, sizes[i]));
        assert_true(buf.failed);
        assert_bytes(base_buf_bytes(&buf), "ab");
    }
}

static void bytes_compare_in_order(void **state)
{
    (void)state;
    static const plim_bytes sorted[] = {
        {NULL, 0},        PLIM_LIT("\0"),   PLIM_LIT("\0\0"),     PLIM_LIT("a"),
        PLIM_LIT("a\0"),  PLIM_LIT("aa"),   PLIM_LIT("b"),        PLIM_LIT("\x7F"),
        PLIM_LIT("\x80"), PLIM_LIT("\xFF"), PLIM_LIT("\xFF\x01"),
    };
    for (size_t i = 0; i < PLIM_COUNT(sorted); i++)
        for (size_t j = 0; j < PLIM_COUNT(sorted); j++) {
            int order = base_bytes_compare(sorted[i], sorted[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(base_bytes_equal(sorted[i], sorted[j]), i == j);
        }
    assert_true(base_bytes_is(PLIM_LIT("wasm"), "wasm"));
    assert_false(base_bytes_is(PLIM_LIT("wasm\0"), "wasm"));
    assert_true(base_bytes_is((plim_bytes){NULL, 0}, ""));
}

/* ---- arenas ---- */

static void arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(1 << 20);
    assert_non_null(arena);
    unsigned char *blocks[200];
    for (size_t i = 0; i < PLIM_COUNT(blocks); i++) {
        blocks[i] = base_arena_alloc(arena, i + 1, 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        for (size_t n = 0; n <= i; n++)
            assert_int_equal(blocks[i][n], 0);
        memset(blocks[i], (int)(i & 0xFF), i + 1);
    }
    for (size_t i = 0; i < PLIM_COUNT(blocks); i++)
        for (size_t n = 0; n <= i; n++)
            assert_int_equal(blocks[i][n], i & 0xFF);
}

static void arena_holds_no_more_than_its_maximum(void **state)
{
    (void)state;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(64);
    assert_null(base_arena_alloc(arena, 65, 1));
    assert_non_null(base_arena_alloc(arena, 48, 1));
    assert_null(base_arena_alloc(arena, 17, 1));
    assert_non_null(base_arena_alloc(arena, 16, 1));
    assert_null(base_arena_alloc(arena, 1, 1));
    assert_null(base_arena_alloc(arena, 0, 1));
    assert_null(base_arena_text(arena, PLIM_LIT("")));
    assert_null(base_arena_printf(arena, "%d", 1));
    plim_bytes out = PLIM_LIT("untouched");
    assert_false(base_arena_dup(arena, PLIM_LIT("x"), &out));
    assert_bytes(out, "untouched");
}

/* Objects larger than a chunk, before, between and after small ones. */
static void arena_holds_big_objects(void **state)
{
    (void)state;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(8 << 20);
    char *first = base_arena_alloc(arena, 1 << 20, 1);
    char *small = base_arena_text(arena, PLIM_LIT("small"));
    char *second = base_arena_alloc(arena, 1 << 20, 1);
    char *more = base_arena_text(arena, PLIM_LIT("more"));
    char *whole_chunk = base_arena_alloc(arena, 4096, 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(whole_chunk);
    memset(first, '1', 1 << 20);
    memset(second, '2', 1 << 20);
    memset(whole_chunk, '3', 4096);
    assert_string_equal(small, "small");
    assert_string_equal(more, "more");
    assert_int_equal(first[(1 << 20) - 1], '1');
    assert_int_equal(second[0], '2');
}

static void arena_refuses_sizes_that_overflow(void **state)
{
    (void)state;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(SIZE_MAX);
    assert_null(base_arena_alloc(arena, SIZE_MAX, 2));
    assert_null(base_arena_alloc(arena, SIZE_MAX / 2 + 1, 2));
    for (size_t below = 0; below < 128; below++)
        assert_null(base_arena_alloc(arena, SIZE_MAX - below, 1));
    assert_null(base_arena_text(arena, (plim_bytes){"", SIZE_MAX}));
}

static void arena_copies_text(void **state)
{
    (void)state;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(4096);
    plim_bytes copy = {NULL, 7};
    assert_true(base_arena_dup(arena, (plim_bytes){NULL, 0}, &copy));
    assert_int_equal(copy.len, 0);
    assert_string_equal(copy.data, "");
    assert_true(base_arena_dup(arena, PLIM_LIT("a\0b"), &copy));
    assert_bytes(copy, "a\0b");
    assert_int_equal(copy.data[3], '\0');
    assert_string_equal(base_arena_printf(arena, "%s=%03d", "n", 7), "n=007");
    assert_string_equal(base_arena_printf(arena, "%s", ""), "");
}

/* ---- single blocks ---- */

static void blocks_are_zeroed_and_never_overflow(void **state)
{
    (void)state;
    _cleanup_free_ unsigned char *block = base_alloc(100, 3);
    assert_non_null(block);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(block[i], 0);
    _cleanup_free_ void *nothing = base_alloc(0, 8), *no_size = base_alloc(8, 0);
    assert_non_null(nothing);
    assert_non_null(no_size);
    /* Through a variable, so that no compiler knows the size beforehand. */
    volatile size_t half = SIZE_MAX / 2 + 1;
    assert_null(base_alloc(half, 2));
    block[0] = 42;
    assert_null(base_realloc(block, half, 2));
    assert_int_equal(block[0], 42);
    void *bigger = base_realloc(block, 1000, 3);
    assert_non_null(bigger);
    block = bigger;
    assert_int_equal(block[0], 42);
    base_free(NULL);
    base_free_secret(NULL, 10);
    base_wipe(NULL, 10);
}

static void secrets_are_wiped(void **state)
{
    (void)state;
    char secret[] = "hunter2hunter2";
    base_wipe(secret, sizeof(secret));
    for (size_t i = 0; i < sizeof(secret); i++)
        assert_int_equal(secret[i], 0);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    size_t out = 7;
    assert_false(base_size_add(SIZE_MAX, 1, &out));
    assert_false(base_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_int_equal(out, 7);
    assert_true(base_size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(base_size_mul(SIZE_MAX, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(base_size_mul(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
}

static void take_disarms(void **state)
{
    (void)state;
    _cleanup_free_ char *text = base_strdup("mine");
    char *taken = TAKE_PTR(text);
    assert_null(text);
    assert_string_equal(taken, "mine");
    base_free(taken);
    int fd = 5, taken_fd = TAKE_FD(fd);
    assert_int_equal(fd, -1);
    assert_int_equal(taken_fd, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_holds_its_maximum),
        cmocka_unit_test(buffer_remembers_that_it_failed),
        cmocka_unit_test(buffer_of_nothing_is_empty_text),
        cmocka_unit_test(buffer_keeps_any_byte),
        cmocka_unit_test(buffer_prints_to_the_last_byte),
        cmocka_unit_test(buffer_reserves_room),
        cmocka_unit_test(buffer_survives_huge_sizes),
        cmocka_unit_test(bytes_compare_in_order),
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(arena_holds_no_more_than_its_maximum),
        cmocka_unit_test(arena_holds_big_objects),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test(arena_copies_text),
        cmocka_unit_test(blocks_are_zeroed_and_never_overflow),
        cmocka_unit_test(secrets_are_wiped),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(take_disarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
