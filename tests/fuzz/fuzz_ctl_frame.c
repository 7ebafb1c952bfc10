/*
 * A hostile container: whatever it writes to the runner's stdout, the scanner ends, moves forward,
 * and gives only frames that lie in the bytes; a true frame behind the noise is found. The same
 * bytes are read as the system's own tables, a path and a passwd file, which the program reads
 * inside the container.
 */
#include "base/base.h"
#include "ctl.h"
#include "env.h"
#include "files.h"
#include "probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static const char behind[] =
    "\n" CTL_REPORT_MARKER
    " 2 0000000000000000000000000000000000000000000000000000000000000000\n{}";

static void scan(const uint8_t *bytes, size_t size)
{
    size_t offset = 0;
    bool seen = false, last = false;
    for (size_t frames = 0;; frames++) {
        struct ctl_frame frame;
        size_t before = offset;
        if (!ctl_frame_next(bytes, size, &offset, &frame, &seen))
            break;
        CHECK(seen && offset > before && offset <= size && frames < size);
        CHECK(frame.body >= bytes && frame.body + frame.body_len <= bytes + size);
        CHECK((const uint8_t *)frame.mac > bytes);
        last = frame.body == bytes + size - 2 && frame.body_len == 2;
    }
    CHECK(last && offset == size);
}

static void read_tables(const char *text, size_t size)
{
    char path[PATH_MAX], point[64];
    plim_bytes rest = {text, size};
    while (ctl_probe_next_mount(&rest, point, sizeof point))
        CHECK(strlen(point) < sizeof point && rest.len < size);
    if (ctl_path_inside("/work", (plim_bytes){text, size}, path))
        CHECK(path[0] != '/' && strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
    plim_bytes home = ctl_home_of((plim_bytes){text, size}, PLIM_LIT("0"));
    CHECK(!home.len || (home.data >= text && home.data + home.len <= text + size));
    _cleanup_buf_ base_buf json = BASE_BUF_INIT(64 << 10);
    ctl_probe_add_ids(&json, text, "Uid:");
    ctl_probe_add_interfaces(&json, text);
    CHECK(base_utf8_valid(base_buf_bytes(&json)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buf_ base_buf bytes = BASE_BUF_INIT(size + sizeof behind);
    base_buf_add(&bytes, (plim_bytes){(const char *)data, size});
    base_buf_add_byte(&bytes, '\0');
    if (bytes.failed)
        return 0;
    read_tables(bytes.data, size);
    bytes.len = size;
    base_buf_add(&bytes, (plim_bytes){behind, sizeof behind - 1});
    if (!bytes.failed)
        scan((const uint8_t *)bytes.data, bytes.len);
    return 0;
}
