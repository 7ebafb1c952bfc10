/* Usage and documents, all from the tables. */
#include "cli/cli.h"

#include "cli/output.h"

#define PRODUCT "runs untrusted code in sandboxes and says how strong the sandbox was"

/* ---- for a terminal ---- */

/* Append `text` in lines of at most `width` bytes, each after `indent` spaces. */
static void add_wrapped(base_buf *out, const char *text, int indent, size_t width)
{
    plim_bytes rest = plim_bytes_of(text);
    while (rest.len) {
        size_t cut = rest.len;
        if (cut > width) {
            cut = width;
            while (cut > 0 && rest.data[cut] != ' ')
                cut--;
            if (cut == 0)
                cut = width;
        }
        base_buf_printf(out, "%*s%.*s\n", indent, "", (int)cut, rest.data);
        while (cut < rest.len && rest.data[cut] == ' ')
            cut++;
        rest = (plim_bytes){rest.data + cut, rest.len - cut};
    }
}

void cli_usage(base_buf *out)
{
    base_buf_add_text(out, "usage: plimsoll VERB [ARGUMENTS]\n\n"
                           "plimsoll " PRODUCT ".\n\nverbs:\n");
    for (size_t i = 0; i < cli_verb_count; i++)
        base_buf_printf(out, "  %-9s %s\n", cli_verb_table[i].name, cli_verb_table[i].summary);
    base_buf_add_text(out, "\nplimsoll VERB --help shows a verb's flags; plimsoll --version prints "
                           "the version.\n");
}

static void add_exits(base_buf *out)
{
    base_buf_add_text(out, "\nexit status:\n");
#define X(name, number, meaning) base_buf_printf(out, "  %3d  %s\n", number, meaning);
    CLI_EXITS(X)
    base_buf_add_text(out, "with --pass-exit the guest's exit code, or:\n");
    CLI_PASSED_EXITS(X)
#undef X
}

void cli_verb_usage(const cli_verb *verb, base_buf *out)
{
    base_buf_printf(out, "usage: plimsoll %s%s%s%s\n\n%s\n", verb->name,
                    verb->flags ? " [FLAGS]" : "", verb->arguments[0] ? " " : "", verb->arguments,
                    verb->summary);
    if (verb->detail[0])
        base_buf_add_text(out, "\n");
    add_wrapped(out, verb->detail, 0, 88);
    if (verb->flags)
        base_buf_add_text(out, "\nflags (--name value or --name=value; one dash will do):\n");
    for (size_t i = 0; i < CLI_FLAG_COUNT; i++) {
        const cli_flag *flag = &cli_flag_table[i];
        if (!(verb->flags & 1u << i))
            continue;
        base_buf_printf(out, "  %s%s%s%s\n", cli_flag_dashes(flag), flag->name,
                        flag->form[0] ? " " : "", flag->form);
        add_wrapped(out, flag->help, 8, 80);
    }
    if (verb->flags & CLI_PASS_EXIT)
        add_exits(out);
}

/* ---- Markdown ---- */

/* A cell of a table: '|' would end it. */
static void add_cell(base_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            base_buf_add_byte(out, '\\');
        base_buf_add_byte(out, *text);
    }
}

static void add_verb_markdown(const cli_verb *verb, base_buf *out)
{
    base_buf_printf(out, "\n### `plimsoll %s%s%s%s`\n\n", verb->name, verb->flags ? " [FLAGS]" : "",
                    verb->arguments[0] ? " " : "", verb->arguments);
    base_buf_printf(out, "%c%s.%s%s\n", verb->summary[0] - ('a' - 'A'), verb->summary + 1,
                    verb->detail[0] ? " " : "", verb->detail);
    if (verb->flags)
        base_buf_add_text(out, "\n| Flag | Meaning |\n|---|---|\n");
    for (size_t i = 0; i < CLI_FLAG_COUNT; i++) {
        const cli_flag *flag = &cli_flag_table[i];
        if (!(verb->flags & 1u << i))
            continue;
        base_buf_printf(out, "| `%s%s%s%s` | ", cli_flag_dashes(flag), flag->name,
                        flag->form[0] ? " " : "", flag->form);
        add_cell(out, flag->help);
        base_buf_add_text(out, " |\n");
    }
}

