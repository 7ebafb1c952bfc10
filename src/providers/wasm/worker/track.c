#include "track.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A fault opens an aligned group of pages. Small groups keep the copies small for the many runs
 * that write a few pages more than the usual ones; a run that goes on faulting is filling memory,
 * and gets larger steps.
 */
#define GROUP_BYTES_FIRST  16384u
#define GROUP_BYTES_LATER  65536u
#define GROUP_FIRST_FAULTS 8u

/* Extra pages that stay open from run to run, by size: repeated snippets find their pages open, one
   heavy run does not make all later restores dear. */
#define SURPLUS_BYTES_MAX (1u << 20)

#define PAGE_BYTES_MIN 4096u
#define WORDS_MAX      (TRACK_BYTES_MAX / PAGE_BYTES_MIN / 64)

typedef uint64_t page_set[WORDS_MAX];

static struct {
    uint8_t *base;
    uint8_t *copy; /* read-only once taken; its untouched pages read as zero and cost nothing */
    size_t page_bytes;
    size_t pages;
    size_t words;    /* of the sets below */
    unsigned faults; /* since the last restore */
    page_set dirty;  /* writable; may differ from the copy */
    page_set kept;   /* subset of dirty that stays writable for good */
    page_set zero;   /* all zero in the copy */
} track;

static bool is_set(const page_set set, size_t page)
{
    return (set[page / 64] >> (page % 64)) & 1;
}

static void put(page_set set, size_t page)
{
    set[page / 64] |= UINT64_C(1) << (page % 64);
}

static size_t count(const page_set set)
{
    size_t sum = 0;

    for (size_t w = 0; w < track.words; w++)
        sum += (size_t)__builtin_popcountll(set[w]);
    return sum;
}

/* Finds the next run of set pages at or after *first; false when there is none. */
static bool next_run(const page_set set, size_t *first, size_t *length)
{
    size_t page = *first;

    while (page < track.pages) {
        uint64_t rest = set[page / 64] >> (page % 64);
        if (rest != 0) {
            page += (size_t)__builtin_ctzll(rest);
            break;
        }
        page = (page / 64 + 1) * 64;
    }
    if (page >= track.pages)
        return false;
    *first = page;
    while (page < track.pages && is_set(set, page))
        page++;
    *length = page - *first;
    return true;
}

static bool all_zero(const uint8_t *data, size_t length)
{
    return data[0] == 0 && memcmp(data, data + 1, length - 1) == 0;
}

bool track_freeze(uint8_t *base, size_t length)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    if (length > TRACK_BYTES_MAX || length % page_bytes != 0 || page_bytes < PAGE_BYTES_MIN)
        return false;
    uint8_t *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return false;

    memset(&track, 0, sizeof(track));
    track.base = base;
    track.copy = copy;
    track.page_bytes = page_bytes;
    track.pages = length / page_bytes;
    track.words = (track.pages + 63) / 64;
    for (size_t page = 0; page < track.pages; page++) {
        const size_t at = page * page_bytes;
        if (all_zero(base + at, page_bytes))
            put(track.zero, page);
        else
            memcpy(copy + at, base + at, page_bytes);
    }
    return mprotect(copy, length, PROT_READ) == 0 && mprotect(base, length, PROT_READ) == 0;
}

static bool open_pages(size_t first, size_t last)
{
    uint8_t *start = track.base + first * track.page_bytes;

    if (mprotect(start, (last - first + 1) * track.page_bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    for (size_t page = first; page <= last; page++)
        put(track.dirty, page);
    return true;
}

bool track_fault(const uint8_t *address)
{
    if (track.base == NULL || address < track.base)
        return false;
    const size_t page = (size_t)(address - track.base) / track.page_bytes;
    if (page >= track.pages || is_set(track.dirty, page))
        return false;

    const size_t bytes =
        track.faults++ < GROUP_FIRST_FAULTS ? GROUP_BYTES_FIRST : GROUP_BYTES_LATER;
    const size_t group = bytes > track.page_bytes ? bytes / track.page_bytes : 1;
    const size_t first = page - page % group;
    const size_t end = first + group < track.pages ? first + group : track.pages;
    return open_pages(first, end - 1);
}

bool track_open(const uint8_t *address, size_t length)
{
    if (length == 0 || address < track.base)
        return true;
    size_t page = (size_t)(address - track.base) / track.page_bytes;
    size_t last = (size_t)(address - track.base + length - 1) / track.page_bytes;
    if (page >= track.pages)
        return true; /* grown memory is always writable */
    if (last >= track.pages)
        last = track.pages - 1;

    while (page <= last && is_set(track.dirty, page))
        page++;
    return page > last || open_pages(page, last);
}

/* Closes the pages that are not kept: those that are zero in the copy go back to the kernel, the
 * others are copied. */
static bool close_surplus(void)
{
    page_set extra = {0}, empty = {0};
    size_t first, length;

    for (size_t w = 0; w < track.words; w++) {
        extra[w] = track.dirty[w] & ~track.kept[w];
        empty[w] = extra[w] & track.zero[w];
        track.dirty[w] &= ~empty[w];
    }
    for (first = 0; next_run(empty, &first, &length); first += length) {
        if (madvise(track.base + first * track.page_bytes, length * track.page_bytes,
                    MADV_DONTNEED) != 0)
            return false;
    }
    for (first = 0; next_run(track.dirty, &first, &length); first += length)
        memcpy(track.base + first * track.page_bytes, track.copy + first * track.page_bytes,
               length * track.page_bytes);
    for (first = 0; next_run(extra, &first, &length); first += length) {
        if (mprotect(track.base + first * track.page_bytes, length * track.page_bytes, PROT_READ) !=
            0)
            return false;
    }
    memcpy(track.dirty, track.kept, sizeof(track.dirty));
    return true;
}

bool track_restore(void)
{
    size_t length;

    track.faults = 0;
    if ((count(track.dirty) - count(track.kept)) * track.page_bytes > SURPLUS_BYTES_MAX)
        return close_surplus();
    for (size_t first = 0; next_run(track.dirty, &first, &length); first += length)
        memcpy(track.base + first * track.page_bytes, track.copy + first * track.page_bytes,
               length * track.page_bytes);
    return true;
}

void track_keep_open(void)
{
    memcpy(track.kept, track.dirty, sizeof(track.kept));
}

size_t track_open_pages(void)
{
    return count(track.kept);
}
