#include "core/core.h"

const core_absent core_absent_table[] = {
#define X(scope, name, zero_is_unset, capability)                                                  \
    {name, CORE_SCOPE_##scope, zero_is_unset, capability},
    CORE_ABSENT(X)
#undef X
};

const size_t core_absent_count = PLIM_COUNT(core_absent_table);

const core_absent *core_absent_find(plim_bytes name)
{
    for (size_t i = 0; i < core_absent_count; i++)
        if (base_bytes_is(name, core_absent_table[i].name))
            return &core_absent_table[i];
    return NULL;
}

static bool is_unset(const core_absent *absent, plim_bytes value)
{
    int64_t number;
    value = base_trim(value);
    return value.len == 0 ||
           (absent->zero_is_unset && base_parse_int(value, &number) && number == 0);
}

bool core_absent_check(core_setting_scope scope, core_lookup *lookup, void *ctx, plim_error *err)
{
    for (size_t i = 0; i < core_absent_count; i++) {
        const core_absent *absent = &core_absent_table[i];
        if (absent->scope == scope && !is_unset(absent, lookup(ctx, absent->name)))
            return core_refuse_configuration(err, "%s is set, but this version has no %s: unset it",
                                             absent->name, absent->capability);
    }
    return true;
}