static void add_verbs_markdown(base_buf *out)
{
    base_buf_add_text(out, "| Verb | Does |\n|---|---|\n");
    for (size_t i = 0; i < cli_verb_count; i++)
        base_buf_printf(out, "| `%s` | %s |\n", cli_verb_table[i].name, cli_verb_table[i].summary);
    for (size_t i = 0; i < cli_verb_count; i++)
        add_verb_markdown(&cli_verb_table[i], out);
    base_buf_add_text(out, "\n### Exit status of `run` and `describe`\n\n"
                           "| Status | Meaning |\n|---|---|\n");
#define X(name, number, meaning) base_buf_printf(out, "| %d | %s |\n", number, meaning);
    CLI_EXITS(X)
    base_buf_add_text(out, "\nWith `--pass-exit`, `run` exits with the guest's exit code, or:\n\n"
                           "| Status | Meaning |\n|---|---|\n");
    CLI_PASSED_EXITS(X)
#undef X
}

/* The variables of one capability of which 0 counts as unset, or those where it does not. */
static void add_absent_cell(base_buf *out, const char *capability, bool zero_is_unset)
{
    const char *separator = " | ";
    for (size_t i = 0; i < core_absent_count; i++) {
        const core_absent *absent = &core_absent_table[i];
        if (strcmp(absent->capability, capability) != 0 || absent->zero_is_unset != zero_is_unset)
            continue;
        base_buf_printf(out, "%s`%s`", separator, absent->name);
        separator = ", ";
    }
    if (separator[0] == ' ')
        base_buf_add_text(out, " |");
}

static void add_absent_markdown(base_buf *out)
{
    base_buf_add_text(out,
                      "\nA variable of what this version does not have stops the start when it "
                      "has a value.\n\n"
                      "| This version has no | Must be unset | Must be unset or 0 |\n"
                      "|---|---|---|\n");
    for (size_t i = 0; i < core_absent_count; i++) {
        const char *capability = core_absent_table[i].capability;
        if (i > 0 && strcmp(core_absent_table[i - 1].capability, capability) == 0)
            continue;
        base_buf_printf(out, "| %s", capability);
        add_absent_cell(out, capability, false);
        add_absent_cell(out, capability, true);
        base_buf_add_text(out, " |\n");
    }
}

static void add_settings_markdown(base_buf *out)
{
    base_buf_add_text(out, "| Variable | Default | Range | Honoured by | Meaning |\n"
                           "|---|---|---|---|---|\n");
    for (size_t i = 0; i < core_setting_count; i++) {
        const core_setting *setting = &core_setting_table[i];
        const char *const cells[] = {setting->default_text, setting->range_text,
                                     setting->honoured_by, setting->help};
        base_buf_printf(out, "| `%s`", setting->name);
        for (size_t cell = 0; cell < PLIM_COUNT(cells); cell++) {
            base_buf_add_text(out, " | ");
            add_cell(out, cells[cell]);
        }
        base_buf_add_text(out, " |\n");
    }
    add_absent_markdown(out);
}

/* ---- the verb ---- */

int cli_help(int argc, char **argv)
{
    cli_options options;
    int status;
    if (!cli_begin(argc, argv, &options, &status))
        return status;
    const cli_verb *verb = options.operand ? cli_verb_find(options.operand) : NULL;
    if (options.operand && !verb)
        return cli_usage_error("help", "there is no verb \"%s\"", options.operand);
    if (verb && !verb->flags) /* it reads its own arguments, so it knows what they are */
        return verb->main(2, (char *[]){options.operand, (char[]){"help"}, NULL});
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(65536);
    if (options.markdown)
        add_verbs_markdown(&text);
    else if (options.settings_markdown)
        add_settings_markdown(&text);
    else if (verb)
        cli_verb_usage(verb, &text);
    else
        cli_usage(&text);
    return cli_print(&text);
}
