/* Any bytes either are no registry or survive being written and read again, unchanged. */
#include "registry/registry.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(registry_freep)
    registry *reg = NULL, *again = NULL;
    _cleanup_buf_ base_buf first = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    _cleanup_buf_ base_buf second = BASE_BUF_INIT(REGISTRY_BYTES_MAX);
    if (!registry_parse((plim_bytes){(const char *)data, size}, &reg, NULL) ||
        !registry_serialize(reg, &first))
        return 0;
    if (!registry_parse(base_buf_bytes(&first), &again, NULL) ||
        !registry_serialize(again, &second) ||
        !base_bytes_equal(base_buf_bytes(&first), base_buf_bytes(&second)))
        abort();
    return 0;
}
