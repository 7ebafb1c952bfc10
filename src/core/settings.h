/*
 * The settings: one table of environment variables. The parser, `-h`, docs/configuration.md, the
 * table in AGENTS.md and the test that they agree all come from it. Reading is strict: a malformed
 * value is an error that names the variable.
 */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

typedef enum {
    CORE_SETTING_INT,
    CORE_SETTING_NUMBER,
    CORE_SETTING_BOOL,
    CORE_SETTING_TIER,
    CORE_SETTING_NAME, /* trimmed and lower-cased text */
} core_setting_kind;

/* X(field, name, kind, least, most, default text, range text, who honours it, help) */
#define CORE_SETTINGS(X)                                                                           \
    X(provider, "SANDBOX_PROVIDER", NAME, 0, 0, "unset = disabled", "disabled, wasm", "all",       \
      "Which provider runs code. Unset, nothing runs.")                                            \
    X(min_isolation, "SANDBOX_MIN_ISOLATION", TIER, 0, 0, "none",                                  \
      "process, container, kernel, vm", "all",                                                     \
      "Refuse to become ready when the provider's tier is below this.")                            \
    X(memory_mb, "SANDBOX_MEMORY_MB", INT, 0, INT64_MAX, "0 = provider's (wasm: 256)", ">= 0",     \
      "wasm",                                                                                      \
      "Memory of one run in MiB. wasm: at least the engine's own memory and 4 MiB more; above "    \
      "4096 counts as 4096.")                                                                      \
    X(cpus, "SANDBOX_CPUS", NUMBER, 0, 0, "0 = provider's", ">= 0",                                \
      "none yet; wasm refuses a value above 0", "Processors of one run.")                          \
    X(pids, "SANDBOX_PIDS", INT, 0, INT64_MAX, "0 = provider's", ">= 0",                           \
      "none yet; wasm refuses a value above 0", "Processes of one run.")                           \
    X(disk_mb, "SANDBOX_DISK_MB", INT, 0, INT64_MAX, "0 = provider's", ">= 0",                     \
      "none yet; wasm refuses a value above 0", "Writable disk of one run in MiB.")                \
    X(wasm_fresh_process, "SANDBOX_WASM_FRESH_PROCESS", BOOL, 0, 0, "0", "0, 1", "wasm",           \
      "A process of its own for every run, instead of a restored snapshot in a used one.")         \
    X(max_concurrent, "SANDBOX_MAX_CONCURRENT", INT, 1, 1024, "8", "1-1024", "all",                \
      "Runs in flight at once; more are refused, never queued.")                                   \
    X(per_key_concurrent, "SANDBOX_PER_KEY_CONCURRENT", INT, 0, 1024,                              \
      "half of the maximum, at least 1", "0-maximum; 0 = no cap", "daemon",                        \
      "Runs in flight of one caller.")                                                             \
    X(rate_per_min, "SANDBOX_RATE_PER_MIN", INT, 0, INT32_MAX, "30", ">= 0; 0 = no limit",         \
      "daemon", "Sustained starts a minute of one caller.")                                        \
    X(rate_burst, "SANDBOX_RATE_BURST", INT, 0, INT32_MAX, "= rate", ">= 0; 0 = rate", "daemon",   \
      "Starts of one caller at once.")                                                             \
    X(total_memory_mb, "SANDBOX_TOTAL_MEMORY_MB", INT, 0, INT64_MAX, "0 = none", ">= 0", "all",    \
      "Memory of all runs together in MiB: lowers the number of runs in flight to what fits.")

typedef struct core_settings {
    char provider[32]; /* "" when unset */
    plim_tier min_isolation;
    int64_t memory_mb;
    double cpus;
    int64_t pids, disk_mb;
    bool wasm_fresh_process;
    int64_t max_concurrent;
    int64_t per_key_concurrent; /* CORE_SETTING_UNSET when not given */
    int64_t rate_per_min;       /* CORE_SETTING_UNSET when not given */
    int64_t rate_burst;
    int64_t total_memory_mb;
} core_settings;

enum { CORE_SETTING_UNSET = -1 };

typedef struct core_setting {
    const char *name;
    core_setting_kind kind;
    int64_t least, most; /* of an integer */
    size_t offset;       /* of its member in core_settings */
    const char *default_text, *range_text, *honoured_by, *help;
} core_setting;

/* The table and its length. */
extern const core_setting core_setting_table[];
extern const size_t core_setting_count;

/* Looks a variable up by name; no bytes (data NULL) when it is not set. */
typedef plim_bytes core_lookup(void *ctx, const char *name);

/* Reads the process environment; `ctx` is not used. */
plim_bytes core_lookup_environment(void *ctx, const char *name);

/*
 * A value as a message may show it: its first bytes, anything but plain ASCII replaced. Writes at
 * most `size` bytes, terminator included, to `out`, and returns it.
 */
const char *core_settings_shown(plim_bytes value, char *out, size_t size);

/* Read every setting through `lookup`. Errors: PLIM_E_INVALID_OPTION naming the variable and what
 * is wrong. */
bool core_settings_read(core_lookup *lookup, void *ctx, core_settings *out, plim_error *err);

#endif
