/* What a worker says, cut at every byte; and all that it may not say, at every point of its life.
 */
#include "unit.h"

#include "providers/wasm/frames.h"
#include "providers/wasm/protocol.h"

/* ---- building frames and telling what came of them ---- */

static void add_frame(base_buf *wire, char tag, uint32_t length, plim_bytes payload)
{
    const char head[] = {tag, (char)length, (char)(length >> 8), (char)(length >> 16),
                         (char)(length >> 24)};
    assert_true(base_buf_add(wire, (plim_bytes){head, sizeof(head)}));
    assert_true(base_buf_add(wire, payload));
}

static void add_whole(base_buf *wire, char tag, plim_bytes payload)
{
    add_frame(wire, tag, (uint32_t)payload.len, payload);
}

/* Feed a piece; the events as text, pieces of output joined. Does what the run's side does: it
 * sends a run when the worker is idle and a reply when it calls. */
static void feed(wasm_frames *frames, plim_bytes input, base_buf *told, char *last)
{
    while (input.len) {
        plim_bytes payload;
        wasm_frame_kind kind = wasm_frames_next(frames, &input, &payload);
        if (kind == WASM_FRAME_MORE)
            continue;
        static const char letters[] = {
            [WASM_FRAME_IDLE] = 'I',   [WASM_FRAME_START] = 'S', [WASM_FRAME_STDOUT] = 'O',
            [WASM_FRAME_STDERR] = 'E', [WASM_FRAME_CALL] = 'H',  [WASM_FRAME_TRAP] = 'T',
            [WASM_FRAME_DONE] = 'D',   [WASM_FRAME_BAD] = '!'};
        bool joins = *last == letters[kind] && (*last == 'O' || *last == 'E');
        if (!joins)
            base_buf_add_byte(told, letters[kind]);
        *last = letters[kind];
        if (kind == WASM_FRAME_DONE)
            base_buf_printf(told, "%d", (unsigned char)payload.data[0]);
        else
            base_buf_add(told, payload);
        if (kind == WASM_FRAME_BAD)
            return;
        if (kind == WASM_FRAME_IDLE)
            frames->phase = WASM_PHASE_ASKED;
        if (kind == WASM_FRAME_CALL)
            frames->phase = WASM_PHASE_RUNNING;
    }
    assert_false(told->failed);
}

/* Two runs: output, a call, an exit code; then a trap. */
static void build_two_runs(base_buf *wire)
{
    add_whole(wire, 'I', (plim_bytes){NULL, 0});
    add_whole(wire, 'S', (plim_bytes){NULL, 0});
    add_whole(wire, 'O', PLIM_LIT("out"));
    add_whole(wire, 'E', PLIM_LIT("e\0r"));
    add_whole(wire, 'H', PLIM_LIT("{\"method\":1}"));
    add_whole(wire, 'O', PLIM_LIT("more"));
    add_whole(wire, 'D', PLIM_LIT("\x07"));
    add_whole(wire, 'I', (plim_bytes){NULL, 0});
    add_whole(wire, 'S', (plim_bytes){NULL, 0});
    add_whole(wire, 'T', PLIM_LIT("unreachable"));
}

#define TWO_RUNS "ISOoutEe\0rH{\"method\":1}OmoreD7ISTunreachable"

static void frames_are_told_whole(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf wire = BASE_BUF_INIT(4096), told = BASE_BUF_INIT(4096);
    build_two_runs(&wire);
    wasm_frames frames;
    char last = 0;
    wasm_frames_init(&frames);
    feed(&frames, base_buf_bytes(&wire), &told, &last);
    assert_bytes(base_buf_bytes(&told), TWO_RUNS);
    assert_int_equal(frames.phase, WASM_PHASE_ENDED);
    wasm_frames_free(&frames);
}

/* The same in two pieces, cut at every place, and a byte at a time. */
static void any_cut_tells_the_same(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf wire = BASE_BUF_INIT(4096), told = BASE_BUF_INIT(4096);
    build_two_runs(&wire);
    for (size_t cut = 0; cut <= wire.len; cut++) {
        wasm_frames frames;
        char last = 0;
        base_buf_clear(&told);
        wasm_frames_init(&frames);
        feed(&frames, (plim_bytes){wire.data, cut}, &told, &last);
        feed(&frames, (plim_bytes){wire.data + cut, wire.len - cut}, &told, &last);
        assert_bytes(base_buf_bytes(&told), TWO_RUNS);
        wasm_frames_free(&frames);
    }
    for (size_t step = 1; step < 8; step++) {
        wasm_frames frames;
        char last = 0;
        base_buf_clear(&told);
        wasm_frames_init(&frames);
        for (size_t at = 0; at < wire.len; at += step) {
            size_t left = wire.len - at;
            feed(&frames, (plim_bytes){wire.data + at, left < step ? left : step}, &told, &last);
        }
        assert_bytes(base_buf_bytes(&told), TWO_RUNS);
        wasm_frames_free(&frames);
    }
}

