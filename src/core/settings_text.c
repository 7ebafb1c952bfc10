#include "core/core.h"

/* Where the columns of the reference start, and how wide it is. */
enum { HELP_INDENT = 34, HELP_WIDTH = 100 };

/* Words of `text` from column `indent` on, broken before HELP_WIDTH. */
static void add_wrapped(base_buf *out, const char *text, size_t column)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column + 1 + word > HELP_WIDTH) {
            base_buf_printf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            base_buf_add_byte(out, ' ');
            column++;
        }
        base_buf_add(out, (plim_bytes){text, word});
        column += word;
        text += word + (text[word] == ' ');
    }
    base_buf_add_byte(out, '\n');
}

void core_settings_help(base_buf *out)
{
    for (size_t i = 0; i < core_setting_count; i++) {
        const core_setting *setting = &core_setting_table[i];
        if (setting->scope == CORE_SCOPE_TOOL)
            continue;
        base_buf_printf(out, "  %-*s", HELP_INDENT - 2, setting->name);
        add_wrapped(out, setting->help, HELP_INDENT);
        base_buf facts = BASE_BUF_INIT(1024);
        base_buf_printf(&facts, "Default: %s. Values: %s. Honoured by: %s.", setting->default_text,
                        setting->range_text, setting->honoured_by);
        base_buf_printf(out, "%*s", HELP_INDENT, "");
        add_wrapped(out, base_buf_text(&facts), HELP_INDENT);
        base_buf_free(&facts);
    }
    base_buf_add_text(out, "\nOf what this version does not have; a value stops the start:\n\n");
    for (size_t i = 0; i < core_absent_count; i++) {
        const core_absent *absent = &core_absent_table[i];
        base_buf_printf(out, "  %-*sNo %s. Values: unset%s.\n", HELP_INDENT - 2, absent->name,
                        absent->capability, absent->zero_is_unset ? ", or 0" : "");
    }
}
