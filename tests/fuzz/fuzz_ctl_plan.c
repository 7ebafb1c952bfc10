/*
 * A hostile plan: whatever the bytes, the reader stays in its buffer, every text it gives lies in
 * it with a terminator after it, and the key's digits are gone from it. What was read is written as
 * JSON again, which must be UTF-8.
 */
#include "base/base.h"
#include "json.h"
#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void check_text(plim_bytes text, const char *document, size_t size)
{
    CHECK(text.data >= document && text.len < size && text.data + text.len < document + size);
    CHECK(text.data[text.len] == '\0');
    CHECK(base_utf8_valid(text));
    _cleanup_buf_ base_buf json = BASE_BUF_INIT(8 * text.len + 2);
    CHECK(ctl_json_add_string(&json, text) && base_utf8_valid(base_buf_bytes(&json)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ctl_plan plan;
    bool has_key;
    const char *fault;
    char *document = base_alloc(size + 1, 1);
    if (!document)
        return 0;
    if (size)
        memcpy(document, data, size);
    bool good = ctl_plan_read(document, size, &plan, &has_key, &fault);
    CHECK(good == (fault == NULL) && (!good || has_key));
    for (size_t i = 0; good && i < plan.file_count; i++) {
        check_text(plan.files[i].path, document, size);
        check_text(plan.files[i].content, document, size);
    }
    for (size_t i = 0; good && i < plan.step_count; i++)
        check_text(plan.steps[i], document, size);
    for (size_t i = 0; good && i < plan.artifact_count; i++)
        check_text(plan.artifacts[i], document, size);
    for (size_t i = 0; good && i < plan.env_count; i++)
        check_text(plan.env[i], document, size);
    CHECK(!good || (plan.step_timeout_ms > 0 && plan.step_timeout_ms <= CTL_STEP_TIMEOUT_MS_MAX));
    base_free(document);
    return 0;
}
