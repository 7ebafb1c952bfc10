/*
 * A run in a container that was made for it, or waited for it: what goes in, and what its end means
 * (the contract's 9.3 and 10.4). The decisions are pure functions; everything here belongs to the
 * thread of the run.
 */
#ifndef DOCKER_RUN_H
#define DOCKER_RUN_H

#include "providers/docker/argv.h"
#include "providers/docker/box.h"
#include "providers/docker/report.h"

enum {
    DOCKER_SNIPPET_MS_DEFAULT = 5000,
    DOCKER_SNIPPET_MS_CEILING = 30000,
    DOCKER_PROJECT_MS_DEFAULT = 30000,
    DOCKER_PROJECT_MS_CEILING = 120000,
    DOCKER_PROJECT_MARGIN_MS = 5000, /* so that the runner can report first */
    DOCKER_OUTPUT_BYTES_MAX = 65536,
    DOCKER_RUNNER_BYTES_MAX = 16 * 1024 * 1024,
};

#define DOCKER_RUN_PREFIX  "plsm-run-"
#define DOCKER_POOL_PREFIX "plsm-pool-"

/* What every run of a provider needs. */
typedef struct docker_site {
    const core_settings *settings;
    docker_keeper *keeper;
    docker_control control; /* of the snippet image */
    plim_tier tier;
} docker_site;

int64_t docker_timeout_of(const core_request *request);

/* A container of that kind, started, with nothing sent to it. Dispose of it in any case. */
bool docker_run_launch(const docker_site *site, docker_state *state, docker_kind kind,
                       const char *prefix, int64_t budget_ms, docker_box *box, const run_ctx *ctx,
                       plim_error *err);

/*
 * Send the request into a box that has started and answer. `deadline_ns` is the run's own. False
 * with `box->sent` false: nothing of the request reached it.
 */
bool docker_run_in(const docker_site *site, docker_box *box, const core_request *request,
                   const run_ctx *ctx, int64_t began_ns, plim_result **out, plim_error *err);

/* ---- decisions ---- */

/* How a run ended, as far as an answer depends on it. */
typedef struct docker_end {
    docker_box_end end;
    run_wait why;
    bool own_deadline;             /* it was the run's own that passed */
    bool started;                  /* the marker was seen */
    bool told;                     /* `last` is what its first process told of it */
    bool asked_memory, asked_pids; /* limits found from outside to have ended or refused work */
    int exit_code;
    struct ctl_end last;
} docker_end;

typedef enum {
    DOCKER_ANSWER_RESULT,
    DOCKER_ANSWER_TIMED_OUT,
    DOCKER_ANSWER_GONE,  /* the caller */
    DOCKER_ANSWER_FAULT, /* of the machinery, unmarked */
} docker_answer;

docker_answer docker_snippet_answer(const docker_end *end);

/* Limits of a sandbox, in the order in which a result names them. */
enum {
    DOCKER_LIMIT_MEMORY = 1,
    DOCKER_LIMIT_PIDS = 2,
    DOCKER_LIMIT_DISK = 4,
    DOCKER_LIMIT_OUTPUT = 8,
};

/*
 * Which of them there is evidence for: what its kernel counted, or where that is not known, what
 * was found from outside. A place that is full is evidence for a guest that ended badly; its first
 * process looks only then. Never a guess from an exit code.
 */
unsigned docker_limits_of(const docker_end *end);

/* Their names, joined by commas; NULL: out of memory. */
const char *docker_limits_text(unsigned limits, base_arena *arena);

/* The outcome of a project and its detail; false: an error, as docker_snippet_answer says. */
bool docker_project_outcome(const docker_end *end, docker_report_found found, bool decoded,
                            const docker_report *report, plim_outcome *outcome, char *detail,
                            size_t size);

#endif
