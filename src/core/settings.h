/*
 * The settings: one table of environment variables. The parser, `-h`, docs/configuration.md, the
 * table in AGENTS.md and the test that they agree all come from it. Reading is strict: a malformed
 * value is an error that names the variable.
 */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

#include <limits.h>

typedef enum {
    CORE_SETTING_INT,
    CORE_SETTING_NUMBER,
    CORE_SETTING_BOOL,
    CORE_SETTING_TIER,
    CORE_SETTING_NAME,       /* trimmed and lower-cased text */
    CORE_SETTING_ADDRESS,    /* host:port */
    CORE_SETTING_ADDRESS_OR, /* host:port, or the word `off` */
    CORE_SETTING_PATH,       /* trimmed */
    CORE_SETTING_TEXT,       /* as given */
    CORE_SETTING_SECRET,     /* as given, never shown; `least` is its shortest length in bytes */
    CORE_SETTING_WORD,       /* true for the word of the range text, any case; false for all else */
    CORE_SETTING_ACK,        /* an acknowledgement: core_acknowledgement */
} core_setting_kind;

/* Who reads a row: every program with a provider in it, the daemon alone, or the command line
 * alone. */
typedef enum { CORE_SCOPE_SANDBOX, CORE_SCOPE_DAEMON, CORE_SCOPE_TOOL } core_setting_scope;

/* As many MiB as have a number of bytes: more would wrap, and a bound of 0 bytes is none. */
#define CORE_MIB_MAX (INT64_MAX >> 20)

/*
 * X(scope, field, name, kind, least, most, default text, range text, who honours it, help)
 * The rows stand in the order in which the daemon reports faults in them. The default text of an
 * address is its default.
 */
