/*
 * An error answer, decoded: JSON body, details, header. Pure: bytes to an error. What does not
 * decode states nothing, in particular not that nothing ran; and an answer that is not bound to the
 * request has its claims dropped.
 */
#ifndef CLIENT_REFUSAL_H
#define CLIENT_REFUSAL_H

#include "client/answer.h"
#include "client/details.h"

/*
 * Fill `err` from an answer whose status is not 200; always false. `bound`: it carried this
 * request's ID exactly once. `secret` (may be empty) is cut out of the message, should the daemon
 * repeat it.
 */
bool client_read_refusal(const client_answer *answer, bool bound, plim_bytes secret,
                         plim_error *err);

#endif
