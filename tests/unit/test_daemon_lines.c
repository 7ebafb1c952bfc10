/* Text with a fixed form: the metrics, the audit lines, and the list of what hardened mode misses.
 */
#include "daemon/audit.h"
#include "daemon/hardened.h"
#include "daemon/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- metrics ---- */

static void every_family_is_there_at_zero(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(16384);
    daemon_metrics_text(&(daemon_metrics){.runs = {0}}, &out);
    assert_string_equal(base_buf_text(&out),
                        "# HELP plimsoll_runs_total Calls dispatched to the provider.\n"
                        "# TYPE plimsoll_runs_total counter\n"
                        "plimsoll_runs_total 0\n"
                        "# HELP plimsoll_runs_failed_total Dispatched calls that failed with an "
                        "infrastructure fault.\n"
                        "# TYPE plimsoll_runs_failed_total counter\n"
                        "plimsoll_runs_failed_total 0\n"
                        "# HELP plimsoll_inflight Run slots held.\n"
                        "# TYPE plimsoll_inflight gauge\n"
                        "plimsoll_inflight 0\n"
                        "# HELP plimsoll_shed_total Calls refused at admission, by reason.\n"
                        "# TYPE plimsoll_shed_total counter\n"
                        "plimsoll_shed_total{reason=\"at_capacity\"} 0\n"
                        "plimsoll_shed_total{reason=\"per_key\"} 0\n"
                        "plimsoll_shed_total{reason=\"rate\"} 0\n"
                        "plimsoll_shed_total{reason=\"paid_caller\"} 0\n"
                        "plimsoll_shed_total{reason=\"paid_daemon\"} 0\n");
}

static void numbers_stand_where_they_belong(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(16384);
    daemon_metrics metrics = {.runs = {UINT64_MAX}, .inflight = {3}, .shed = {1, 2, 3, 0, 0}};
    daemon_metrics_text(&metrics, &out);
    const char *text = base_buf_text(&out);
    assert_non_null(strstr(text, "\nplimsoll_runs_total 18446744073709551615\n"));
    assert_non_null(strstr(text, "\nplimsoll_inflight 3\n"));
    assert_non_null(strstr(text, "{reason=\"rate\"} 3\n"));
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf out = BASE_BUF_INIT(256);
    daemon_metrics_add_label(&out, "a\"b\\c\nd");
    assert_string_equal(base_buf_text(&out), "a\\\"b\\\\c\\nd");
}

