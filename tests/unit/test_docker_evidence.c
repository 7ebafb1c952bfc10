/* What an Engine and a container say, judged: images, the startup probe, the runner's report, and
 * what an end means. */
#include "unit.h"

#include "providers/docker/base64.h"
#include "providers/docker/image.h"
#include "providers/docker/plan.h"
#include "providers/docker/probe.h"
#include "providers/docker/report.h"
#include "providers/docker/run.h"
#include "providers/docker/snapshot.h"

#include <jansson.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID    "sha256:" HEX64

/* ---- images ---- */

static void images_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: accepted */
    } rows[] = {
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":null,\"Volumes\":null}}", NULL},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"A=1\",\"B=\"],\"Volumes\":{}}}", NULL},
        {"", "cannot be read"},
        {"null", "cannot be read"},
        {"[]", "cannot be read"},
        {"{\"Id\":", "cannot be read"},
        {"{}", "no content ID"},
        {"{\"Id\":\"" HEX64 "\",\"Config\":{}}", "no content ID"},
        {"{\"Id\":\"sha256:12\",\"Config\":{}}", "no content ID"},
        {"{\"Id\":7,\"Config\":{}}", "no content ID"},
        {"{\"Id\":\"" ID "\"}", "no configuration"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Volumes\":{\"/data\":{},\"/a\":{}}}}", "/a, /data"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Volumes\":7}}", "volumes"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"LD_PRELOAD=x\"]}}", "LD_PRELOAD"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"LD_=x\"]}}", "LD_"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"GLIBC_TUNABLES=x\"]}}", "GLIBC_TUNABLES"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"LOCPATH=x\"]}}", "LOCPATH"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"NLSPATH=x\"]}}", "NLSPATH"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"GCONV_PATH=x\"]}}", "GCONV_PATH"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"NAME\"]}}", "NAME=value"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[\"=x\"]}}", "NAME=value"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":[7]}}", "NAME=value"},
        {"{\"Id\":\"" ID "\",\"Config\":{\"Env\":\"A=1\"}}", "environment"},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        base_arena *arena = base_arena_new(65536);
        docker_image image;
        plim_error err = PLIM_ERROR_INIT;
        bool good = docker_image_read(plim_bytes_of(rows[i].text), "img", arena, &image, &err);
        if (good != !rows[i].says)
            fail_msg("row %zu: %s", i, plim_error_message(&err));
        if (rows[i].says) {
            assert_refused(&err, PLIM_E_REMOTE, "internal", PLIM_ND_ENVIRONMENT);
            assert_contains(plim_error_message(&err), rows[i].says);
        }
        plim_error_clear(&err);
        base_arena_free(arena);
    }
}

#define DESCRIBED(type, digest, os, arch, variant)                                                 \
    "{\"Id\":\"" ID "\",\"Config\":{},\"Os\":\"" os "\",\"Architecture\":\"" arch                  \
    "\",\"Variant\":\"" variant "\",\"Descriptor\":{\"mediaType\":\"" type                         \
    "\",\"digest\":\"" digest "\"}}"
#define OCI "application/vnd.oci.image.manifest.v1+json"

static void software_is_claimed_on_evidence_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text, *platform, *identity;
    } rows[] = {
        {DESCRIBED(OCI, ID, "linux", "arm64", "v8"), "linux/arm64", "oci-manifest:linux/arm64@" ID},
        {DESCRIBED("application/vnd.docker.distribution.manifest.v2+json", ID, "linux", "amd64",
                   ""),
         "linux/amd64", "oci-manifest:linux/amd64@" ID},
        {DESCRIBED(OCI,
                   "sha256:"
                   "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                   "linux", "amd64", ""),
         "linux/amd64", ""},
        {DESCRIBED("application/vnd.oci.image.index.v1+json", ID, "linux", "amd64", ""),
         "linux/amd64", ""},
        {DESCRIBED(OCI, ID, "linux", "arm64", ""), "linux/amd64", ""},
        {DESCRIBED(OCI, ID, "", "", ""), "", ""},
        {"{\"Id\":\"" ID "\",\"Config\":{},\"Os\":\"linux\",\"Architecture\":\"amd64\"}",
         "linux/amd64", ""},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        base_arena *arena = base_arena_new(65536);
        docker_image image;
        char identity[320];
        assert_true(docker_image_read(plim_bytes_of(rows[i].text), "img", arena, &image, NULL));
        docker_image_identity(&image, rows[i].platform, identity, sizeof(identity));
        assert_string_equal(identity, rows[i].identity);
        base_arena_free(arena);
    }
}