#define CORE_SETTINGS(X)                                                                           \
    X(SANDBOX, provider, "SANDBOX_PROVIDER", NAME, 0, 0, "unset = disabled",                       \
      "disabled, wasm, docker", "all", "Which provider runs code. Unset, nothing runs.")           \
    X(SANDBOX, memory_mb, "SANDBOX_MEMORY_MB", INT, 0, CORE_MIB_MAX,                               \
      "0 = provider's (wasm, docker: 256)", "0-8796093022207", "wasm, docker",                     \
      "Memory of one run in MiB. wasm: at least the engine's own memory and 4 MiB more; above "    \
      "4096 counts as 4096.")                                                                      \
    X(SANDBOX, cpus, "SANDBOX_CPUS", NUMBER, 0, 0, "0 = provider's (docker: 1)",                   \
      "0, or 0.001 to 1000000", "docker; wasm refuses a value above 0", "Processors of one run.")  \
    X(SANDBOX, pids, "SANDBOX_PIDS", INT, 0, INT64_MAX, "0 = provider's (docker: 256)", ">= 0",    \
      "docker; wasm refuses a value above 0", "Processes of one run.")                             \
    X(SANDBOX, disk_mb, "SANDBOX_DISK_MB", INT, 0, CORE_MIB_MAX, "0 = provider's",                 \
      "0-8796093022207", "docker; wasm refuses a value above 0",                                   \
      "Writable disk of one run in MiB, all its writable mounts together.")                        \
    X(SANDBOX, wasm_fresh_process, "SANDBOX_WASM_FRESH_PROCESS", BOOL, 0, 0, "0", "0, 1", "wasm",  \
      "A process of its own for every run, instead of a restored snapshot in a used one.")         \
    X(SANDBOX, docker_image, "SANDBOX_DOCKER_IMAGE", TEXT, 0, 0, "plimsoll/sandbox-js:latest",     \
      "image reference", "docker", "The image that snippets run in; never pulled.")                \
    X(SANDBOX, docker_project_image, "SANDBOX_DOCKER_PROJECT_IMAGE", TEXT, 0, 0,                   \
      "plimsoll/sandbox:latest", "image reference", "docker",                                      \
      "The image that projects run in; never pulled.")                                             \
    X(SANDBOX, docker_module_image, "SANDBOX_DOCKER_MODULE_IMAGE", TEXT, 0, 0, "unset",            \
      "image reference", "docker",                                                                 \
      "The image for module runs. It is checked like the other two; module runs are unsupported "  \
      "with it as without.")                                                                       \
    X(SANDBOX, docker_runtime, "SANDBOX_DOCKER_RUNTIME", PATH, 0, 0, "unset = the Engine's own",   \
      "name of a runtime", "docker",                                                               \
      "The OCI runtime of every container; `runsc` is tier kernel once it is proven.")             \
    X(SANDBOX, docker_seccomp, "SANDBOX_DOCKER_SECCOMP", PATH, 0, 0, "unset = the Engine's own",   \
      "path, default, or unconfined", "docker",                                                    \
      "The seccomp profile of every container; none is sent under runsc.")                         \
    X(SANDBOX, docker_pool, "SANDBOX_DOCKER_POOL", INT, 0, 1024, "0", "0-SANDBOX_MAX_CONCURRENT",  \
      "docker alone; a value above 0 stops every other",                                           \
      "Started, never used containers that wait for runs.")                                        \
    X(SANDBOX, guest_uid, "SANDBOX_GUEST_UID", INT, 1, 65532, "61000", "1-65532",                  \
      "docker alone; set, it stops every other", "User and group of everything in a container.")   \
    X(SANDBOX, require_pinned_images, "SANDBOX_REQUIRE_PINNED_IMAGES", BOOL, 0, 0, "0", "0, 1",    \
      "docker", "Every image reference must end in `@sha256:` and 64 hex digits.")                 \
    X(SANDBOX, docker_host, "DOCKER_HOST", TEXT, 0, 0, "unset = the client's context",             \
      "unix://path, or an absolute path", "docker",                                                \
      "Where the Engine listens; anything but a Unix socket of this machine is refused.")          \
    X(SANDBOX, docker_context, "DOCKER_CONTEXT", TEXT, 0, 0, "unset = currentContext",             \
      "name of a context", "docker", "The context of the Docker client that names the Engine.")    \
    X(SANDBOX, docker_config, "DOCKER_CONFIG", PATH, 0, 0, "$HOME/.docker", "path", "docker",      \
      "Folder of the Docker client's configuration: only contexts are read in it.")                \
    X(SANDBOX, home, "HOME", PATH, 0, 0, "unset", "path", "docker",                                \
      "Where .docker is looked for.")                                                              \
    X(SANDBOX, docker_platform, "DOCKER_DEFAULT_PLATFORM", TEXT, 0, 0, "unset = the Engine's own", \
      "os/arch", "docker", "The platform of every image and container.")                           \
    X(SANDBOX, tmpdir, "TMPDIR", PATH, 0, 0, "/tmp", "path", "docker",                             \
      "Where private sockets are made; the Engine must see it under the same path.")               \
    X(SANDBOX, min_isolation, "SANDBOX_MIN_ISOLATION", TIER, 0, 0, "none",                         \
      "process, container, kernel, vm", "all",                                                     \
      "Refuse to become ready when the provider's tier is below this.")                            \
    X(SANDBOX, max_concurrent, "SANDBOX_MAX_CONCURRENT", INT, 1, 1024, "8", "1-1024", "all",       \
      "Runs in flight at once; more are refused, never queued.")                                   \
    X(SANDBOX, per_key_concurrent, "SANDBOX_PER_KEY_CONCURRENT", INT, 0, 1024,                     \
      "half of the maximum, at least 1", "0-maximum; 0 = no cap", "daemon",                        \
      "Runs in flight of one caller.")                                                             \
    X(SANDBOX, rate_per_min, "SANDBOX_RATE_PER_MIN", INT, 0, INT32_MAX, "30",                      \
      "0-2147483647; 0 = no limit", "daemon", "Sustained starts a minute of one caller.")          \
    X(SANDBOX, rate_burst, "SANDBOX_RATE_BURST", INT, 0, INT32_MAX, "= rate",                      \
      "0-2147483647; 0 = rate", "daemon", "Starts of one caller at once.")                         \
    X(SANDBOX, total_memory_mb, "SANDBOX_TOTAL_MEMORY_MB", INT, 0, INT64_MAX, "0 = none", ">= 0",  \
      "all",                                                                                       \
      "Memory of all runs together in MiB: lowers the number of runs in flight to what fits.")     \
    X(DAEMON, log_text, "PLIMSOLL_LOG_FORMAT", WORD, 0, 0, "json", "text", "daemon",               \
      "`text` writes the log as key=value; every other value writes JSON.")                        \
    X(DAEMON, clients_file, "PLIMSOLL_CLIENTS_FILE", PATH, 0, 0, "unset", "path", "daemon",        \
      "The registry of callers (`plimsoll callers` edits it). Wins over PLIMSOLL_TOKEN.")          \
    X(DAEMON, token, "PLIMSOLL_TOKEN", SECRET, 32, 4096, "unset", "32-4096 bytes", "daemon",       \
      "One bearer token that all callers share: the caller `static`, scope code:run.")             \
    X(DAEMON, insecure, "PLIMSOLL_INSECURE", ACK, 0, 0, "unset", "exactly 1", "daemon",            \
      "Lets a provider run code without authentication. For development on one machine.")          \
    X(DAEMON, tls_cert, "PLIMSOLL_TLS_CERT", PATH, 0, 0, "unset", "path of a PEM file", "daemon",  \
      "Certificate chain: TLS on every listener. Goes with PLIMSOLL_TLS_KEY.")                     \
    X(DAEMON, tls_key, "PLIMSOLL_TLS_KEY", PATH, 0, 0, "unset", "path of a PEM file", "daemon",    \
      "The private key of PLIMSOLL_TLS_CERT.")                                                     \
    X(DAEMON, metrics_addr, "PLIMSOLL_METRICS_ADDR", ADDRESS_OR, 0, 0, "127.0.0.1:9464",           \
      "host:port, or off", "daemon", "Where /metrics is served, without authentication.")          \
    X(DAEMON, hardened, "PLIMSOLL_HARDENED", BOOL, 0, 0, "0", "0, 1", "daemon",                    \
      "Refuse to start unless every safeguard of production is set; docs/hardened-mode.md.")       \
    X(DAEMON, addr, "PLIMSOLL_ADDR", ADDRESS, 0, 0, ":8746", "host:port", "daemon",                \
      "Where the procedures, /healthz and /readyz are served.")                                    \
    X(TOOL, caller_token, "PLIMSOLL_CALLER_TOKEN", SECRET, 1, 4096, "unset", "1-4096 bytes",       \
      "plimsoll --daemon", "The token of the caller that the command line is to a daemon.")