/* A piece of output is handed on as it comes: a flood is never gathered. */
static void output_is_not_gathered(void **state)
{
    (void)state;
    static char bytes[PLIM_WORKER_OUTPUT_MAX];
    wasm_frames frames;
    wasm_frames_init(&frames);
    frames.phase = WASM_PHASE_RUNNING;
    _cleanup_buf_ base_buf head = BASE_BUF_INIT(16);
    add_frame(&head, 'O', PLIM_WORKER_OUTPUT_MAX, (plim_bytes){NULL, 0});
    plim_bytes input = base_buf_bytes(&head), payload;
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_MORE);
    input = (plim_bytes){bytes, 1000};
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_STDOUT);
    assert_int_equal(payload.len, 1000);
    assert_ptr_equal(payload.data, bytes);
    assert_null(frames.payload.data);
    input = (plim_bytes){bytes, PLIM_WORKER_OUTPUT_MAX};
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_STDOUT);
    assert_int_equal(payload.len, PLIM_WORKER_OUTPUT_MAX - 1000);
    assert_int_equal(input.len, 1000); /* the rest is the next frame's */
    wasm_frames_free(&frames);
}

/* ---- lengths ---- */

static void lengths_hold_their_bounds(void **state)
{
    (void)state;
    static const struct {
        char tag;
        wasm_phase when;
        uint32_t least, most;
    } rules[] = {
        {'I', WASM_PHASE_STARTING, 0, 0},      {'S', WASM_PHASE_ASKED, 0, 0},
        {'O', WASM_PHASE_RUNNING, 1, 65536},   {'E', WASM_PHASE_RUNNING, 1, 65536},
        {'H', WASM_PHASE_RUNNING, 1, 1114112}, {'T', WASM_PHASE_RUNNING, 0, 256},
        {'D', WASM_PHASE_RUNNING, 1, 1},
    };
    for (size_t i = 0; i < PLIM_COUNT(rules); i++) {
        const struct {
            uint64_t length;
            bool good;
        } cases[] = {
            {(uint64_t)rules[i].least, true},
            {(uint64_t)rules[i].most, true},
            {(uint64_t)rules[i].most + 1, false},
            {(uint64_t)rules[i].least - 1, rules[i].least == 0},
            {UINT32_MAX, false},
            {INT32_MAX, false},
            {(uint64_t)INT32_MAX + 1, false},
        };
        for (size_t n = 0; n < PLIM_COUNT(cases); n++) {
            if (cases[n].length > UINT32_MAX)
                continue; /* one less than nothing */
            wasm_frames frames;
            wasm_frames_init(&frames);
            frames.phase = rules[i].when;
            _cleanup_buf_ base_buf head = BASE_BUF_INIT(16);
            add_frame(&head, rules[i].tag, (uint32_t)cases[n].length, (plim_bytes){NULL, 0});
            plim_bytes input = base_buf_bytes(&head), payload;
            bool bad = wasm_frames_next(&frames, &input, &payload) == WASM_FRAME_BAD;
            if (bad == cases[n].good)
                fail_msg("%c of %llu bytes", rules[i].tag, (unsigned long long)cases[n].length);
            wasm_frames_free(&frames);
        }
    }
}

static void the_longest_call_arrives_whole(void **state)
{
    (void)state;
    static char envelope[PLIM_WORKER_ENVELOPE_MAX];
    memset(envelope, 'e', sizeof(envelope));
    wasm_frames frames;
    wasm_frames_init(&frames);
    frames.phase = WASM_PHASE_RUNNING;
    _cleanup_buf_ base_buf head = BASE_BUF_INIT(16);
    add_frame(&head, 'H', PLIM_WORKER_ENVELOPE_MAX, (plim_bytes){NULL, 0});
    plim_bytes input = base_buf_bytes(&head), payload;
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_MORE);
    for (size_t at = 0; at < sizeof(envelope); at += 65536) {
        size_t left = sizeof(envelope) - at;
        input = (plim_bytes){envelope + at, left < 65536 ? left : 65536};
        wasm_frame_kind expected = left <= 65536 ? WASM_FRAME_CALL : WASM_FRAME_MORE;
        assert_int_equal(wasm_frames_next(&frames, &input, &payload), expected);
    }
    assert_int_equal(payload.len, sizeof(envelope));
    assert_memory_equal(payload.data, envelope, sizeof(envelope));
    wasm_frames_free(&frames);
}