/* ---- the startup probe ---- */

#define MOUNT(path, type, options) "tmpfs " path " " type " " options " 0 0\\n"
#define GOOD_TMP                   MOUNT("/tmp", "tmpfs", "rw,nosuid,nodev,noexec,relatime,size=16384k")
#define GOOD_SHM                   MOUNT("/dev/shm", "tmpfs", "rw,nosuid,nodev,noexec,relatime,size=16384k")
#define GOOD_WORK                  MOUNT("/work", "tmpfs", "rw,nosuid,nodev,noexec,relatime,size=131072k,mode=1777")
#define GOOD_TABLE                 GOOD_TMP GOOD_SHM GOOD_WORK
#define GOOD_LIST                  "[\"/tmp\",\"/dev/shm\",\"/work\"]"
#define IDS(uid, groups)           "\"uid\":[" uid "],\"gid\":[\"61000\"],\"groups\":" groups ","
#define PROBE(root, table, list, pids, ids, net)                                                   \
    "{\"rootWritable\":" root ",\"mounts\":\"" table "\",\"writable\":" list ",\"pidsMax\":" pids  \
    "," ids "\"interfaces\":" net ",\"socket\":{\"connected\":true,\"reply\":\"pong\\n\"}}"
#define GOOD_IDS IDS("\"61000\",\"61000\"", "[]")

