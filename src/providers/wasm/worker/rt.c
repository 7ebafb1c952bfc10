#include "rt.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "providers/wasm/protocol.h"
#include "track.h"

#define PAGE_BYTES ((uint64_t)PLIM_WASM_PAGE_BYTES)

/* A 32-bit address plus a 32-bit offset reaches 8 GiB; the widest access is 8 bytes. */
#define RESERVATION_BYTES ((UINT64_C(8) << 30) + PAGE_BYTES)

/* Where wasm_rt_memory_t counts bytes in 32 bits, the last page of the 4 GiB cannot be stated. */
#define PAGES_COUNTABLE_MAX 65535u

/* Growth up to here is zeroed in place: no page fault when the next run grows again. */
#define ZERO_IN_PLACE_PAGES_MAX 16u

#define TABLES_MAX      4u
#define ALT_STACK_BYTES 32768u

static struct {
    uint8_t *reservation;
    rt_trap_handler on_trap;
    bool initialized;
    bool faulted; /* since the last restore */
    uint32_t table_count;
    struct {
        void *data;
        size_t bytes;
    } tables[TABLES_MAX];
} rt;

static uint8_t alt_stack[ALT_STACK_BYTES] __attribute__((aligned(16)));

uintptr_t rt_stack_limit; /* read by every translated function, see translated.h */

/* ---- traps and faults ---- */

const char *wasm_rt_strerror(wasm_rt_trap_t trap)
{
    static const char *const reasons[] = {
        [WASM_RT_TRAP_NONE] = "no error",
        [WASM_RT_TRAP_OOB] = "out of bounds memory access",
        [WASM_RT_TRAP_INT_OVERFLOW] = "integer overflow",
        [WASM_RT_TRAP_DIV_BY_ZERO] = "integer divide by zero",
        [WASM_RT_TRAP_INVALID_CONVERSION] = "invalid conversion to integer",
        [WASM_RT_TRAP_UNREACHABLE] = "unreachable",
        [WASM_RT_TRAP_CALL_INDIRECT] = "indirect call type mismatch",
        [WASM_RT_TRAP_UNCAUGHT_EXCEPTION] = "uncaught exception",
        [WASM_RT_TRAP_EXHAUSTION] = "call stack exhausted",
    };
    const size_t index = (size_t)trap;

    if (index >= sizeof(reasons) / sizeof(reasons[0]) || reasons[index] == NULL)
        return "unknown trap";
    return reasons[index];
}

void rt_on_trap(rt_trap_handler handler)
{
    rt.on_trap = handler;
}

void wasm_rt_trap(wasm_rt_trap_t trap)
{
    if (rt.on_trap != NULL)
        rt.on_trap(wasm_rt_strerror(trap));
    abort();
}

/*
 * First writes to frozen pages are let through; any other fault inside the reservation is an access
 * out of bounds. A fault elsewhere is a bug of ours (or the work of one) and must look like the
 * crash it is: with the default action back in place, the instruction faults again.
 */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    const uint8_t *address = info->si_addr;

    (void)context;
    if (signal_number == SIGSEGV && rt.reservation != NULL && address >= rt.reservation &&
        address < rt.reservation + RESERVATION_BYTES) {
        rt.faulted = true;
        if (track_fault(address))
            return;
        wasm_rt_trap(WASM_RT_TRAP_OOB);
    }
    signal(signal_number, SIG_DFL);
    if (info->si_code <= 0)
        __builtin_trap(); /* somebody sent the signal: no instruction will repeat it */
}

void rt_bound_stack(void)
{
    rt_stack_limit = (uintptr_t)__builtin_frame_address(0) - RT_STACK_BYTES;
}

void wasm_rt_init(void)
{
    const stack_t stack = {.ss_sp = alt_stack, .ss_size = sizeof(alt_stack)};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0 ||
        sigaction(SIGBUS, &action, NULL) != 0)
        abort();
    rt.initialized = true;
}

bool wasm_rt_is_initialized(void)
{
    return rt.initialized;
}

/* ---- memory ---- */

