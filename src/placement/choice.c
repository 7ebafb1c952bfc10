#include "placement/choice.h"

enum { CHOICE_BYTES_MAX = 4 << 20 };

plim_choice *choice_new(size_t count)
{
    base_arena *arena = base_arena_new(CHOICE_BYTES_MAX);
    plim_choice *choice = arena ? base_arena_alloc(arena, 1, sizeof(*choice)) : NULL;
    if (choice) {
        choice->arena = arena;
        choice->backend = "";
        choice->refusals = base_arena_alloc(arena, count, sizeof(*choice->refusals));
        choice->names = base_arena_alloc(arena, count, sizeof(*choice->names));
        if (choice->refusals && choice->names)
            return choice;
    }
    base_arena_free(arena);
    return NULL;
}

void plim_choice_free(plim_choice *choice)
{
    if (!choice)
        return;
    for (size_t i = 0; i < choice->count; i++)
        plim_error_clear(&choice->refusals[i].error);
    base_arena_free(choice->arena);
}

void choice_add_refusal(plim_choice *choice, plim_error *error)
{
    choice_refusal *refusal = &choice->refusals[choice->count++];
    refusal->backend = choice->backend;
    plim_error_move(&refusal->error, error);
}

const char *plim_choice_backend(const plim_choice *choice)
{
    return choice ? choice->backend : "";
}

size_t plim_choice_retried_count(const plim_choice *choice)
{
    return choice ? choice->count : 0;
}

plim_retried plim_choice_retried(const plim_choice *choice, size_t index)
{
    if (index >= plim_choice_retried_count(choice))
        return (plim_retried){NULL, PLIM_ND_NONE, NULL};
    const choice_refusal *refusal = &choice->refusals[index];
    return (plim_retried){refusal->backend, plim_error_not_dispatched(&refusal->error),
                          &refusal->error};
}
