#include "providers/providers.h"

#include "providers/disabled/disabled.h"
#include "providers/wasm/wasm.h"

const core_provider_ops *const providers_table[] = {&disabled_provider_ops, &wasm_provider_ops,
                                                    NULL};

const core_provider_ops *providers_find(const core_settings *settings, plim_error *err)
{
    if (settings->provider[0] == '\0')
        return &disabled_provider_ops;
    base_buf names = BASE_BUF_INIT(256);
    for (size_t i = 0; providers_table[i]; i++) {
        if (strcmp(settings->provider, providers_table[i]->name) == 0) {
            base_buf_free(&names);
            return providers_table[i];
        }
        base_buf_printf(&names, "%s%s", i ? ", " : "", providers_table[i]->name);
    }
    char shown[sizeof(settings->provider)];
    core_settings_shown(plim_bytes_of(settings->provider), shown, sizeof(shown));
    core_refuse_configuration(err, "there is no provider \"%s\"; SANDBOX_PROVIDER is one of %s",
                              shown, base_buf_text(&names));
    base_buf_free(&names);
    return NULL;
}
