/* How a pool is divided among kinds: weights that follow demand, slowly, so that nobody's requests
 * can make it churn (the contract's 15.4). Pure arithmetic. */
#ifndef DOCKER_SHARES_H
#define DOCKER_SHARES_H

#include "providers/docker/state.h"

typedef struct docker_shares {
    size_t size; /* N, above 0 */
    double weight[DOCKER_KINDS];
    bool rebalanced;
    int64_t rebalanced_ns; /* when, if ever */
} docker_shares;

/* All weight on the first kind. */
docker_shares docker_shares_new(size_t size);

/* One run of that kind that passed admission. */
void docker_shares_demand(docker_shares *shares, docker_kind kind);

/* How many members of a kind there should be, a fraction. */
double docker_shares_of(const docker_shares *shares, docker_kind kind);

/* The kind of the next member: the furthest below its share, the first of equals. */
docker_kind docker_shares_next(const docker_shares *shares, const size_t have[DOCKER_KINDS]);

/* With a full pool: the kind that gives up its oldest member now, or DOCKER_KINDS for none. At most
 * once in 60 s; remembers when. */
docker_kind docker_shares_rebalance(docker_shares *shares, const size_t have[DOCKER_KINDS],
                                    int64_t now_ns);

#endif
