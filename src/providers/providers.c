#include "providers/providers.h"

#include "providers/disabled/disabled.h"
#include "providers/docker/docker.h"
#include "providers/wasm/wasm.h"

const core_provider_ops *const providers_table[] = {&disabled_provider_ops, &wasm_provider_ops,
                                                    &docker_provider_ops, NULL};

/* Settings that would mean nothing to the provider that was named. */
static const core_provider_ops *check_foreign(const core_settings *settings,
                                              const core_provider_ops *ops, plim_error *err)
{
    bool is_docker = ops == &docker_provider_ops;
    if (!is_docker && settings->guest_uid != CORE_SETTING_UNSET) {
        core_refuse_configuration(err, "SANDBOX_GUEST_UID is for provider docker alone, not for %s",
                                  ops->name);
        return NULL;
    }
    if (!is_docker && settings->docker_pool > 0) {
        core_refuse_configuration(
            err, "SANDBOX_DOCKER_POOL is for provider docker alone, not for %s", ops->name);
        return NULL;
    }
    return ops;
}

const core_provider_ops *providers_find(const core_settings *settings, plim_error *err)
{
    if (settings->provider[0] == '\0')
        return check_foreign(settings, &disabled_provider_ops, err);
    base_buf names = BASE_BUF_INIT(256);
    for (size_t i = 0; providers_table[i]; i++) {
        if (strcmp(settings->provider, providers_table[i]->name) == 0) {
            base_buf_free(&names);
            return check_foreign(settings, providers_table[i], err);
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
