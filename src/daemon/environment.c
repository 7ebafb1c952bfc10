#include "daemon/environment.h"

/* More than this and something else is wrong; the rest is not listed. */
enum { UNKNOWN_MAX = 256 };

static bool is_unknown(const char *entry, plim_bytes *name)
{
    *name = (plim_bytes){entry, strcspn(entry, "=")};
    bool ours = strncmp(entry, "PLIMSOLL_", 9) == 0 || strncmp(entry, "SANDBOX_", 8) == 0;
    const core_setting *setting = core_setting_find(*name);
    bool read = (setting && setting->scope != CORE_SCOPE_TOOL) || core_absent_find(*name);
    return ours && !read;
}

static int by_name(const void *a, const void *b)
{
    return base_bytes_compare(*(const plim_bytes *)a, *(const plim_bytes *)b);
}

void daemon_warn_unknown(char *const *environment)
{
    plim_bytes unknown[UNKNOWN_MAX], name;
    size_t count = 0;
    for (size_t i = 0; environment[i] && count < UNKNOWN_MAX; i++)
        if (is_unknown(environment[i], &name))
            unknown[count++] = name;
    qsort(unknown, count, sizeof(*unknown), by_name);
    for (size_t i = 0; i < count; i++)
        base_log(BASE_LOG_WARN, "unknown environment variable", LOG_TEXT("name", unknown[i]));
}

void daemon_forget_token(void)
{
    char *value = getenv("PLIMSOLL_TOKEN");
    if (!value)
        return;
    base_wipe(value, strlen(value));
    unsetenv("PLIMSOLL_TOKEN");
}