void rt_allocate(wasm_rt_memory_t *memory, uint64_t initial_pages, uint64_t max_pages)
{
    if (rt.reservation != NULL || initial_pages > PAGES_COUNTABLE_MAX)
        abort();
    uint8_t *data = mmap(NULL, RESERVATION_BYTES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED ||
        mprotect(data, initial_pages * PAGE_BYTES, PROT_READ | PROT_WRITE) != 0)
        abort();
    rt.reservation = data;
    *memory = (wasm_rt_memory_t){.data = data, .pages = (uint32_t)initial_pages};
    memory->size = (uint32_t)(initial_pages * PAGE_BYTES);
    rt_set_page_cap(memory, max_pages);
}

void rt_set_page_cap(wasm_rt_memory_t *memory, uint64_t pages)
{
    memory->max_pages = pages < PAGES_COUNTABLE_MAX ? (uint32_t)pages : PAGES_COUNTABLE_MAX;
}

uint32_t rt_grow(wasm_rt_memory_t *memory, uint64_t pages)
{
    const uint32_t old_pages = (uint32_t)memory->pages;

    if (pages == 0)
        return old_pages;
    if (old_pages > memory->max_pages || pages > memory->max_pages - old_pages)
        return UINT32_MAX;
    if (mprotect(memory->data + old_pages * PAGE_BYTES, pages * PAGE_BYTES,
                 PROT_READ | PROT_WRITE) != 0)
        return UINT32_MAX;
    memory->pages = old_pages + (uint32_t)pages;
    memory->size = (uint32_t)(memory->pages * PAGE_BYTES);
    return old_pages;
}

uint8_t *rt_guest_bytes(const wasm_rt_memory_t *memory, uint32_t address, uint64_t length)
{
    const uint64_t size = memory->pages * PAGE_BYTES;

    return length <= size && address <= size - length ? memory->data + address : NULL;
}

void wasm_rt_free_memory(wasm_rt_memory_t *memory)
{
    munmap(memory->data, RESERVATION_BYTES);
    rt.reservation = NULL;
}

bool rt_freeze(const wasm_rt_memory_t *memory)
{
    for (uint32_t i = 0; i < rt.table_count; i++) {
        if (mprotect(rt.tables[i].data, rt.tables[i].bytes, PROT_READ) != 0)
            return false;
    }
    return track_freeze(memory->data, memory->pages * PAGE_BYTES);
}

bool rt_restore(const wasm_rt_memory_t *memory, uint32_t frozen_pages)
{
    const uint32_t grown = (uint32_t)memory->pages - frozen_pages;

    if (grown > PLIM_WASM_GROWTH_REUSE_MAX)
        return false;
    if (grown > 0) {
        uint8_t *start = memory->data + frozen_pages * PAGE_BYTES;
        if (grown <= ZERO_IN_PLACE_PAGES_MAX)
            memset(start, 0, grown * PAGE_BYTES);
        else if (madvise(start, grown * PAGE_BYTES, MADV_DONTNEED) != 0)
            return false;
        if (mprotect(start, grown * PAGE_BYTES, PROT_NONE) != 0)
            return false;
    }
    if (rt.faulted) {
        memset(alt_stack, 0,
               sizeof(alt_stack)); /* saved registers hold what the guest was copying */
        rt.faulted = false;
    }
    return track_restore();
}

/* ---- tables ---- */

/* Tables have pages of their own: once the module is set up nothing writes them, and rt_freeze()
 * holds it to that. */
void wasm_rt_allocate_funcref_table(wasm_rt_funcref_table_t *table, uint32_t elements,
                                    uint32_t max_elements)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (elements * sizeof(*table->data) + page) / page * page;

    if (rt.table_count == TABLES_MAX)
        abort();
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        abort();
    rt.tables[rt.table_count].data = data;
    rt.tables[rt.table_count++].bytes = bytes;
    *table = (wasm_rt_funcref_table_t){.data = data, .max_size = max_elements, .size = elements};
}

void wasm_rt_free_funcref_table(wasm_rt_funcref_table_t *table)
{
    table->size = 0; /* the pages go with the process */
}
