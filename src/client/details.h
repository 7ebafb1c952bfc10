/* What a daemon's answer adds to an error (plim_error.more): read by the public accessors. */
#ifndef CLIENT_DETAILS_H
#define CLIENT_DETAILS_H

#include "client/client.h"

typedef struct client_details {
    struct plim_error_more more; /* first: what plim_error_clear knows */
    bool answer_not_bound;
    plim_session_end session_end;
    char *session_end_detail; /* NULL for none */
    plim_record *unanswered;  /* as the daemon states it: for the caller that can check it */
    plim_error cause;
} client_details;

/* The details of an error that is set, made if need be. NULL without an error or memory: what could
 * not be kept is then not stated, which never claims that nothing ran. */
client_details *client_details_of(plim_error *err);

/* The end of a session by its number; UNKNOWN, never OPEN, for one that has no name. */
plim_session_end client_session_end(int64_t number);

#endif