typedef struct core_settings {
    char provider[32]; /* "" when unset */
    plim_tier min_isolation;
    int64_t memory_mb;
    double cpus;
    int64_t pids, disk_mb;
    bool wasm_fresh_process;
    char docker_image[256], docker_project_image[256], docker_module_image[256]; /* or "" */
    char docker_runtime[64], docker_seccomp[PATH_MAX];
    int64_t docker_pool;
    int64_t guest_uid; /* CORE_SETTING_UNSET when not given */
    bool require_pinned_images;
    char docker_host[PATH_MAX], docker_context[256], docker_config[PATH_MAX], home[PATH_MAX];
    char docker_platform[64], tmpdir[PATH_MAX];
    int64_t max_concurrent;
    int64_t per_key_concurrent; /* CORE_SETTING_UNSET when not given */
    int64_t rate_per_min;       /* CORE_SETTING_UNSET when not given */
    int64_t rate_burst;
    int64_t total_memory_mb;
} core_settings;

enum { CORE_SETTING_UNSET = -1 };

typedef enum {
    CORE_ACK_ABSENT, /* unset or blank */
    CORE_ACK_OTHER,  /* some other value */
    CORE_ACK_GIVEN   /* exactly `1` */
} core_acknowledgement;

/* An address is at most a DNS name, a colon and a port. */
enum { CORE_ADDRESS_MAX = 264, CORE_SECRET_MAX = 4096 };

/* What the daemon reads beyond that. Text is "" when unset. The token is a secret: wipe it. */
typedef struct core_daemon_settings {
    bool log_text, hardened;
    core_acknowledgement insecure;
    char addr[CORE_ADDRESS_MAX];
    char metrics_addr[CORE_ADDRESS_MAX]; /* "off" for none */
    char clients_file[PATH_MAX], tls_cert[PATH_MAX], tls_key[PATH_MAX];
    char token[CORE_SECRET_MAX + 1];
} core_daemon_settings;

/* What the command line reads when it is a daemon's caller. A secret: wipe it. */
typedef struct core_tool_settings {
    char caller_token[CORE_SECRET_MAX + 1];
} core_tool_settings;

typedef struct core_setting {
    const char *name;
    core_setting_scope scope;
    core_setting_kind kind;
    int64_t least, most; /* of an integer, or of a secret's length */
    size_t offset, size; /* of its member in the struct of its scope */
    const char *default_text, *range_text, *honoured_by, *help;
} core_setting;

/* The table and its length. */
extern const core_setting core_setting_table[];
extern const size_t core_setting_count;

/* The row of a variable; NULL when there is none such. */
const core_setting *core_setting_find(plim_bytes name);

/* Looks a variable up by name; no bytes (data NULL) when it is not set. */
typedef plim_bytes core_lookup(void *ctx, const char *name);

/* Reads the process environment; `ctx` is not used. */
plim_bytes core_lookup_environment(void *ctx, const char *name);

/*
 * A value as a message may show it: its first bytes, anything but plain ASCII replaced. Writes at
 * most `size` bytes, terminator included, to `out`, and returns it.
 */
const char *core_settings_shown(plim_bytes value, char *out, size_t size);

/* Read every setting of a provider through `lookup`. Errors: PLIM_E_INVALID_OPTION naming the
 * variable and what is wrong, never a secret. */
bool core_settings_read(core_lookup *lookup, void *ctx, core_settings *out, plim_error *err);

/* Read every setting that only the daemon has; `log_text` is set even when another row is at
 * fault. Errors as above. */
bool core_daemon_settings_read(core_lookup *lookup, void *ctx, core_daemon_settings *out,
                               plim_error *err);

/* The same for the command line. */
bool core_tool_settings_read(core_lookup *lookup, void *ctx, core_tool_settings *out,
                             plim_error *err);

/* The reference that `plimsolld -h` prints: every variable that the daemon reads. */
void core_settings_help(base_buf *out);

#endif