/* ---- order ---- */

/* Every tag in every phase: only what the grammar allows, and after anything else nothing more. */
static void only_the_order_of_a_run_is_believed(void **state)
{
    (void)state;
    static const char *const allowed[] = {
        [WASM_PHASE_STARTING] = "I",    [WASM_PHASE_IDLE] = "",    [WASM_PHASE_ASKED] = "S",
        [WASM_PHASE_RUNNING] = "OEHTD", [WASM_PHASE_CALLING] = "", [WASM_PHASE_ENDED] = "",
    };
    for (int phase = WASM_PHASE_STARTING; phase <= WASM_PHASE_ENDED; phase++)
        for (int tag = 0; tag < 256; tag++) {
            wasm_frames frames;
            wasm_frames_init(&frames);
            frames.phase = (wasm_phase)phase;
            _cleanup_buf_ base_buf wire = BASE_BUF_INIT(64), told = BASE_BUF_INIT(64);
            plim_bytes payload = tag == 'I' || tag == 'S' ? (plim_bytes){NULL, 0} : PLIM_LIT("x");
            add_whole(&wire, (char)tag, payload);
            char last = 0;
            feed(&frames, base_buf_bytes(&wire), &told, &last);
            bool good = tag && strchr(allowed[phase], tag) != NULL;
            if (good != (last == tag && last != '!'))
                fail_msg("tag %d in phase %d gave '%c'", tag, phase, last);
            if (!good) {
                assert_int_equal(frames.phase, WASM_PHASE_ENDED);
                base_buf_clear(&wire);
                add_whole(&wire, 'I', (plim_bytes){NULL, 0});
                plim_bytes input = base_buf_bytes(&wire);
                assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_BAD);
            }
            wasm_frames_free(&frames);
        }
}

static void runs_end_once(void **state)
{
    (void)state;
    static const struct {
        const char *tags, *told;
    } cases[] = {
        {"ISD", "ISD120"},
        {"ISDD", "ISD120!"},
        {"ISTD", "ISTx!"},
        {"ISTT", "ISTx!"},
        {"ISDO", "ISD120!"},
        {"ISS", "IS!"},
        {"II", "I!"},
        {"IO", "I!"},
        {"D", "!"},
        {"ISDISD", "ISD120ISD120"},
        {"ISI", "IS!"},
        {"ISHD", "ISHxD120"},
        {"ISR", "IS!"},
        {"ISh", "IS!"},
        {"ISOEOED", "ISOxExOxExD120"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        _cleanup_buf_ base_buf wire = BASE_BUF_INIT(256), told = BASE_BUF_INIT(256);
        for (const char *tag = cases[i].tags; *tag; tag++)
            add_whole(&wire, *tag,
                      *tag == 'I' || *tag == 'S' ? (plim_bytes){NULL, 0} : PLIM_LIT("x"));
        wasm_frames frames;
        char last = 0;
        wasm_frames_init(&frames);
        feed(&frames, base_buf_bytes(&wire), &told, &last);
        assert_string_equal(base_buf_text(&told), cases[i].told);
        wasm_frames_free(&frames);
    }
}

static void a_second_call_needs_an_answer_to_the_first(void **state)
{
    (void)state;
    wasm_frames frames;
    wasm_frames_init(&frames);
    frames.phase = WASM_PHASE_RUNNING;
    _cleanup_buf_ base_buf wire = BASE_BUF_INIT(64);
    add_whole(&wire, 'H', PLIM_LIT("1"));
    add_whole(&wire, 'H', PLIM_LIT("2"));
    plim_bytes input = base_buf_bytes(&wire), payload;
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_CALL);
    assert_bytes(payload, "1");
    assert_int_equal(frames.phase, WASM_PHASE_CALLING);
    assert_int_equal(wasm_frames_next(&frames, &input, &payload), WASM_FRAME_BAD);
    wasm_frames_free(&frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_told_whole),
        cmocka_unit_test(any_cut_tells_the_same),
        cmocka_unit_test(output_is_not_gathered),
        cmocka_unit_test(lengths_hold_their_bounds),
        cmocka_unit_test(the_longest_call_arrives_whole),
        cmocka_unit_test(only_the_order_of_a_run_is_believed),
        cmocka_unit_test(runs_end_once),
        cmocka_unit_test(a_second_call_needs_an_answer_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
