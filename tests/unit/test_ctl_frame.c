/* The report frame: its MAC against the published vector and against OpenSSL, and a scanner that
 * believes nothing but a well-formed frame, whatever stands around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "ctl.h"
#include "report.h"
#include "sha256.h"

#define VECTOR_BODY "{\"steps\":[],\"artifacts\":[],\"artifactsTruncated\":false}"
#define VECTOR_MAC  "29f95c196b0f78018c8d1004315b16048051acdbf5ea69c94398930c45e2fb37"
#define VECTOR      "\n" CTL_REPORT_MARKER " 54 " VECTOR_MAC "\n" VECTOR_BODY

static void counting_key(unsigned char key[CTL_KEY_BYTES])
{
    for (unsigned i = 0; i < CTL_KEY_BYTES; i++)
        key[i] = (unsigned char)i;
}

static void digests_are_those_of_openssl(void **state)
{
    (void)state;
    unsigned char bytes[300], ours[CTL_SHA256_BYTES], theirs[BASE_SHA256_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        for (size_t cut = 0; cut <= len; cut += 13) {
            struct ctl_sha256 hash;
            ctl_sha256_begin(&hash);
            ctl_sha256_add(&hash, bytes, cut);
            ctl_sha256_add(&hash, bytes + cut, len - cut);
            ctl_sha256_end(&hash, ours);
            assert_true(base_sha256_of((plim_bytes){(char *)bytes, len}, theirs));
            assert_memory_equal(ours, theirs, sizeof ours);
        }
    }
}

/* What an empty report looks like on the wire, written by the runner's own code. */
static void the_vector_is_what_an_empty_report_is(void **state)
{
    (void)state;
    static struct ctl_report report;
    unsigned char key[CTL_KEY_BYTES];
    char wire[512];
    int ends[2];
    counting_key(key);
    ctl_report_init(&report);
    assert_int_equal(pipe(ends), 0);
    assert_true(ctl_report_write(&report, ends[1], key));
    ssize_t got = read(ends[0], wire, sizeof wire);
    assert_int_equal(got, sizeof VECTOR - 1);
    assert_memory_equal(wire, VECTOR, sizeof VECTOR - 1);
    close(ends[0]);
    close(ends[1]);
}

static bool find(const char *text, size_t len, struct ctl_frame *frame, bool *seen)
{
    size_t offset = 0;
    *seen = false;
    return ctl_frame_next((const unsigned char *)text, len, &offset, frame, seen);
}

static void a_frame_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const char *const before[] = {"", "noise\n", CTL_REPORT_MARKER, CTL_REPORT_MARKER " 5 ",
                                         "\n" CTL_REPORT_MARKER " 54 " VECTOR_MAC "\n{"};
    for (size_t i = 0; i < PLIM_COUNT(before); i++) {
        _cleanup_buf_ base_buf text = BASE_BUF_INIT(4096);
        base_buf_add_text(&text, before[i]);
        base_buf_add_text(&text, VECTOR "more");
        struct ctl_frame frame;
        bool seen;
        size_t offset = 0;
        bool found = false;
        seen = false;
        while (!found &&
               ctl_frame_next((const unsigned char *)text.data, text.len, &offset, &frame, &seen))
            found = !memcmp(frame.body, VECTOR_BODY, sizeof VECTOR_BODY - 1);
        assert_true(found && seen);
        assert_int_equal(frame.body_len, 54);
        assert_memory_equal(frame.mac, VECTOR_MAC, CTL_MAC_HEX);
    }
}

static void every_cut_of_a_frame_is_no_frame(void **state)
{
    (void)state;
    struct ctl_frame frame;
    bool seen;
    for (size_t len = 0; len < sizeof VECTOR - 1; len++) {
        assert_false(find(VECTOR, len, &frame, &seen));
        assert_int_equal(seen, len > sizeof CTL_REPORT_MARKER - 1);
    }
    assert_true(find(VECTOR, sizeof VECTOR - 1, &frame, &seen));
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static void malformed_headers_are_no_frames(void **state)
{
    (void)state;
    static const char *const texts[] = {
        CTL_REPORT_MARKER "  2 " ZEROS "\n{}",
        CTL_REPORT_MARKER " 02 " ZEROS "\n{}",
        CTL_REPORT_MARKER " +2 " ZEROS "\n{}",
        CTL_REPORT_MARKER " -2 " ZEROS "\n{}",
        CTL_REPORT_MARKER " 2  " ZEROS "\n{}",
        CTL_REPORT_MARKER " 2 " ZEROS "0\n{}",
        CTL_REPORT_MARKER " 2 " ZEROS " \n{}",
        CTL_REPORT_MARKER " 2 " ZEROS "\r\n{}",
        CTL_REPORT_MARKER " 3 " ZEROS "\n{}",
        CTL_REPORT_MARKER "2 " ZEROS "\n{}",
        CTL_REPORT_MARKER " 16777217 " ZEROS "\n{}",
        CTL_REPORT_MARKER " 99999999999999999999 " ZEROS "\n{}",
        CTL_REPORT_MARKER " " ZEROS "\n{}",
        CTL_REPORT_MARKER " 2 A" ZEROS "\n{}",
        CTL_REPORT_MARKER " 2 \n" ZEROS "\n{}",
        "<<<PLIMSOLL_REPORT_V2>>> 2 " ZEROS "\n{}",
    };
    for (size_t i = 0; i < PLIM_COUNT(texts); i++) {
        struct ctl_frame frame;
        bool seen;
        assert_false(find(texts[i], strlen(texts[i]), &frame, &seen));
    }
    struct ctl_frame frame;
    bool seen;
    static const char good[] = CTL_REPORT_MARKER " 2 " ZEROS "\n{}",
                      empty[] = CTL_REPORT_MARKER " 0 " ZEROS "\n";
    assert_true(find(good, sizeof good - 1, &frame, &seen));
    assert_true(find(empty, sizeof empty - 1, &frame, &seen));
    assert_int_equal(frame.body_len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_openssl),
        cmocka_unit_test(the_vector_is_what_an_empty_report_is),
        cmocka_unit_test(a_frame_is_found_wherever_it_stands),
        cmocka_unit_test(every_cut_of_a_frame_is_no_frame),
        cmocka_unit_test(malformed_headers_are_no_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
