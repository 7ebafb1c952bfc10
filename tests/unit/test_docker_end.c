/* The end of a stream: frames as the control program writes them, found at the tail whatever the
 * cut and the cap; look-alikes stay output. And which limits the evidence of an end names. */
#include "unit.h"

#include "guest/ctl/end.h"
#include "providers/docker/capture.h"
#include "providers/docker/run.h"

enum { CAP = 300 };

static const struct ctl_end plain = {.status = 7, .memory = 0, .pids = CTL_END_UNKNOWN, .disk = 1};

static void new_capture(docker_capture *capture)
{
    assert_true(docker_capture_init(capture, CAP, CAP));
    assert_true(docker_capture_arm(capture));
    docker_capture_err(capture, (plim_bytes){capture->marker, CTL_MARKER_BYTES});
    assert_true(capture->started);
}

/* Each of `bytes` in pieces of `step`. */
static void hear(docker_capture *capture, bool is_err, plim_bytes bytes, size_t step)
{
    while (bytes.len) {
        plim_bytes piece = {bytes.data, bytes.len < step ? bytes.len : step};
        if (is_err)
            docker_capture_err(capture, piece);
        else
            docker_capture_out(capture, piece);
        bytes = (plim_bytes){bytes.data + piece.len, bytes.len - piece.len};
    }
}

static void frame_of(const docker_capture *capture, const struct ctl_end *end, bool is_err,
                     char frame[CTL_END_BYTES])
{
    ctl_end_frame(end, is_err ? CTL_END_STDERR : CTL_END_STDOUT, capture->key, frame);
}

static void hear_end(docker_capture *capture, const struct ctl_end *end, bool is_err, size_t step)
{
    char frame[CTL_END_BYTES];
    frame_of(capture, end, is_err, frame);
    hear(capture, is_err, (plim_bytes){frame, sizeof frame}, step);
}

/* Key bytes 00 01 … 1f; computed with another implementation of HMAC. */
static void a_frame_is_what_it_is_said_to_be(void **state)
{
    (void)state;
    unsigned char key[CTL_KEY_BYTES];
    char frame[CTL_END_BYTES];
    static const char wanted[] =
        "\n<<<PLIMSOLL_END_V1>>> 00000007 00000000 ffffffff 00000001 "
        "ebd6a97dbae288177aa8dcad0b303b3189c7232d3076e24315dbc915974701e4\n";
    for (unsigned i = 0; i < CTL_KEY_BYTES; i++)
        key[i] = (unsigned char)i;
    ctl_end_frame(&plain, CTL_END_STDOUT, key, frame);
    assert_int_equal(sizeof wanted - 1, CTL_END_BYTES);
    assert_memory_equal(frame, wanted, CTL_END_BYTES);
    struct ctl_end read;
    const char *mac;
    assert_true(ctl_end_read((const unsigned char *)frame, &read, &mac));
    assert_ptr_equal(mac, frame + 1 + CTL_END_SIGNED_BYTES);
    assert_memory_equal(&read, &plain, sizeof read);
}

static void output_of_any_length_is_exact(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 7, CTL_END_BYTES - 1, CTL_END_BYTES, CTL_END_BYTES + 1, 4096};
    char text[CAP + 2 * CTL_END_BYTES];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t size = 0; size <= sizeof text; size++)
        for (size_t i = 0; i < PLIM_COUNT(steps); i++) {
            docker_capture capture;
            struct ctl_end told;
            new_capture(&capture);
            hear(&capture, false, (plim_bytes){text, size}, steps[i]);
            hear(&capture, true, (plim_bytes){text, size}, steps[i]);
            hear_end(&capture, &plain, false, steps[i]);
            assert_false(docker_capture_ended(&capture, &told));
            hear_end(&capture, &plain, true, steps[i]);
            assert_true(docker_capture_ended(&capture, &told));
            assert_memory_equal(&told, &plain, sizeof told);
            const docker_stream *streams[] = {&capture.out, &capture.err};
            for (size_t k = 0; k < 2; k++) {
                plim_bytes output = docker_stream_output(streams[k]);
                assert_int_equal(output.len, size < CAP ? size : CAP);
                assert_true(output.len == 0 || memcmp(output.data, text, output.len) == 0);
                assert_int_equal(docker_stream_truncated(streams[k]), size > CAP);
            }
            docker_capture_free(&capture);
        }
}

static void what_does_not_verify_is_output(void **state)
{
    (void)state;
    for (size_t at = 0; at < CTL_END_BYTES; at++) {
        docker_capture capture;
        struct ctl_end told;
        char frame[CTL_END_BYTES];
        new_capture(&capture);
        frame_of(&capture, &plain, false, frame);
        frame[at] = (char)(frame[at] ^ 1);
        hear(&capture, false, (plim_bytes){frame, sizeof frame}, 5);
        hear_end(&capture, &plain, true, 5);
        assert_false(docker_capture_ended(&capture, &told));
        assert_int_equal(docker_stream_output(&capture.out).len, sizeof frame);
        assert_memory_equal(docker_stream_output(&capture.out).data, frame, sizeof frame);
        assert_int_equal(docker_stream_output(&capture.err).len, 0);
        docker_capture_free(&capture);
    }
}

