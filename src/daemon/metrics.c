#include "daemon/metrics.h"

static const char *const daemon_shed_names[] = {
#define X(reason) #reason,
    DAEMON_SHED_REASONS(X)
#undef X
};

static const struct family {
    const char *name, *type, *label;
    const char *const *values;
    size_t count, offset;
    const char *help;
} families[] = {
#define X(member, name, type, label, values, count, help)                                          \
    {name, type, label, values, count, offsetof(daemon_metrics, member), help},
    DAEMON_METRICS(X)
#undef X
};

void daemon_metrics_add_label(base_buf *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            base_buf_add_byte(out, '\\');
        if (*value == '\n')
            base_buf_add_text(out, "\\n");
        else
            base_buf_add_byte(out, *value);
    }
}

static void add_sample(base_buf *out, const struct family *family, size_t series, uint64_t value)
{
    base_buf_add_text(out, family->name);
    if (family->values) {
        base_buf_printf(out, "{%s=\"", family->label);
        daemon_metrics_add_label(out, family->values[series]);
        base_buf_add_text(out, "\"}");
    }
    base_buf_printf(out, " %" PRIu64 "\n", value);
}

void daemon_metrics_text(const daemon_metrics *metrics, base_buf *out)
{
    for (size_t i = 0; i < PLIM_COUNT(families); i++) {
        const struct family *family = &families[i];
        const uint64_t *values = (const uint64_t *)((const char *)metrics + family->offset);
        base_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                        family->name, family->type);
        for (size_t series = 0; series < family->count; series++)
            add_sample(out, family, series, values[series]);
    }
}

bool daemon_metrics_is_fault(const plim_error *err)
{
    switch (plim_error_status(err)) {
    case PLIM_E_UNSUPPORTED:
    case PLIM_E_DISABLED:
    case PLIM_E_AT_CAPACITY:
    case PLIM_E_INVALID_REQUEST:
    case PLIM_E_INSUFFICIENT_ISOLATION:
    case PLIM_E_SOFTWARE_MISMATCH:
    case PLIM_E_CANCELED:
    case PLIM_E_REQUEST_TIMEOUT:
        return false;
    default:
        return true;
    }
}
