/* Limits of lists while decoding: a message of 8 MiB can hold millions of tiny elements, so a list
 * is given up as soon as it passes what the validator would accept anyway. */
#include "wire/internal.h"

enum { LANGUAGES_MAX = 16 };

static const struct list_limit {
    const wire_type *type;
    uint32_t number;
    uint32_t most;
} list_limits[] = {
    {WIRE_TYPE(module_run), 2, PLIM_MODULE_ROWS_MAX},
    {WIRE_TYPE(module_row), 1, PLIM_MODULE_ROW_VALUES_MAX},
    {WIRE_TYPE(project_run), 1, PLIM_FILES_MAX},
    {WIRE_TYPE(project_run), 2, PLIM_STEPS_MAX},
    {WIRE_TYPE(project_run), 4, PLIM_ARTIFACTS_MAX},
    {WIRE_TYPE(cell_run), 3, PLIM_FILES_MAX},
    {WIRE_TYPE(software_rule), 2, PLIM_SOFTWARE_IDENTITIES_MAX},
    {WIRE_TYPE(open_session_request), 7, LANGUAGES_MAX},
};

size_t wire_list_max(const wire_type *type, const wire_field *field)
{
    for (size_t i = 0; i < PLIM_COUNT(list_limits); i++)
        if (list_limits[i].type == type && list_limits[i].number == field->id)
            return list_limits[i].most;
    return SIZE_MAX;
}

bool wire_list_refused(const wire_field *field, size_t most, plim_error *err)
{
    return core_refuse_request(err, "there are more than %zu %s", most, field->name);
}