static void the_probe_is_judged(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"), NULL},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\\n\"", IDS("\"61000\"", "[\"61000\"]"),
               "[\"lo\"]"),
         NULL},
        {"", "did not say"},
        {"{}", "whether its root"},
        {PROBE("true", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"), "its root can be"},
        {PROBE("null", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"), "not known"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\",\"eth0\"]"),
         "beside lo"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"eth0\"]"), "beside lo"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "[]"), "beside lo"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", GOOD_IDS, "null"),
         "interfaces are not known"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", IDS("\"0\"", "[]"), "[\"lo\"]"),
         "its user"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", IDS("\"61000\",\"0\"", "[]"), "[\"lo\"]"),
         "its user"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", IDS("", "[]"), "[\"lo\"]"), "its user"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", IDS("\"61000\"", "[\"0\"]"), "[\"lo\"]"),
         "supplementary"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"256\"", IDS("\"61000\"", "null"), "[\"lo\"]"),
         "groups are not known"},
        {PROBE("false", GOOD_SHM GOOD_WORK, GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "/tmp is not in the mount table"},
        {PROBE("false", MOUNT("/tmp", "ext4", "rw,nosuid,noexec,size=16384k") GOOD_SHM GOOD_WORK,
               GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "/tmp is not a tmpfs"},
        {PROBE("false", MOUNT("/tmp", "tmpfs", "rw,nosuid,size=16384k") GOOD_SHM GOOD_WORK,
               GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "without noexec"},
        {PROBE("false", MOUNT("/tmp", "tmpfs", "rw,noexec,size=16384k") GOOD_SHM GOOD_WORK,
               GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "without nosuid"},
        {PROBE("false", MOUNT("/tmp", "tmpfs", "rw,nosuid,noexec") GOOD_SHM GOOD_WORK, GOOD_LIST,
               "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "does not show the size"},
        {PROBE("false", MOUNT("/tmp", "tmpfs", "rw,nosuid,noexec,size=16385k") GOOD_SHM GOOD_WORK,
               GOOD_LIST, "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "does not show the size"},
        {PROBE("false", GOOD_TABLE MOUNT("/tmp", "tmpfs", "rw"), GOOD_LIST, "\"256\"", GOOD_IDS,
               "[\"lo\"]"),
         "without noexec"},
        {PROBE("false", GOOD_TABLE, "[\"/tmp\",\"/dev/shm\",\"/work\",\"/data\"]", "\"256\"",
               GOOD_IDS, "[\"lo\"]"),
         "/data can be written to"},
        {PROBE("false", GOOD_TABLE, "[\"/tmp\",\"/work\"]", "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "/dev/shm cannot be written to"},
        {PROBE("false", GOOD_TABLE, "null", "\"256\"", GOOD_IDS, "[\"lo\"]"),
         "places are not known"},
        {PROBE("false", GOOD_TABLE, "[7]", "\"256\"", GOOD_IDS, "[\"lo\"]"), "can be written to"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"max\"", GOOD_IDS, "[\"lo\"]"),
         "no process limit"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "null", GOOD_IDS, "[\"lo\"]"), "limit is not known"},
        {PROBE("false", GOOD_TABLE, GOOD_LIST, "\"255\"", GOOD_IDS, "[\"lo\"]"), "another than"},
    };
    docker_probe_wanted wanted = {
        .uid = 61000, .pids = 256, .tmp_mb = 16, .shm_mb = 16, .work_mb = 128, .socket = true};
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        plim_error err = PLIM_ERROR_INIT;
        bool good = docker_probe_check(plim_bytes_of(rows[i].text), &wanted, &err);
        if (good != !rows[i].says)
            fail_msg("row %zu: %s", i, plim_error_message(&err));
        if (rows[i].says)
            assert_contains(plim_error_message(&err), rows[i].says);
        plim_error_clear(&err);
    }
}

static void a_kernel_of_the_host_is_no_gvisor(void **state)
{
    (void)state;
    static const docker_kernel host = {"6.1", "#1 SMP", "Linux version 6.1"};
    docker_probe_wanted wanted = {
        .uid = 61000, .tmp_mb = 16, .shm_mb = 16, .work_mb = 128, .host = &host};
    static const struct {
        const char *kernel;
        bool good;
    } rows[] = {
        {"{\"release\":\"4.4.0\",\"version\":\"#1\",\"proc\":\"Linux version 4.4.0\"}", true},
        {"{\"release\":\"6.1\",\"version\":\"#1\",\"proc\":\"Linux version 4.4.0\"}", false},
        {"{\"release\":\"4.4.0\",\"version\":\"#1 SMP\",\"proc\":\"Linux version 4.4.0\"}", false},
        {"{\"release\":\"4.4.0\",\"version\":\"#1\",\"proc\":\"Linux version 6.1\"}", false},
        {"{\"release\":\"4.4.0\",\"version\":\"#1\"}", false},
        {"{\"release\":\"\",\"version\":\"#1\",\"proc\":\"Linux version 4.4.0\"}", false},
        {"null", false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        _cleanup_buf_ base_buf text = BASE_BUF_INIT(8192);
        base_buf_printf(&text, "{\"kernel\":%s,%s", rows[i].kernel,
                        &PROBE("false", GOOD_TABLE, GOOD_LIST, "\"max\"", GOOD_IDS, "[\"lo\"]")[1]);
        plim_error err = PLIM_ERROR_INIT;
        if (docker_probe_check(base_buf_bytes(&text), &wanted, &err) != rows[i].good)
            fail_msg("row %zu: %s", i, plim_error_message(&err));
        plim_error_clear(&err);
    }
}

static void a_banner_is_printable_and_short(void **state)
{
    (void)state;
    char banner[121];
    docker_probe_banner(PLIM_LIT("{\"banner\":\"Starting\\u0007 gVisor...\\nmore\"}"), banner);
    assert_string_equal(banner, "Starting? gVisor...");
    docker_probe_banner(PLIM_LIT("{\"banner\":null}"), banner);
    assert_string_equal(banner, "");
    docker_probe_banner(PLIM_LIT("nonsense"), banner);
    assert_string_equal(banner, "");
}

/* ---- the report ---- */

#define EMPTY_BODY               "{\"steps\":[],\"artifacts\":[],\"artifactsTruncated\":false}"
#define EMPTY_MAC                "29f95c196b0f78018c8d1004315b16048051acdbf5ea69c94398930c45e2fb37"
#define FRAME(length, mac, body) "\n" CTL_REPORT_MARKER " " length " " mac "\n" body

static void only_a_frame_that_verifies_is_believed(void **state)
{
    (void)state;
    unsigned char key[CTL_KEY_BYTES];
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (unsigned char)i;
    static const struct {
        plim_bytes bytes;
        docker_report_found found;
    } rows[] = {
        {PLIM_LIT(FRAME("54", EMPTY_MAC, EMPTY_BODY)), DOCKER_REPORT_VERIFIED},
        {PLIM_LIT("noise" FRAME("54", EMPTY_MAC, EMPTY_BODY) "noise"), DOCKER_REPORT_VERIFIED},
        {PLIM_LIT(CTL_REPORT_MARKER " 3 forged" FRAME("54", EMPTY_MAC, EMPTY_BODY)),
         DOCKER_REPORT_VERIFIED},
        {PLIM_LIT("noise"), DOCKER_REPORT_NONE},
        {PLIM_LIT("<<<PLIMSOLL_REPORT_V2>>> 54 " EMPTY_MAC "\n" EMPTY_BODY), DOCKER_REPORT_NONE},
        {PLIM_LIT(FRAME("53", EMPTY_MAC, EMPTY_BODY)), DOCKER_REPORT_UNAUTHENTICATED},
        {PLIM_LIT(FRAME("054", EMPTY_MAC, EMPTY_BODY)), DOCKER_REPORT_UNAUTHENTICATED},
        {PLIM_LIT(FRAME("+54", EMPTY_MAC, EMPTY_BODY)), DOCKER_REPORT_UNAUTHENTICATED},
        {PLIM_LIT(FRAME("55", EMPTY_MAC, EMPTY_BODY)), DOCKER_REPORT_UNAUTHENTICATED},
        {PLIM_LIT("\n" CTL_REPORT_MARKER "  54 " EMPTY_MAC "\n" EMPTY_BODY),
         DOCKER_REPORT_UNAUTHENTICATED},
        {PLIM_LIT(FRAME("54", "39f95c196b0f78018c8d1004315b16048051acdbf5ea69c94398930c45e2fb37",
                        EMPTY_BODY)),
         DOCKER_REPORT_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        plim_bytes body = {NULL, 0};
        if (docker_report_find(rows[i].bytes, key, &body) != rows[i].found)
            fail_msg("row %zu", i);
        if (rows[i].found == DOCKER_REPORT_VERIFIED)
            assert_bytes(body, EMPTY_BODY);
    }
    plim_bytes whole = rows[0].bytes, body;
    for (size_t at = 1; at < whole.len; at++) {
        char changed[256];
        memcpy(changed, whole.data, whole.len);
        changed[at] = (char)(changed[at] ^ 1);
        assert_int_not_equal(docker_report_find((plim_bytes){changed, whole.len}, key, &body),
                             DOCKER_REPORT_VERIFIED);
    }
}

#define STEP                                                                                       \
    "{\"command\":\"x\",\"stdoutBase64\":\"aGk=\",\"stderrBase64\":\"\",\"stdoutTruncated\":"      \
    "false,"                                                                                       \
    "\"stderrTruncated\":false,\"exitCode\":3,\"timedOut\":false,\"durationMs\":7}"

static void reports_are_decoded_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool good;
    } rows[] = {
        {EMPTY_BODY, true},
        {"{\"steps\":[" STEP "],\"artifacts\":[{\"path\":\"a\",\"content\":\"AA==\"}],"
         "\"artifactsTruncated\":true}",
         true},
        {"{\"error\":\"illegal file path: x\"}", true},
        {"{\"error\":\"x\",\"steps\":[]}", false},
        {"{\"error\":7}", false},
        {"{\"error\":\"\"}", false},
        {"{\"steps\":[],\"artifacts\":[]}", false},
        {"{\"steps\":[],\"artifacts\":[],\"artifactsTruncated\":false,\"more\":1}", false},
        {"{\"steps\":[],\"steps\":[],\"artifacts\":[],\"artifactsTruncated\":false}", false},
        {"{\"steps\":{},\"artifacts\":[],\"artifactsTruncated\":false}", false},
        {"{\"steps\":[{}],\"artifacts\":[],\"artifactsTruncated\":false}", false},
        {"{\"steps\":[],\"artifacts\":[{\"path\":\"a\"}],\"artifactsTruncated\":false}", false},
        {"{\"steps\":[],\"artifacts\":[{\"path\":\"a\",\"content\":\"A\"}],"
         "\"artifactsTruncated\":false}",
         false},
        {"{\"steps\":[],\"artifacts\":[],\"artifactsTruncated\":0}", false},
        {"[]", false},
        {"", false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        base_arena *arena = base_arena_new(65536);
        docker_report report;
        if (docker_report_read(plim_bytes_of(rows[i].body), arena, &report) != rows[i].good)
            fail_msg("row %zu", i);
        if (i == 1) {
            assert_int_equal(report.step_count, 1);
            assert_bytes(report.steps[0].out, "hi");
            assert_int_equal(report.steps[0].exit_code, 3);
            assert_bytes(report.artifacts[0].content, "\0");
            assert_true(report.artifacts_truncated);
        }
        base_arena_free(arena);
    }
}

static void base64_has_one_form(void **state)
{
    (void)state;
    static const char *const bad[] = {"A",    "AA",   "AAA",      "A===", "AA=A",  "====",
                                      "AB==", "AAB=", "AAA=AAAA", "AA A", "AA\n=", "A-_A"};
    base_arena *arena = base_arena_new(65536);
    plim_bytes out;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        if (docker_base64_decode(plim_bytes_of(bad[i]), arena, &out))
            fail_msg("%s was read", bad[i]);
    assert_true(docker_base64_decode(PLIM_LIT("/+8="), arena, &out));
    assert_bytes(out, "\xFF\xEF");
    assert_true(docker_base64_decode(PLIM_LIT(""), arena, &out));
    assert_int_equal(out.len, 0);
    base_arena_free(arena);
}

static void a_plan_is_the_contract(void **state)
{
    (void)state;
    static const plim_file file = {PLIM_BYTES_("a.txt", 5), PLIM_BYTES_("h\0i", 3)};
    static const plim_bytes step = PLIM_BYTES_("cat a.txt", 9), artifact = PLIM_BYTES_("o", 1);
    static const char *const env[] = {"PATH=/usr/bin:/bin"};
    plim_project_request request = {.files = &file,
                                    .file_count = 1,
                                    .steps = &step,
                                    .step_count = 1,
                                    .artifacts = &artifact,
                                    .artifact_count = 1};
    unsigned char key[CTL_KEY_BYTES] = {0xFF};
    char *plan = docker_plan_write(&request, 30000, env, 1, key);
    assert_string_equal(
        plan,
        "{\"files\":[{\"path\":\"a.txt\",\"content\":\"h\\u0000i\"}],\"steps\":[\"cat a.txt\"],"
        "\"stepTimeoutMs\":30000,\"artifacts\":[\"o\"],\"env\":[\"PATH=/usr/bin:/bin\"],"
        "\"reportKey\":\"ff00000000000000000000000000000000000000000000000000000000000000\"}");
    base_free_secret(plan, strlen(plan));
}

/* ---- ends ---- */

#define END(end_, why_, own_, started_, code_)                                                     \
    {                                                                                              \
        .end = (end_), .why = (why_), .own_deadline = (own_), .started = (started_),               \
        .exit_code = (code_)                                                                       \
    }

static void ends_of_snippets_are_mapped(void **state)
{
    (void)state;
    static const struct {
        docker_end end;
        docker_answer answer;
    } rows[] = {
        {END(DOCKER_BOX_ENDED, RUN_READY, false, true, 0), DOCKER_ANSWER_RESULT},
        {END(DOCKER_BOX_ENDED, RUN_READY, false, true, 125), DOCKER_ANSWER_RESULT},
        {END(DOCKER_BOX_ENDED, RUN_READY, false, true, 137), DOCKER_ANSWER_RESULT},
        {END(DOCKER_BOX_ENDED, RUN_READY, false, false, 0), DOCKER_ANSWER_FAULT},
        {END(DOCKER_BOX_ENDED, RUN_READY, false, false, 127), DOCKER_ANSWER_FAULT},
        {END(DOCKER_BOX_STOPPED, RUN_DEADLINE, true, true, 0), DOCKER_ANSWER_TIMED_OUT},
        {END(DOCKER_BOX_STOPPED, RUN_DEADLINE, true, false, 0), DOCKER_ANSWER_FAULT},
        {END(DOCKER_BOX_STOPPED, RUN_DEADLINE, false, true, 0), DOCKER_ANSWER_GONE},
        {END(DOCKER_BOX_STOPPED, RUN_CANCELED, false, true, 0), DOCKER_ANSWER_GONE},
        {END(DOCKER_BOX_STOPPED, RUN_CANCELED, true, true, 0), DOCKER_ANSWER_GONE},
        {END(DOCKER_BOX_BROKEN, RUN_READY, false, true, 0), DOCKER_ANSWER_FAULT},
        {END(DOCKER_BOX_BROKEN, RUN_READY, false, false, 0), DOCKER_ANSWER_FAULT},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++)
        assert_int_equal(docker_snippet_answer(&rows[i].end), rows[i].answer);
}

static void ends_of_projects_are_mapped(void **state)
{
    (void)state;
    static core_step_result good = {.exit_code = 3}, late = {.exit_code = 124, .timed_out = true};
    const docker_report none = {.step_count = 0}, one = {.steps = &good, .step_count = 1},
                        timed = {.steps = &late, .step_count = 1},
                        error = {.error = PLIM_LIT("bad environment entry")};
    const docker_end ended = END(DOCKER_BOX_ENDED, RUN_READY, false, true, 137),
                     no_start = END(DOCKER_BOX_ENDED, RUN_READY, false, false, 1),
                     over = END(DOCKER_BOX_STOPPED, RUN_DEADLINE, true, true, 0),
                     gone = END(DOCKER_BOX_STOPPED, RUN_CANCELED, false, true, 0),
                     broken = END(DOCKER_BOX_BROKEN, RUN_READY, false, true, 0);
    const struct {
        const docker_end *end;
        docker_report_found found;
        bool decoded;
        const docker_report *report;
        plim_outcome outcome; /* UNSPECIFIED: an error */
        const char *detail;
    } rows[] = {
        {&ended, DOCKER_REPORT_VERIFIED, true, &one, PLIM_OUTCOME_COMPLETED, ""},
        {&ended, DOCKER_REPORT_VERIFIED, true, &timed, PLIM_OUTCOME_TIMED_OUT,
         "step 1 exceeded its time budget"},
        {&ended, DOCKER_REPORT_VERIFIED, true, &error, PLIM_OUTCOME_SETUP_FAILED,
         "bad environment entry"},
        {&ended, DOCKER_REPORT_VERIFIED, false, &none, PLIM_OUTCOME_PROTOCOL_ERROR,
         "could not parse sandbox result"},
        {&ended, DOCKER_REPORT_UNAUTHENTICATED, false, &none, PLIM_OUTCOME_PROTOCOL_ERROR,
         "no authenticated runner report"},
        {&ended, DOCKER_REPORT_NONE, false, &none, PLIM_OUTCOME_PROTOCOL_ERROR,
         "the runner did not report (container exit 137)"},
        {&over, DOCKER_REPORT_NONE, false, &none, PLIM_OUTCOME_TIMED_OUT,
         "run exceeded the time budget"},
        {&no_start, DOCKER_REPORT_NONE, false, &none, PLIM_OUTCOME_UNSPECIFIED, NULL},
        {&gone, DOCKER_REPORT_NONE, false, &none, PLIM_OUTCOME_UNSPECIFIED, NULL},
        {&broken, DOCKER_REPORT_NONE, false, &none, PLIM_OUTCOME_UNSPECIFIED, NULL},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        plim_outcome outcome = PLIM_OUTCOME_UNSPECIFIED;
        char detail[256] = "";
        bool is = docker_project_outcome(rows[i].end, rows[i].found, rows[i].decoded,
                                         rows[i].report, &outcome, detail, sizeof(detail));
        assert_int_equal(is, rows[i].detail != NULL);
        assert_int_equal(outcome, rows[i].outcome);
        if (is)
            assert_string_equal(detail, rows[i].detail);
    }
}

/* ---- snapshots ---- */

#define INSPECTION(paused, memory)                                                                 \
    "{\"Id\":\"x\",\"Image\":\"i\",\"Config\":{\"User\":\"61000\"},\"HostConfig\":{"               \
    "\"Memory\":" memory                                                                           \
    ",\"A\":1},\"Mounts\":[],\"NetworkSettings\":{\"Networks\":{\"none\":{\"changes\":1}}},"       \
    "\"State\":{\"Running\":true,\"Paused\":" paused ",\"Restarting\":false,\"Dead\":false,"       \
    "\"Pid\":7,\"StartedAt\":\"t\"}}"

static void snapshots_see_every_change(void **state)
{
    (void)state;
    docker_snapshot first, same, other;
    assert_true(docker_snapshot_read(PLIM_LIT(INSPECTION("false", "5")), &first));
    assert_true(docker_snapshot_read(PLIM_LIT(INSPECTION("false", "5")), &same));
    assert_true(docker_snapshot_read(PLIM_LIT(INSPECTION("false", "6")), &other));
    assert_string_equal(first.text, same.text);
    assert_string_not_equal(first.text, other.text);
    assert_int_equal(first.pid, 7);
    base_free(first.text);
    base_free(same.text);
    base_free(other.text);
    assert_false(docker_snapshot_read(PLIM_LIT(INSPECTION("true", "5")), &first));
    assert_false(docker_snapshot_read(PLIM_LIT("{}"), &first));
    assert_false(docker_snapshot_read(PLIM_LIT("null"), &first));
    assert_false(docker_snapshot_read((plim_bytes){NULL, 0}, &first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_judged),
        cmocka_unit_test(software_is_claimed_on_evidence_alone),
        cmocka_unit_test(the_probe_is_judged),
        cmocka_unit_test(a_kernel_of_the_host_is_no_gvisor),
        cmocka_unit_test(a_banner_is_printable_and_short),
        cmocka_unit_test(only_a_frame_that_verifies_is_believed),
        cmocka_unit_test(reports_are_decoded_strictly),
        cmocka_unit_test(base64_has_one_form),
        cmocka_unit_test(a_plan_is_the_contract),
        cmocka_unit_test(ends_of_snippets_are_mapped),
        cmocka_unit_test(ends_of_projects_are_mapped),
        cmocka_unit_test(snapshots_see_every_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
