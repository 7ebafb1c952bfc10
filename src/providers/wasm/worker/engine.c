#include "engine.h"

#include <fenv.h>
#include <signal.h>
#include <string.h>

#include "imports.h"
#include "providers/wasm/protocol.h"
#include "rt.h"
#include "track.h"

static struct {
    guest_instance instance;
    guest_instance frozen; /* globals, sizes and pointers as they were when the memory was frozen */
    sigset_t signal_mask;
    uint32_t source;
    uint32_t source_length;
} engine;

/*
 * Run once each before the first real run, and undone: they show which pages nearly every run
 * writes, so that those need neither a fault nor a decision later. Nothing of them stays but that
 * knowledge.
 */
static const char *const rehearsals[] = {
    "1+1",
    "console.log(\"a\", 1, 1.5)",
    "const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2);"
    "console.log(JSON.stringify({a: [f(5)], b: `${f}`}));"
    "class A { constructor() { this.m = new Map([[1, 2]]); } }"
    "new A(); [3, 1, 2].sort().map(String).join();",
    "const v = await Promise.resolve(1);"
    "try { null.x } catch (e) { e.message }"
    "/a+/.exec(\"caa\"); v;",
};

/* Ports that lead nowhere; their parameters are as the table wants them. */
/* NOLINTBEGIN(readability-non-const-parameter) */

static void discard_output(int fd, uint8_t *chunk, size_t length)
{
    (void)fd;
    (void)chunk;
    (void)length;
}

static uint32_t refuse_call(const uint8_t *envelope, size_t length, uint8_t *body, size_t capacity,
                            uint32_t *body_length)
{
    (void)envelope;
    (void)length;
    (void)body;
    (void)capacity;
    *body_length = 0;
    return 503;
}

/* NOLINTEND(readability-non-const-parameter) */

static const struct engine_ports closed_ports = {.output = discard_output, .call = refuse_call};

static bool rehearse(void)
{
    for (size_t i = 0; i < sizeof(rehearsals) / sizeof(rehearsals[0]); i++) {
        const size_t length = strlen(rehearsals[i]);
        uint8_t *room = engine_source_room(PLIM_WASM_PAGES_DEFAULT, (uint32_t)length);
        if (room == NULL)
            return false;
        memcpy(room, rehearsals[i], length);
        if (engine_run() != 0 || !engine_reset())
            return false;
    }
    track_keep_open();
    return true;
}

const char *engine_prepare(const struct engine_ports *ports)
{
    wasm_rt_init();
    rt_bound_stack();
    if (sigprocmask(SIG_SETMASK, NULL, &engine.signal_mask) != 0)
        return "the signal mask cannot be read";
    imports_bind(&engine.instance.w2c_memory);
    imports_set_ports(&closed_ports);
    GUEST_INSTANTIATE(&engine.instance);
    GUEST_INITIALIZE(&engine.instance);
    if (GUEST_FUNCTION(plimsoll_init)(&engine.instance) != 0)
        return "the JavaScript engine could not be initialised";

    imports_reset();
    engine.frozen = engine.instance;
    if (!rt_freeze(&engine.instance.w2c_memory))
        return "the engine's memory could not be frozen";
    if (!rehearse())
        return "the engine failed its rehearsal";
    imports_set_ports(ports);
    return NULL;
}

void engine_set_ports(const struct engine_ports *ports)
{
    imports_set_ports(ports);
}

uint32_t engine_frozen_pages(void)
{
    return (uint32_t)engine.frozen.w2c_memory.pages;
}

uint32_t engine_module_pages_max(void)
{
    return (uint32_t)engine.frozen.w2c_memory.max_pages;
}

uint8_t *engine_source_room(uint32_t page_cap, uint32_t length)
{
    wasm_rt_memory_t *memory = &engine.instance.w2c_memory;

    rt_bound_stack();
    rt_set_page_cap(memory,
                    page_cap < engine_module_pages_max() ? page_cap : engine_module_pages_max());
    engine.source = GUEST_FUNCTION(plimsoll_alloc)(&engine.instance, length);
    engine.source_length = length;
    if (engine.source == 0)
        return NULL;
    uint8_t *room = rt_guest_bytes(memory, engine.source, length);
    return room != NULL && track_open(room, length) ? room : NULL;
}

int engine_run(void)
{
    uint32_t code;

    rt_bound_stack();
    code = GUEST_FUNCTION(plimsoll_run)(&engine.instance, engine.source, engine.source_length);
    return (int)(code & 0xff);
}

bool engine_reset(void)
{
    if (!rt_restore(&engine.instance.w2c_memory, engine_frozen_pages()))
        return false;
    engine.instance = engine.frozen;
    imports_reset();
    return fesetenv(FE_DFL_ENV) == 0 && sigprocmask(SIG_SETMASK, &engine.signal_mask, NULL) == 0;
}

bool engine_open_bytes(const uint8_t *bytes, size_t length)
{
    return track_open(bytes, length);
}
