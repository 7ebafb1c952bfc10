#include "http/flood.h"

static const struct {
    uint32_t burst, rate, earned;
} kinds[HTTP_FLOOD_KINDS] = {
#define X(name, burst, rate, earned, why) {(burst), (rate), (earned)},
    HTTP_FLOODS(X)
#undef X
};

/* Longer silence than this fills every bucket. */
enum { REFILL_S_MAX = 3600 };

static void add(http_flood *flood, http_flood_kind kind, uint64_t tokens)
{
    uint64_t sum = flood->tokens[kind] + tokens;
    flood->tokens[kind] = sum < kinds[kind].burst ? (uint32_t)sum : kinds[kind].burst;
}

void http_flood_init(http_flood *flood, int64_t now_ms)
{
    for (http_flood_kind kind = 0; kind < HTTP_FLOOD_KINDS; kind++)
        flood->tokens[kind] = kinds[kind].burst;
    flood->filled_ms = now_ms;
}

/* Whole seconds only, so that a fraction is not lost but waits. */
static void refill(http_flood *flood, int64_t now_ms)
{
    int64_t seconds = now_ms > flood->filled_ms ? (now_ms - flood->filled_ms) / 1000 : 0;
    if (seconds == 0)
        return;
    flood->filled_ms += seconds * 1000;
    uint64_t counted = seconds < REFILL_S_MAX ? (uint64_t)seconds : REFILL_S_MAX;
    for (http_flood_kind kind = 0; kind < HTTP_FLOOD_KINDS; kind++)
        add(flood, kind, counted * kinds[kind].rate);
}

bool http_flood_take(http_flood *flood, http_flood_kind kind, int64_t now_ms)
{
    refill(flood, now_ms);
    if (flood->tokens[kind] == 0)
        return false;
    flood->tokens[kind]--;
    return true;
}

void http_flood_earn(http_flood *flood)
{
    for (http_flood_kind kind = 0; kind < HTTP_FLOOD_KINDS; kind++)
        add(flood, kind, kinds[kind].earned);
}
