#include "daemon/hardened.h"

/* Each rule appends what is wrong with the facts, or nothing. */

static void check_tier(const daemon_facts *facts, base_buf *wrong)
{
    if (facts->tier_known && facts->tier != PLIM_TIER_VM && facts->tier != PLIM_TIER_KERNEL)
        base_buf_printf(wrong, "the proven tier is %s; it must be vm or kernel",
                        plim_tier_name(facts->tier));
}

static void check_registry(const daemon_facts *facts, base_buf *wrong)
{
    if (facts->auth != DAEMON_AUTH_REGISTRY)
        base_buf_printf(wrong, "%s; set PLIMSOLL_CLIENTS_FILE",
                        facts->auth == DAEMON_AUTH_SHARED ? "all callers share PLIMSOLL_TOKEN"
                                                          : "callers are not authenticated");
}

static void check_insecure(const daemon_facts *facts, base_buf *wrong)
{
    if (facts->daemon->insecure != CORE_ACK_ABSENT)
        base_buf_add_text(wrong, "PLIMSOLL_INSECURE is set");
}

static bool is_exposed(const daemon_facts *facts, const char *address)
{
    return !facts->daemon->tls_cert[0] && !core_address_is_loopback(plim_bytes_of(address));
}

static void check_rpc_tls(const daemon_facts *facts, base_buf *wrong)
{
    if (is_exposed(facts, facts->daemon->addr))
        base_buf_printf(wrong, "PLIMSOLL_ADDR=%s is not loopback and there is no TLS",
                        facts->daemon->addr);
}

static void check_metrics_tls(const daemon_facts *facts, base_buf *wrong)
{
    const char *address = facts->daemon->metrics_addr;
    if (strcmp(address, "off") != 0 && is_exposed(facts, address))
        base_buf_printf(wrong, "PLIMSOLL_METRICS_ADDR=%s is not loopback and there is no TLS",
                        address);
}

static bool is_docker(const daemon_facts *facts)
{
    return strcmp(facts->sandbox->provider, "docker") == 0;
}

static void check_pinned_images(const daemon_facts *facts, base_buf *wrong)
{
    if (is_docker(facts) && !facts->sandbox->require_pinned_images)
        base_buf_add_text(wrong, "SANDBOX_REQUIRE_PINNED_IMAGES is not on");
}

static void check_seccomp(const daemon_facts *facts, base_buf *wrong)
{
    if (is_docker(facts) && strcmp(facts->sandbox->docker_seccomp, "unconfined") == 0)
        base_buf_add_text(wrong, "SANDBOX_DOCKER_SECCOMP is unconfined");
}

static void add_name(base_buf *list, const char *name)
{
    base_buf_printf(list, "%s%s", list->len ? ", " : "", name);
}

static void check_envelope(const daemon_facts *facts, base_buf *wrong)
{
    const struct {
        const char *name;
        bool positive;
        bool docker_alone;
    } needed[] = {
        {"SANDBOX_MEMORY_MB", facts->sandbox->memory_mb > 0, false},
        {"SANDBOX_CPUS", facts->sandbox->cpus > 0, false},
        {"SANDBOX_DISK_MB", facts->sandbox->disk_mb > 0, false},
        {"SANDBOX_PIDS", facts->sandbox->pids > 0, true},
        {"SANDBOX_TOTAL_MEMORY_MB", facts->sandbox->total_memory_mb > 0, true},
    };
    _cleanup_buf_ base_buf missing = BASE_BUF_INIT(256);
    _cleanup_buf_ base_buf zero = BASE_BUF_INIT(256);
    for (size_t i = 0; i < PLIM_COUNT(needed); i++) {
        if (needed[i].docker_alone && !is_docker(facts))
            continue;
        if (base_trim(facts->lookup(facts->lookup_ctx, needed[i].name)).len == 0)
            add_name(&missing, needed[i].name);
        else if (!needed[i].positive)
            add_name(&zero, needed[i].name);
    }
    if (missing.len)
        base_buf_printf(wrong, "not set: %s", base_buf_text(&missing));
    if (zero.len)
        base_buf_printf(wrong, "%snot above 0: %s", missing.len ? ", " : "", base_buf_text(&zero));
}

static void check_rate(const daemon_facts *facts, base_buf *wrong)
{
    const core_limits *limits = facts->limits;
    if (limits->rate_per_min <= 0)
        base_buf_add_text(wrong, "SANDBOX_RATE_PER_MIN is 0, so callers have no rate limit");
    else if (limits->rate_burst > limits->rate_per_min)
        base_buf_printf(wrong,
                        "SANDBOX_RATE_BURST=%" PRId64 " is above the rate of %" PRId64 " a minute",
                        limits->rate_burst, limits->rate_per_min);
}

static void check_per_key(const daemon_facts *facts, base_buf *wrong)
{
    const core_limits *limits = facts->limits;
    if (limits->per_key_concurrent <= 0)
        base_buf_add_text(wrong, "SANDBOX_PER_KEY_CONCURRENT is 0, so one caller may take all");
    else if (limits->per_key_concurrent >= limits->max_concurrent)
        base_buf_printf(wrong,
                        "SANDBOX_PER_KEY_CONCURRENT is %" PRId64 ", not below the %" PRId64
                        " runs that may be in flight",
                        limits->per_key_concurrent, limits->max_concurrent);
}

size_t daemon_hardened_check(const daemon_facts *facts, base_buf *out)
{
    static const struct {
        int number;
        void (*check)(const daemon_facts *, base_buf *);
    } rules[] = {
#define X(number, name, text) {number, check_##name},
        DAEMON_HARDENED_RULES(X)
#undef X
    };
    size_t violations = 0;
    for (size_t i = 0; i < PLIM_COUNT(rules); i++) {
        _cleanup_buf_ base_buf wrong = BASE_BUF_INIT(1024);
        rules[i].check(facts, &wrong);
        if (wrong.len == 0)
            continue;
        base_buf_printf(out, "%srule %d: %s", violations ? "; " : "", rules[i].number,
                        base_buf_text(&wrong));
        violations++;
    }
    return violations;
}
