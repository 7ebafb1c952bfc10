/*
 * `plimsoll callers`: makes, lists and retires the callers of a daemon in a registry file. Works
 * offline and stores only fingerprints; a token leaves on stdout and nowhere else.
 */
#include "cli/callers_options.h"
#include "cli/cli.h"

/* A run reserves its timeout and 33 s to remove its machine, so less than a minute admits next to
 * nothing. */
enum { ALLOWANCE_USEFUL_S = 60 };

enum { TOKEN_RANDOM_BYTES = 32, TOKEN_BYTES_MIN = 32, TOKEN_BYTES_MAX = 4096 };

/* A token on its way from stdin or the random source to its fingerprint; wiped when done. */
struct token {
    char bytes[TOKEN_BYTES_MAX + 3]; /* and CR, LF, and one that proves there is too much */
    size_t len;
    char fingerprint[BASE_SHA256_HEX + 1];
};

static void token_wipe(struct token *token)
{
    base_wipe(token, sizeof(*token));
}

/* What a command changes, for the registry_change functions. */
struct change {
    const struct callers_options *options;
    const char *fingerprint;
};

#define refuse(err, ...)                                                                           \
    plim_refuse((err), PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,         \
                __VA_ARGS__)

/* ---- tokens ---- */

static bool fingerprint_token(struct token *token, plim_error *err)
{
    return base_sha256_hex_of((plim_bytes){token->bytes, token->len}, token->fingerprint) ||
           plim_fail(err, PLIM_E_IO, PLIM_CODE_INTERNAL, "cannot compute a SHA-256");
}

static bool make_token(struct token *token, plim_error *err)
{
    unsigned char random[TOKEN_RANDOM_BYTES];
    if (!base_random(random, sizeof(random)))
        return plim_fail(err, PLIM_E_IO, PLIM_CODE_INTERNAL, "the system gives no random bytes");
    base_hex(random, sizeof(random), token->bytes);
    token->len = 2 * sizeof(random);
    base_wipe(random, sizeof(random));
    return fingerprint_token(token, err);
}

static bool read_stdin(struct token *token, plim_error *err)
{
    while (token->len < sizeof(token->bytes)) {
        ssize_t count =
            read(STDIN_FILENO, token->bytes + token->len, sizeof(token->bytes) - token->len);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse(err, "cannot read the token from stdin: %s", base_errno_text(errno));
        if (count == 0)
            return true;
        token->len += (size_t)count;
    }
    return true;
}

static bool read_token(struct token *token, plim_error *err)
{
    if (!read_stdin(token, err))
        return false;
    if (token->len && token->bytes[token->len - 1] == '\n')
        token->len--;
    if (token->len && token->bytes[token->len - 1] == '\r')
        token->len--;
    if (token->len < TOKEN_BYTES_MIN || token->len > TOKEN_BYTES_MAX)
        return refuse(err, "the token on stdin must be %d to %d bytes long", TOKEN_BYTES_MIN,
                      TOKEN_BYTES_MAX);
    for (size_t i = 0; i < token->len; i++)
        if (token->bytes[i] < 0x21 || token->bytes[i] > 0x7E)
            return refuse(err, "the token on stdin must be visible ASCII characters in one line");
    return fingerprint_token(token, err);
}

/* ---- what each command does to the registry ---- */

static registry_caller *find_caller(const registry *reg, const struct callers_options *options,
                                    plim_error *err)
{
    registry_caller *found = registry_find(reg, options->id);
    if (!found)
        refuse(err, "there is no caller \"%.*s\" in %s", (int)options->id.len, options->id.data,
               options->file);
    return found;
}

static bool change_add(registry *reg, void *ctx, plim_error *err)
{
    static const plim_bytes default_scope = {"code:run", 8};
    const struct change *change = ctx;
    const struct callers_options *options = change->options;
    registry_caller caller = {
        .id = options->id,
        .scopes = options->scope_count ? options->scopes : &default_scope,
        .scope_count = options->scope_count ? options->scope_count : 1,
        .paid_seconds_per_day = options->paid_seconds,
    };
    memcpy(caller.fingerprint, change->fingerprint, sizeof(caller.fingerprint));
    if (registry_find(reg, options->id))
        return refuse(err, "the caller \"%.*s\" exists already; `rotate` gives it a new token",
                      (int)options->id.len, options->id.data);
    return registry_add(reg, &caller, err);
}

static bool change_fingerprint(registry *reg, void *ctx, plim_error *err)
{
    const struct change *change = ctx;
    registry_caller *caller = find_caller(reg, change->options, err);
    if (!caller)
        return false;
    if (strcmp(caller->fingerprint, change->fingerprint) == 0)
        return refuse(err, "that is the token the caller already has");
    memcpy(caller->fingerprint, change->fingerprint, sizeof(caller->fingerprint));
    return true;
}

static bool change_allowance(registry *reg, void *ctx, plim_error *err)
{
    const struct change *change = ctx;
    registry_caller *caller = find_caller(reg, change->options, err);
    if (!caller)
        return false;
    caller->paid_seconds_per_day = change->options->paid_seconds;
    return true;
}

static bool change_remove(registry *reg, void *ctx, plim_error *err)
{
    const struct change *change = ctx;
    registry_caller *caller = find_caller(reg, change->options, err);
    if (!caller)
        return false;
    registry_remove(reg, caller);
    return true;
}

/* ---- what is said ---- */

