#include "cli/flags.h"

#define refuse(err, ...)                                                                           \
    plim_refuse((err), PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,         \
                __VA_ARGS__)

const cli_flag cli_flag_table[CLI_FLAG_COUNT] = {
#define X(bit, name, kind, member, form, help)                                                     \
    {name, CLI_KIND_##kind, offsetof(cli_options, member), form, help},
    CLI_FLAGS(X)
#undef X
};

const char *cli_flag_dashes(const cli_flag *flag)
{
    return flag->name[1] ? "--" : "-";
}

/* ---- values ---- */

/* Part of a millisecond counts as a whole one: a budget that was asked for is never turned into
 * "none asked". */
static bool read_duration(const cli_flag *flag, const char *value, int64_t *out_ms, plim_error *err)
{
    int64_t ns;
    if (!base_parse_duration_ns(plim_bytes_of(value), &ns))
        return refuse(err,
                      "--%s \"%s\" is not a duration such as 250ms, 5s or 1m30s, of 0 or more and "
                      "less than 292 years",
                      flag->name, value);
    *out_ms = ns / BASE_NS_PER_MS + (ns % BASE_NS_PER_MS != 0);
    return true;
}

static bool read_switch(const cli_flag *flag, const char *value, bool *out, plim_error *err)
{
    *out = !value || strcmp(value, "true") == 0;
    return *out || strcmp(value, "false") == 0 ||
           refuse(err, "--%s takes true or false, not \"%s\"", flag->name, value);
}

static bool add_to_list(const cli_flag *flag, const char *value, cli_list *list, plim_error *err)
{
    if (list->count == CLI_LIST_MAX)
        return refuse(err, "--%s is given more than %d times", flag->name, CLI_LIST_MAX);
    list->items[list->count++] = plim_bytes_of(value);
    return true;
}

static bool store(const cli_flag *flag, const char *value, cli_options *out, plim_error *err)
{
    void *member = (char *)out + flag->offset;
    switch (flag->kind) {
    case CLI_KIND_TEXT:
        *(const char **)member = value;
        return true;
    case CLI_KIND_SWITCH:
        return read_switch(flag, value, member, err);
    case CLI_KIND_LIST:
        return add_to_list(flag, value, member, err);
    case CLI_KIND_DURATION:
        return read_duration(flag, value, member, err);
    }
    return false;
}

/* ---- flags ---- */

/* The flag of a name; CLI_FLAG_COUNT for none. */
static size_t find_flag(plim_bytes name)
{
    size_t flag = 0;
    while (flag < CLI_FLAG_COUNT && !base_bytes_is(name, cli_flag_table[flag].name))
        flag++;
    return flag;
}

/* Read the flag at argv[*at] and its value, and move past them. */
static bool read_flag(int argc, char **argv, int *at, unsigned allowed, cli_options *out,
                      plim_error *err)
{
    const char *argument = argv[(*at)++];
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    size_t index = find_flag((plim_bytes){name, length});
    if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0)
        return out->help = true;
    if (index == CLI_FLAG_COUNT || !(allowed & 1u << index))
        return refuse(err, "there is no flag \"%.*s\"", (int)(name - argument) + (int)length,
                      argument);
    const cli_flag *flag = &cli_flag_table[index];
    if ((out->given & 1u << index) && flag->kind != CLI_KIND_LIST)
        return refuse(err, "%s%s is given twice", cli_flag_dashes(flag), flag->name);
    out->given |= 1u << index;
    const char *value = equals ? equals + 1 : NULL;
    if (!value && flag->kind != CLI_KIND_SWITCH) {
        if (*at == argc)
            return refuse(err, "%s%s needs a value: %s", cli_flag_dashes(flag), flag->name,
                          flag->form);
        value = argv[(*at)++];
    }
    return store(flag, value, out, err);
}

static bool take_operand(char *argument, int operands, cli_options *out, plim_error *err)
{
    if (operands == 0 || out->operand)
        return refuse(err, "\"%s\" is one argument too many", argument);
    out->operand = argument;
    return true;
}

bool cli_flags_parse(int argc, char **argv, unsigned allowed, int operands, cli_options *out,
                     plim_error *err)
{
    bool flags_ended = false;
    *out = (cli_options){0};
    for (int at = 1; at < argc && !out->help;) {
        bool is_flag = !flags_ended && argv[at][0] == '-' && argv[at][1] != '\0';
        if (is_flag && strcmp(argv[at], "--") == 0) {
            flags_ended = true;
            at++;
        } else if (is_flag) {
            if (!read_flag(argc, argv, &at, allowed, out, err))
                return false;
        } else if (!take_operand(argv[at++], operands, out, err)) {
            return false;
        }
    }
    return true;
}