static void a_frame_belongs_to_its_stream_its_run_and_its_end(void **state)
{
    (void)state;
    docker_capture capture, other;
    struct ctl_end told;
    char frame[CTL_END_BYTES];
    new_capture(&capture);
    new_capture(&other);
    frame_of(&capture, &plain, true, frame); /* of stderr, on stdout */
    hear(&capture, false, (plim_bytes){frame, sizeof frame}, 64);
    hear_end(&capture, &plain, true, 64);
    assert_false(docker_capture_ended(&capture, &told));
    frame_of(&other, &plain, false, frame); /* of another run */
    hear(&capture, false, (plim_bytes){frame, sizeof frame}, 64);
    assert_false(docker_capture_ended(&capture, &told));
    struct ctl_end better = plain;
    better.status = 0; /* the streams must tell the same */
    hear_end(&capture, &better, false, 64);
    assert_true(capture.out.ended);
    assert_false(docker_capture_ended(&capture, &told));
    hear_end(&capture, &plain, false, 64);
    assert_true(docker_capture_ended(&capture, &told));
    docker_capture_free(&capture);
    docker_capture_free(&other);
}

/* Somebody else than the guest wrote behind a frame: then it is no end, and nothing is hidden. */
static void nothing_follows_an_end(void **state)
{
    (void)state;
    docker_capture capture;
    struct ctl_end told;
    new_capture(&capture);
    hear(&capture, false, PLIM_LIT("before"), 64);
    hear_end(&capture, &plain, false, 64);
    hear_end(&capture, &plain, true, 64);
    assert_true(docker_capture_ended(&capture, &told));
    docker_capture_out(&capture, PLIM_LIT("!"));
    assert_false(docker_capture_ended(&capture, &told));
    assert_int_equal(docker_stream_output(&capture.out).len, 6 + CTL_END_BYTES + 1);
    docker_capture_free(&capture);
}

static void without_a_key_nothing_ends(void **state)
{
    (void)state;
    docker_capture capture;
    struct ctl_end told;
    assert_true(docker_capture_init(&capture, CAP, CAP));
    docker_capture_err(&capture, (plim_bytes){capture.marker, CTL_MARKER_BYTES});
    hear_end(&capture, &plain, false, 64);
    hear_end(&capture, &plain, true, 64);
    assert_false(docker_capture_ended(&capture, &told));
    docker_capture_free(&capture);
}

static void counters_are_read_at_the_beginning_of_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        uint32_t value;
    } rows[] = {
        {"max 3\n", "max", 3},
        {"low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\n", "oom_kill", 2},
        {"low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\n", "oom", 1},
        {"oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", "oom_kill", 5},
        {"xmax 3\n", "max", CTL_END_UNKNOWN},
        {"max\n", "max", CTL_END_UNKNOWN},
        {"max -1\n", "max", CTL_END_UNKNOWN},
        {"", "max", CTL_END_UNKNOWN},
        {"max 4294967295\n", "max", CTL_END_UNKNOWN - 1},
        {"max 99999999999999999999999\n", "max", CTL_END_UNKNOWN - 1},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++)
        if (ctl_end_counter(rows[i].text, rows[i].name) != rows[i].value)
            fail_msg("row %zu", i);
}

static void limits_are_named_on_evidence(void **state)
{
    (void)state;
    static const struct {
        docker_end end;
        const char *text;
    } rows[] = {
        {{.exit_code = 0}, ""},
        {{.exit_code = 137}, ""},
        {{.exit_code = 137, .asked_memory = true}, "memory"},
        {{.exit_code = 137, .told = true}, ""},
        {{.exit_code = 137, .told = true, .last.memory = 1}, "memory"},
        {{.exit_code = 0, .told = true, .last.memory = 1, .last.pids = 4}, "memory,pids"},
        {{.exit_code = 1, .told = true, .last.disk = 2}, "disk"},
        {{.exit_code = 137,
          .told = true,
          .last = {.memory = CTL_END_UNKNOWN, .pids = CTL_END_UNKNOWN}},
         ""},
        {{.exit_code = 137,
          .told = true,
          .asked_memory = true,
          .last = {.memory = CTL_END_UNKNOWN, .pids = CTL_END_UNKNOWN, .disk = 1}},
         "memory,disk"},
        {{.end = DOCKER_BOX_STOPPED, .asked_memory = true, .asked_pids = true}, "memory,pids"},
    };
    base_arena *arena = base_arena_new(65536);
    for (size_t i = 0; i < PLIM_COUNT(rows); i++)
        assert_string_equal(docker_limits_text(docker_limits_of(&rows[i].end), arena),
                            rows[i].text);
    assert_string_equal(docker_limits_text(DOCKER_LIMIT_OUTPUT | DOCKER_LIMIT_MEMORY, arena),
                        "memory,output");
    base_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_what_it_is_said_to_be),
        cmocka_unit_test(output_of_any_length_is_exact),
        cmocka_unit_test(what_does_not_verify_is_output),
        cmocka_unit_test(a_frame_belongs_to_its_stream_its_run_and_its_end),
        cmocka_unit_test(nothing_follows_an_end),
        cmocka_unit_test(without_a_key_nothing_ends),
        cmocka_unit_test(counters_are_read_at_the_beginning_of_a_line),
        cmocka_unit_test(limits_are_named_on_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
