#include "cli/callers_options.h"

#define refuse(err, ...)                                                                           \
    plim_refuse((err), PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,         \
                __VA_ARGS__)

static const struct flag {
    const char *name, *form, *help;
} flags[] = {
#define X(bit, name, form, help) {name, form, help},
    CALLERS_FLAGS(X)
#undef X
};

static const struct command {
    const char *name;
    unsigned allowed, required;
    const char *help;
} commands[] = {
#define X(name, allowed, required, help) {#name, allowed, required, help},
    CALLERS_COMMANDS(X)
#undef X
};

static bool is_switch(size_t flag)
{
    return flags[flag].form[0] == '\0';
}

/* ---- one flag ---- */

static bool read_paid(const char *value, struct callers_options *out, plim_error *err)
{
    if (base_parse_int(plim_bytes_of(value), &out->paid_seconds) && out->paid_seconds >= 0)
        return true;
    return refuse(err, "--paid-seconds-per-day must be a whole number of 0 or more");
}

/* The registry is JSON, which has no other text. */
static bool check_utf8(size_t flag, plim_bytes value, plim_error *err)
{
    return base_utf8_valid(value) || refuse(err, "--%s is not valid UTF-8", flags[flag].name);
}

static bool add_scope(const char *value, struct callers_options *out, plim_error *err)
{
    if (out->scope_count == CALLERS_SCOPES_MAX)
        return refuse(err, "more than %d --scope flags", CALLERS_SCOPES_MAX);
    out->scopes[out->scope_count++] = plim_bytes_of(value);
    return true;
}

static bool store_switch(size_t flag, const char *value, struct callers_options *out,
                         plim_error *err)
{
    bool on = !value || strcmp(value, "true") == 0;
    if (!on && strcmp(value, "false") != 0)
        return refuse(err, "--%s takes true or false", flags[flag].name);
    switch (flag) {
    case CALLERS_INDEX_TOKEN_STDOUT:
        out->token_stdout = on;
        break;
    case CALLERS_INDEX_TOKEN_STDIN:
        out->token_stdin = on;
        break;
    case CALLERS_INDEX_JSON:
        out->json = on;
        break;
    }
    return true;
}

static bool store_text(size_t flag, const char *value, struct callers_options *out, plim_error *err)
{
    switch (flag) {
    case CALLERS_INDEX_FILE:
        out->file = value;
        return value[0] || refuse(err, "--file is empty");
    case CALLERS_INDEX_ID:
        out->id = registry_trim(plim_bytes_of(value));
        return (out->id.len || refuse(err, "--id is empty")) && check_utf8(flag, out->id, err);
    case CALLERS_INDEX_SCOPE:
        return check_utf8(flag, plim_bytes_of(value), err) && add_scope(value, out, err);
    case CALLERS_INDEX_PAID:
        return read_paid(value, out, err);
    }
    return false;
}

/* The flag that `name` (up to '=' or its end) names; CALLERS_FLAG_COUNT for none. */
static size_t find_flag(plim_bytes name)
{
    size_t flag = 0;
    while (flag < CALLERS_FLAG_COUNT && !base_bytes_is(name, flags[flag].name))
        flag++;
    return flag;
}

/* Read the flag at argv[*at] and its value, and move past them. */
static bool read_flag(int argc, char **argv, int *at, struct callers_options *out, plim_error *err)
{
    const struct command *command = &commands[out->command];
    const char *argument = argv[(*at)++];
    if (argument[0] != '-' || argument[1] == '\0')
        return refuse(err, "%s takes no argument but flags; a token is never an argument",
                      command->name);
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0)
        return out->help = true;
    size_t flag = find_flag((plim_bytes){name, length});
    if (flag == CALLERS_FLAG_COUNT || !(command->allowed & 1u << flag))
        return refuse(err, "%s has no flag \"%.*s\"; a token is never an argument", command->name,
                      (int)(name - argument + (ptrdiff_t)length), argument);
    if ((out->given & 1u << flag) && flag != CALLERS_INDEX_SCOPE)
        return refuse(err, "--%s is given twice", flags[flag].name);
    out->given |= 1u << flag;
    const char *value = equals ? equals + 1 : NULL;
    if (is_switch(flag))
        return store_switch(flag, value, out, err);
    if (!value && *at < argc)
        value = argv[(*at)++];
    if (!value)
        return refuse(err, "--%s needs a value", flags[flag].name);
    return store_text(flag, value, out, err);
}

/* ---- the command line ---- */

static bool find_command(const char *name, struct callers_options *out, plim_error *err)
{
    for (size_t i = 0; i < PLIM_COUNT(commands); i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        out->command = (callers_command)i;
        return true;
    }
    return refuse(err,
                  "there is no command \"%s\"; `plimsoll callers help` lists them (a token is "
                  "never an argument)",
                  name);
}

static bool check_required(const struct callers_options *options, plim_error *err)
{
    unsigned missing = commands[options->command].required & ~options->given;
    for (size_t flag = 0; flag < CALLERS_FLAG_COUNT; flag++)
        if (missing & 1u << flag)
            return refuse(err, "%s needs --%s %s", commands[options->command].name,
                          flags[flag].name, flags[flag].form);
    return true;
}

bool callers_parse(int argc, char **argv, struct callers_options *out, plim_error *err)
{
    *out = (struct callers_options){0};
    if (!find_command(argv[0], out, err))
        return false;
    for (int at = 1; at < argc && !out->help;)
        if (!read_flag(argc, argv, &at, out, err))
            return false;
    return out->help || check_required(out, err);
}

void callers_usage(base_buf *out)
{
    base_buf_add_text(out, "usage: plimsoll callers COMMAND --file PATH [FLAGS]\n\n"
                           "Edits the registry of a daemon's callers. A daemon reads the file when "
                           "it starts, so a\nchange holds from its next start. The file keeps "
                           "fingerprints, never tokens, and a token is\nnever an argument.\n\n"
                           "commands:\n");
    for (size_t i = 0; i < PLIM_COUNT(commands); i++) {
        base_buf_printf(out, "  %-7s %s\n         ", commands[i].name, commands[i].help);
        for (size_t flag = 0; flag < CALLERS_FLAG_COUNT; flag++) {
            unsigned bit = 1u << flag;
            if (!(commands[i].allowed & bit))
                continue;
            bool optional = !(commands[i].required & bit);
            base_buf_printf(out, optional ? " [--%s%s%s]" : " --%s%s%s", flags[flag].name,
                            is_switch(flag) ? "" : " ", flags[flag].form);
        }
        base_buf_add_text(out, "\n");
    }
    base_buf_add_text(out, "\nflags (--name value or --name=value; one dash will do):\n");
    for (size_t flag = 0; flag < CALLERS_FLAG_COUNT; flag++)
        base_buf_printf(out, "  --%s%s%s\n        %s\n", flags[flag].name,
                        is_switch(flag) ? "" : " ", flags[flag].form, flags[flag].help);
}
