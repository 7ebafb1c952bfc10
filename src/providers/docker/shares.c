#include "providers/docker/shares.h"

#define REBALANCE_EVERY_NS (INT64_C(60) * BASE_NS_PER_S)
#define REBALANCE_LEAST    1.75 /* members that are in the wrong place */

docker_shares docker_shares_new(size_t size)
{
    return (docker_shares){.size = size, .weight = {[DOCKER_SNIPPET] = 1}};
}

static double rate_of(const docker_shares *shares)
{
    double rate = 1.0 / (4.0 * (double)shares->size);
    return rate < 1.0 / 16 ? rate : 1.0 / 16;
}

void docker_shares_demand(docker_shares *shares, docker_kind kind)
{
    double rate = rate_of(shares);
    for (docker_kind each = 0; each < DOCKER_KINDS; each++) {
        shares->weight[each] *= 1 - rate;
        if (each != kind && shares->weight[each] < rate / 4)
            shares->weight[each] = 0;
    }
    shares->weight[kind] += rate;
}

static double total_of(const docker_shares *shares)
{
    double total = 0;
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
        total += shares->weight[kind];
    return total;
}

double docker_shares_of(const docker_shares *shares, docker_kind kind)
{
    return (double)shares->size * shares->weight[kind] / total_of(shares);
}

static double lack(const docker_shares *shares, const size_t have[DOCKER_KINDS], docker_kind kind)
{
    return docker_shares_of(shares, kind) - (double)have[kind];
}

docker_kind docker_shares_next(const docker_shares *shares, const size_t have[DOCKER_KINDS])
{
    docker_kind next = 0;
    for (docker_kind kind = 1; kind < DOCKER_KINDS; kind++)
        if (lack(shares, have, kind) > lack(shares, have, next))
            next = kind;
    return next;
}

docker_kind docker_shares_rebalance(docker_shares *shares, const size_t have[DOCKER_KINDS],
                                    int64_t now_ns)
{
    docker_kind most = 0, least = docker_shares_next(shares, have);
    if (shares->rebalanced && now_ns - shares->rebalanced_ns < REBALANCE_EVERY_NS)
        return DOCKER_KINDS;
    for (docker_kind kind = 1; kind < DOCKER_KINDS; kind++)
        if (lack(shares, have, kind) < lack(shares, have, most))
            most = kind;
    double misplaced = lack(shares, have, least) - lack(shares, have, most);
    if (have[most] == 0 || misplaced <= REBALANCE_LEAST ||
        shares->weight[most] >= total_of(shares) / 4)
        return DOCKER_KINDS;
    shares->rebalanced = true;
    shares->rebalanced_ns = now_ns;
    return most;
}
