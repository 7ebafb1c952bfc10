/* Which backend a request went to, and which refused it before. Made before anything is sent, with
 * room for every backend, so that placing a request needs no memory once it has begun. */
#ifndef PLACEMENT_CHOICE_H
#define PLACEMENT_CHOICE_H

#include "placement/placement.h"

typedef struct choice_refusal {
    const char *backend;
    plim_error error;
} choice_refusal;

struct plim_choice {
    base_arena *arena; /* holds the struct and the names */
    const char *backend;
    choice_refusal *refusals;
    size_t count;
    const char **names; /* copies of the candidates' names, in the order they are tried */
};

/* A choice with room for `count` candidates; NULL when memory is out. */
plim_choice *choice_new(size_t count) PLIM_MUST_USE;
BASE_CLEANUP_FN(plim_choice, plim_choice_free, choice_freep)

/* Keep the refusal of the backend in use; takes the error. */
void choice_add_refusal(plim_choice *choice, plim_error *error);

#endif