static void refusals_and_ends_of_the_caller_are_no_faults(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    core_refuse_unsupported(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_refuse_capacity(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_refuse_disabled(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_refuse_request(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_refuse_isolation(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_refuse_software(&err, "x");
    assert_false(daemon_metrics_is_fault(&err));
    core_fail_gone(&err, RUN_CANCELED);
    assert_false(daemon_metrics_is_fault(&err));
    core_fail_gone(&err, RUN_DEADLINE);
    assert_false(daemon_metrics_is_fault(&err));
    core_fail_internal(&err, "x");
    assert_true(daemon_metrics_is_fault(&err));
    core_refuse_environment(&err, "x");
    assert_true(daemon_metrics_is_fault(&err));
    plim_error_clear(&err);
}

/* ---- audit lines ---- */

static const char *audited(const rpc_dispatched *call, base_log_format format)
{
    static base_buf buf = BASE_BUF_INIT(8192);
    daemon_audit_line line;
    base_buf_clear(&buf);
    daemon_audit_build(call, &line);
    base_log_format_line(&buf, format, 0, line.level, line.message, line.fields, line.count);
    return base_buf_text(&buf);
}

static void a_snippet(void **state)
{
    (void)state;
    plim_javascript_request request = {.code = PLIM_LIT("MARKER"), .grant_profile = PLIM_LIT("")};
    core_request inner = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &request.options, .javascript = &request};
    plim_result result = {
        .kind = PLIM_KIND_JAVASCRIPT, .exit_code = 3, .duration_ms = 12, .out = PLIM_LIT("MARKER")};
    rpc_dispatched call = {.request = &inner,
                           .caller = PLIM_LIT("build-bot"),
                           .sandbox = "wasm",
                           .isolation = "process",
                           .result = &result,
                           .trace_id = PLIM_LIT("req-1:2")};
    assert_string_equal(
        audited(&call, BASE_LOG_JSON),
        "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"INFO\",\"msg\":\"code run\","
        "\"op\":\"javascript\",\"caller\":\"build-bot\",\"code_bytes\":6,\"grant_profile\":\"\","
        "\"sandbox\":\"wasm\",\"isolation\":\"process\",\"exit_code\":3,\"timed_out\":false,"
        "\"duration_ms\":12,\"trace_id\":\"req-1:2\"}\n");
    assert_string_equal(
        audited(&call, BASE_LOG_TEXT),
        "time=1970-01-01T00:00:00.000Z level=INFO msg=\"code run\" op=javascript "
        "caller=build-bot code_bytes=6 grant_profile=\"\" sandbox=wasm isolation=process "
        "exit_code=3 timed_out=false duration_ms=12 trace_id=req-1:2\n");
}

static void a_snippet_that_failed(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    plim_javascript_request request = {.code = PLIM_LIT("MARKER")};
    core_request inner = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &request.options, .javascript = &request};
    core_fail_internal(&err, "the worker\nended \"early\"");
    rpc_dispatched call = {.request = &inner,
                           .caller = PLIM_LIT("anon"),
                           .sandbox = "wasm",
                           .isolation = "process",
                           .error = &err,
                           .duration_ms = 4,
                           .trace_id_rejected = true};
    assert_string_equal(
        audited(&call, BASE_LOG_JSON),
        "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"ERROR\",\"msg\":\"code run failed\","
        "\"op\":\"javascript\",\"caller\":\"anon\",\"code_bytes\":6,\"grant_profile\":\"\","
        "\"sandbox\":\"wasm\",\"isolation\":\"process\",\"duration_ms\":4,"
        "\"error\":\"the worker\\nended \\\"early\\\"\",\"trace_id_rejected\":true}\n");
    plim_error_clear(&err);
}

static void a_project(void **state)
{
    (void)state;
    plim_file files[] = {{PLIM_LIT("MARKER"), PLIM_LIT("12345")}, {PLIM_LIT("b"), PLIM_LIT("678")}};
    plim_bytes steps[] = {PLIM_LIT("MARKER")};
    plim_project_request request = {.files = files,
                                    .file_count = 2,
                                    .steps = steps,
                                    .step_count = 1,
                                    .grant_profile = PLIM_LIT("tickets")};
    core_request inner = {
        .kind = PLIM_KIND_PROJECT, .options = &request.options, .project = &request};
    core_step_result ran[] = {{.exit_code = 1},
                              {.exit_code = 124, .timed_out = true, .out = PLIM_LIT("MARKER")}};
    plim_result result = {.kind = PLIM_KIND_PROJECT,
                          .outcome = PLIM_OUTCOME_TIMED_OUT,
                          .outcome_detail = PLIM_LIT("a step took too long: MARKER"),
                          .steps = ran,
                          .step_count = 2,
                          .duration_ms = 9};
    rpc_dispatched call = {.request = &inner,
                           .caller = PLIM_LIT("a"),
                           .sandbox = "docker",
                           .isolation = "container",
                           .result = &result};
    assert_string_equal(
        audited(&call, BASE_LOG_JSON),
        "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"INFO\",\"msg\":\"project run\","
        "\"op\":\"project\",\"caller\":\"a\",\"files\":2,\"steps\":1,\"total_bytes\":8,"
        "\"grant_profile\":\"tickets\",\"sandbox\":\"docker\",\"isolation\":\"container\","
        "\"outcome\":\"timed_out\",\"outcome_detail\":\"a step took too long\",\"steps_ran\":2,"
        "\"exit_code\":124,\"timed_out\":true,\"duration_ms\":9}\n");
    result.step_count = 0;
    assert_non_null(strstr(audited(&call, BASE_LOG_JSON),
                           "\"steps_ran\":0,\"exit_code\":0,\"timed_out\":false"));
}

static void a_module(void **state)
{
    (void)state;
    double values[] = {1, 2, 3, 4, 5, 6};
    plim_module_request request = {.model = PLIM_LIT("tank"),
                                   .values = values,
                                   .rows = 3,
                                   .width = 2,
                                   .end_time = 10,
                                   .step = 0.3};
    core_request inner = {
        .kind = PLIM_KIND_MODULE, .options = &request.options, .module = &request};
    plim_result result = {.kind = PLIM_KIND_MODULE,
                          .outcome = PLIM_OUTCOME_COMPLETED,
                          .row_count = 3,
                          .width = 4,
                          .duration_ms = 7};
    rpc_dispatched call = {.request = &inner,
                           .caller = PLIM_LIT("a"),
                           .sandbox = "docker",
                           .isolation = "kernel",
                           .result = &result};
    assert_string_equal(
        audited(&call, BASE_LOG_JSON),
        "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"INFO\",\"msg\":\"module run\","
        "\"op\":\"module\",\"caller\":\"a\",\"model\":\"tank\",\"rows\":3,\"row_width\":2,"
        "\"max_steps\":35,\"sandbox\":\"docker\",\"isolation\":\"kernel\","
        "\"outcome\":\"completed\",\"outcome_detail\":\"\",\"runs\":3,\"width\":4,"
        "\"duration_ms\":7}\n");
}

static void no_line_holds_what_was_run(void **state)
{
    (void)state;
    plim_file files[] = {{PLIM_LIT("MARKER"), PLIM_LIT("MARKER")}};
    plim_bytes texts[] = {PLIM_LIT("MARKER")};
    plim_project_request request = {.files = files,
                                    .file_count = 1,
                                    .steps = texts,
                                    .step_count = 1,
                                    .artifacts = texts,
                                    .artifact_count = 1};
    core_request inner = {
        .kind = PLIM_KIND_PROJECT, .options = &request.options, .project = &request};
    core_step_result ran[] = {
        {.command = PLIM_LIT("MARKER"), .out = PLIM_LIT("MARKER"), .err = PLIM_LIT("MARKER")}};
    core_artifact artifacts[] = {{PLIM_LIT("MARKER"), PLIM_LIT("MARKER")}};
    plim_result result = {.kind = PLIM_KIND_PROJECT,
                          .outcome_detail = PLIM_LIT("cannot write: MARKER"),
                          .steps = ran,
                          .step_count = 1,
                          .artifacts = artifacts,
                          .artifact_count = 1};
    rpc_dispatched call = {.request = &inner,
                           .caller = PLIM_LIT("a"),
                           .sandbox = "docker",
                           .isolation = "kernel",
                           .result = &result};
    assert_null(strstr(audited(&call, BASE_LOG_JSON), "MARKER"));
}

/* ---- hardened mode ---- */

struct hardened {
    core_daemon_settings daemon;
    core_settings sandbox;
    core_limits limits;
    daemon_facts facts;
    const char *missing; /* a variable that is not set */
};

static plim_bytes lookup(void *ctx, const char *name)
{
    const struct hardened *all = ctx;
    return all->missing && strcmp(name, all->missing) == 0 ? PLIM_LIT("  ") : PLIM_LIT("1");
}

/* A configuration that meets every rule. */
static struct hardened *good(void)
{
    static struct hardened all;
    all = (struct hardened){
        .sandbox = {.memory_mb = 256, .cpus = 1, .disk_mb = 100},
        .limits = {.max_concurrent = 8,
                   .per_key_concurrent = 4,
                   .rate_per_min = 30,
                   .rate_burst = 30},
    };
    snprintf(all.daemon.addr, sizeof(all.daemon.addr), "127.0.0.1:8746");
    snprintf(all.daemon.metrics_addr, sizeof(all.daemon.metrics_addr), "off");
    all.facts = (daemon_facts){.tier_known = true,
                               .tier = PLIM_TIER_VM,
                               .auth = DAEMON_AUTH_REGISTRY,
                               .daemon = &all.daemon,
                               .sandbox = &all.sandbox,
                               .limits = &all.limits,
                               .lookup = lookup,
                               .lookup_ctx = &all};
    return &all;
}

static const char *violations(const struct hardened *all, size_t count)
{
    static base_buf buf = BASE_BUF_INIT(8192);
    base_buf_clear(&buf);
    size_t found = daemon_hardened_check(&all->facts, &buf);
    if (found != count)
        fail_msg("%zu violations, not %zu: %s", found, count, base_buf_text(&buf));
    return base_buf_text(&buf);
}

#define ASSERT_HAS(text, part)                                                                     \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("no \"%s\" in: %s", (part), (text));                                          \
    } while (0)

static void a_hardened_configuration_passes(void **state)
{
    (void)state;
    struct hardened *all = good();
    violations(all, 0);
    all->facts.tier = PLIM_TIER_KERNEL;
    violations(all, 0);
    snprintf(all->daemon.addr, sizeof(all->daemon.addr), ":8746");
    snprintf(all->daemon.metrics_addr, sizeof(all->daemon.metrics_addr), "0.0.0.0:9464");
    snprintf(all->daemon.tls_cert, sizeof(all->daemon.tls_cert), "cert.pem");
    violations(all, 0);
}

static void each_rule_alone_is_a_violation(void **state)
{
    (void)state;
    static const plim_tier weak[] = {PLIM_TIER_UNKNOWN, PLIM_TIER_NONE, PLIM_TIER_PROCESS,
                                     PLIM_TIER_CONTAINER};
    struct hardened *all;
    for (size_t i = 0; i < PLIM_COUNT(weak); i++) {
        all = good(), all->facts.tier = weak[i];
        ASSERT_HAS(violations(all, 1), plim_tier_name(weak[i]));
        all->facts.tier_known = false;
        violations(all, 0);
    }
    all = good(), all->facts.auth = DAEMON_AUTH_SHARED;
    ASSERT_HAS(violations(all, 1), "rule 2: all callers share PLIMSOLL_TOKEN");
    all = good(), all->facts.auth = DAEMON_AUTH_OPEN;
    ASSERT_HAS(violations(all, 1), "rule 2: callers are not authenticated");
    all = good(), all->daemon.insecure = CORE_ACK_OTHER;
    ASSERT_HAS(violations(all, 1), "rule 3:");
    all = good(), snprintf(all->daemon.addr, sizeof(all->daemon.addr), ":8746");
    ASSERT_HAS(violations(all, 1), "rule 4: PLIMSOLL_ADDR=:8746");
    all = good(), snprintf(all->daemon.metrics_addr, sizeof(all->daemon.metrics_addr), "[::]:9464");
    ASSERT_HAS(violations(all, 1), "rule 5: PLIMSOLL_METRICS_ADDR=[::]:9464");
    all = good(), all->limits.rate_per_min = all->limits.rate_burst = 0;
    ASSERT_HAS(violations(all, 1), "rule 12:");
    all = good(), all->limits.rate_burst = 31;
    ASSERT_HAS(violations(all, 1), "rule 12: SANDBOX_RATE_BURST=31");
    all = good(), all->limits.per_key_concurrent = 0;
    ASSERT_HAS(violations(all, 1), "rule 13:");
    all = good(), all->limits.per_key_concurrent = 8;
    ASSERT_HAS(violations(all, 1), "rule 13: SANDBOX_PER_KEY_CONCURRENT is 8");
}

static void the_envelope_names_what_is_missing_and_what_is_zero(void **state)
{
    (void)state;
    struct hardened *all = good();
    all->sandbox.disk_mb = 0;
    ASSERT_HAS(violations(all, 1), "rule 11: not above 0: SANDBOX_DISK_MB");
    all = good(), all->missing = "SANDBOX_MEMORY_MB", all->sandbox.cpus = 0;
    ASSERT_HAS(violations(all, 1),
               "rule 11: not set: SANDBOX_MEMORY_MB, not above 0: SANDBOX_CPUS");
}

static void docker_has_rules_of_its_own(void **state)
{
    (void)state;
    struct hardened *all = good();
    snprintf(all->sandbox.provider, sizeof(all->sandbox.provider), "docker");
    const char *text = violations(all, 2);
    ASSERT_HAS(text, "rule 7: SANDBOX_REQUIRE_PINNED_IMAGES is not on");
    ASSERT_HAS(text, "rule 11: not above 0: SANDBOX_PIDS, SANDBOX_TOTAL_MEMORY_MB");
    all->sandbox.require_pinned_images = true;
    all->sandbox.pids = all->sandbox.total_memory_mb = 256;
    assert_string_equal(violations(all, 0), "");
    snprintf(all->sandbox.docker_seccomp, sizeof(all->sandbox.docker_seccomp), "unconfined");
    ASSERT_HAS(violations(all, 1), "rule 8: SANDBOX_DOCKER_SECCOMP is unconfined");
    snprintf(all->sandbox.provider, sizeof(all->sandbox.provider), "wasm");
    assert_string_equal(violations(all, 0), "");
}

static void all_violations_come_at_once(void **state)
{
    (void)state;
    struct hardened *all = good();
    all->facts.tier = PLIM_TIER_PROCESS;
    all->facts.auth = DAEMON_AUTH_SHARED;
    all->daemon.insecure = CORE_ACK_GIVEN;
    all->sandbox.memory_mb = 0;
    all->limits = (core_limits){.max_concurrent = 8};
    snprintf(all->daemon.addr, sizeof(all->daemon.addr), ":8746");
    snprintf(all->daemon.metrics_addr, sizeof(all->daemon.metrics_addr), ":9464");
    const char *text = violations(all, 8);
    ASSERT_HAS(text, "rule 1: ");
    ASSERT_HAS(text, "; rule 13: ");
    assert_null(strchr(text, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_there_at_zero),
        cmocka_unit_test(numbers_stand_where_they_belong),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(refusals_and_ends_of_the_caller_are_no_faults),
        cmocka_unit_test(a_snippet),
        cmocka_unit_test(a_snippet_that_failed),
        cmocka_unit_test(a_project),
        cmocka_unit_test(a_module),
        cmocka_unit_test(no_line_holds_what_was_run),
        cmocka_unit_test(a_hardened_configuration_passes),
        cmocka_unit_test(each_rule_alone_is_a_violation),
        cmocka_unit_test(the_envelope_names_what_is_missing_and_what_is_zero),
        cmocka_unit_test(docker_has_rules_of_its_own),
        cmocka_unit_test(all_violations_come_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
