/* Binary messages: whatever decodes must encode, and decode again to the same. The first byte
 * chooses the type. */
#include "wire/wire.h"

#include "fuzz_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_round_trip(WIRE_PROTO, data, size);
    return 0;
}
