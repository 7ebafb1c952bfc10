/*
 * Answers of a lying Engine: responses in pieces of any size, and the documents in them. The first
 * byte chooses the cut, the second which document reader sees the rest.
 */
#include "net/net.h"
#include "providers/docker/image.h"
#include "providers/docker/keeper.h"
#include "providers/docker/probe.h"
#include "providers/docker/report.h"
#include "providers/docker/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_MAX = 512, BODY_MAX = 65536 };

static void respond(plim_bytes input, size_t step, base_buf *told)
{
    net_response response;
    net_response_event event = NET_RESPONSE_MORE;
    net_response_init(&response, HEAD_MAX);
    while (input.len && event != NET_RESPONSE_BAD && event != NET_RESPONSE_UPGRADED) {
        plim_bytes part = {input.data, input.len < step ? input.len : step}, body;
        input = (plim_bytes){input.data + part.len, input.len - part.len};
        do {
            event = net_response_next(&response, &part, &body);
            if (event == NET_RESPONSE_HEAD)
                base_buf_printf(told, "<%d>", response.status);
            base_buf_add(told, body);
        } while (event == NET_RESPONSE_HEAD || event == NET_RESPONSE_BODY ||
                 event == NET_RESPONSE_END);
    }
    base_buf_add_byte(told, event == NET_RESPONSE_BAD ? '!' : '.');
    net_response_free(&response);
}

static bool nobody(void *data, const char *name)
{
    (void)data, (void)name;
    return false;
}

static void read_document(unsigned char which, plim_bytes text)
{
    base_arena *arena = base_arena_new(1 << 20);
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    unsigned char key[CTL_KEY_BYTES] = {0};
    _cleanup_buf_ base_buf ids = BASE_BUF_INIT(BODY_MAX);
    docker_probe_wanted wanted = {.uid = 61000, .pids = 256, .tmp_mb = 16, .shm_mb = 16};
    docker_image image;
    docker_report report;
    docker_snapshot snapshot = {NULL, 0};
    plim_bytes body;
    char banner[121];
    switch (which % 6) {
    case 0:
        docker_image_read(text, "image", arena, &image, &err);
        break;
    case 1:
        docker_report_read(text, arena, &report);
        break;
    case 2:
        docker_report_find(text, key, &body);
        break;
    case 3:
        docker_probe_check(text, &wanted, &err);
        docker_probe_banner(text, banner);
        break;
    case 4:
        docker_sweep_choose(text, 1000, nobody, NULL, &ids);
        break;
    case 5:
        if (docker_snapshot_read(text, &snapshot))
            base_free(snapshot.text);
        break;
    }
    base_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    plim_bytes input = {(const char *)data + 2, size - 2};
    _cleanup_buf_ base_buf whole = BASE_BUF_INIT(1 << 20), pieces = BASE_BUF_INIT(1 << 20);
    respond(input, input.len + 1, &whole);
    respond(input, (size_t)data[0] % 16 + 1, &pieces);
    if (!base_bytes_equal(base_buf_bytes(&whole), base_buf_bytes(&pieces)))
        abort();
    read_document(data[1], input);
    return 0;
}