static void say_saved(const struct callers_options *options, const char *what, size_t left)
{
    fprintf(stderr, "%s: caller \"%.*s\" %s\n", options->file, (int)options->id.len,
            options->id.data, what);
    if (left)
        fprintf(stderr, "Running daemons are unaffected until they are restarted with the new "
                        "file.\n");
    else
        fprintf(stderr, "No caller is left: a daemon refuses this file, and running daemons must "
                        "be stopped to shut the last caller out.\n");
    fprintf(stderr, "Work that a daemon has accepted continues.\n");
}

static void warn_small_allowance(const struct callers_options *options)
{
    if (options->paid_seconds > 0 && options->paid_seconds < ALLOWANCE_USEFUL_S)
        fprintf(stderr,
                "warning: few or no runs fit into %" PRId64 " paid seconds a day: each reserves "
                "its timeout and 33 s\n",
                options->paid_seconds);
}

/* The fingerprint is stored by now, so a token that cannot be handed over must be replaced. */
static bool hand_over(const struct token *token, plim_error *err)
{
    char line[TOKEN_BYTES_MAX + 1];
    memcpy(line, token->bytes, token->len);
    line[token->len] = '\n';
    bool written = base_write_all(STDOUT_FILENO, (plim_bytes){line, token->len + 1});
    int why = errno;
    base_wipe(line, sizeof(line));
    return written || plim_fail(err, PLIM_E_IO, PLIM_CODE_INTERNAL,
                                "the caller is saved, but its token could not be written to "
                                "stdout (%s): nobody has it, so `rotate` the caller",
                                base_errno_text(why));
}

/* ---- commands ---- */

static bool add_caller(const struct callers_options *options, const struct token *token,
                       plim_error *err)
{
    struct change change = {options, token->fingerprint};
    size_t left;
    if (!registry_edit(options->file, true, change_add, &change, &left, err))
        return false;
    say_saved(options, "added", left);
    warn_small_allowance(options);
    return true;
}

static bool run_create(const struct callers_options *options, plim_error *err)
{
    _cleanup_(token_wipe)
    struct token token = {.len = 0};
    if (!(options->given & CALLERS_TOKEN_STDOUT) || !options->token_stdout)
        return refuse(err, "create prints the only copy of the token: say so with --token-stdout");
    return make_token(&token, err) && add_caller(options, &token, err) && hand_over(&token, err);
}

static bool run_import(const struct callers_options *options, plim_error *err)
{
    _cleanup_(token_wipe)
    struct token token = {.len = 0};
    return read_token(&token, err) && add_caller(options, &token, err);
}

static bool run_rotate(const struct callers_options *options, plim_error *err)
{
    _cleanup_(token_wipe)
    struct token token = {.len = 0};
    struct change change = {options, token.fingerprint};
    size_t left;
    if (options->token_stdout == options->token_stdin)
        return refuse(err, "rotate takes exactly one of --token-stdout and --token-stdin");
    if (!(options->token_stdin ? read_token(&token, err) : make_token(&token, err)) ||
        !registry_edit(options->file, false, change_fingerprint, &change, &left, err))
        return false;
    say_saved(options, "has a new token", left);
    return !options->token_stdout || hand_over(&token, err);
}

static bool run_limit(const struct callers_options *options, plim_error *err)
{
    struct change change = {options, NULL};
    size_t left;
    if (!registry_edit(options->file, false, change_allowance, &change, &left, err))
        return false;
    say_saved(options, options->paid_seconds ? "has a new allowance" : "has no allowance any more",
              left);
    fprintf(stderr, "A restart also gives every caller a fresh day.\n");
    warn_small_allowance(options);
    return true;
}

static bool run_revoke(const struct callers_options *options, plim_error *err)
{
    struct change change = {options, NULL};
    size_t left;
    if (!registry_edit(options->file, false, change_remove, &change, &left, err))
        return false;
    say_saved(options, "removed", left);
    return true;
}

static bool run_list(const struct callers_options *options, plim_error *err)
{
    _cleanup_(registry_freep)
    registry *reg = NULL;
    _cleanup_buf_ base_buf text = BASE_BUF_INIT((size_t)2 * REGISTRY_BYTES_MAX);
    if (!registry_load_plain(options->file, &reg, err))
        return false;
    if (!callers_list(reg, options->json, &text))
        return plim_refuse_nomem(err);
    return base_write_all(STDOUT_FILENO, base_buf_bytes(&text)) ||
           plim_fail(err, PLIM_E_IO, PLIM_CODE_INTERNAL, "cannot write the list: %s",
                     base_errno_text(errno));
}

static bool (*const run_command[])(const struct callers_options *, plim_error *) = {
#define X(name, ...) run_##name,
    CALLERS_COMMANDS(X)
#undef X
};

static int print_usage(int fd)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(16384);
    callers_usage(&text);
    return !text.failed && base_write_all(fd, base_buf_bytes(&text)) ? 0 : 1;
}

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "help") == 0 || strcmp(argument, "-h") == 0 ||
           strcmp(argument, "--help") == 0;
}

int cli_callers(int argc, char **argv)
{
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    struct callers_options options;
    if (argc < 2 || asks_for_help(argv[1]))
        return print_usage(STDOUT_FILENO);
    bool parsed = callers_parse(argc - 1, argv + 1, &options, &err);
    if (parsed && options.help)
        return print_usage(STDERR_FILENO);
    if (parsed && run_command[options.command](&options, &err))
        return 0;
    fprintf(stderr, "plimsoll callers: %s\n", plim_error_message(&err));
    return 1;
}
