/* Protobuf JSON: whatever decodes must encode in both forms, and decode again to the same. The
 * first byte chooses the type. */
#include "wire/wire.h"

#include "fuzz_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_round_trip(WIRE_JSON, data, size);
    return 0;
}
