#include "providers/wasm/eager.h"

enum { PAUSE_FIRST = 16, PAUSE_MAX = 1024 };

bool wasm_eager_may(wasm_eagerness *eagerness)
{
    if (eagerness->pause == 0)
        return true;
    eagerness->pause--;
    return false;
}

void wasm_eager_learn(wasm_eagerness *eagerness, wasm_eager how)
{
    if (how == WASM_EAGER_PAID)
        *eagerness = (wasm_eagerness){0, 0};
    if (how != WASM_EAGER_IN_VAIN)
        return;
    int doubled = eagerness->last ? eagerness->last * 2 : PAUSE_FIRST;
    eagerness->last = doubled < PAUSE_MAX ? doubled : PAUSE_MAX;
    eagerness->pause = eagerness->last;
}
