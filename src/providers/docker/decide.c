/* What an end means: the rows of the contract's 9.3 and 10.4, in their order. */
#include "providers/docker/run.h"

docker_answer docker_snippet_answer(const docker_end *end)
{
    bool stopped = end->end == DOCKER_BOX_STOPPED;
    if (stopped && end->why == RUN_CANCELED)
        return DOCKER_ANSWER_GONE;
    if (stopped && end->why == RUN_DEADLINE && !end->own_deadline)
        return DOCKER_ANSWER_GONE;
    if (!end->started)
        return DOCKER_ANSWER_FAULT;
    if (stopped && end->why == RUN_DEADLINE)
        return DOCKER_ANSWER_TIMED_OUT;
    return end->end == DOCKER_BOX_ENDED ? DOCKER_ANSWER_RESULT : DOCKER_ANSWER_FAULT;
}

unsigned docker_limits_of(const docker_end *end)
{
    const struct ctl_end *last = &end->last;
    bool memory = end->asked_memory, pids = end->asked_pids;
    if (end->told && last->memory != CTL_END_UNKNOWN)
        memory = last->memory > 0;
    if (end->told && last->pids != CTL_END_UNKNOWN)
        pids = last->pids > 0;
    return (memory ? DOCKER_LIMIT_MEMORY : 0U) | (pids ? DOCKER_LIMIT_PIDS : 0U) |
           (end->told && last->disk > 0 ? DOCKER_LIMIT_DISK : 0U);
}

const char *docker_limits_text(unsigned limits, base_arena *arena)
{
    static const char *const names[] = {"memory", "pids", "disk", "output"};
    const char *text = "";
    for (size_t i = 0; text && i < PLIM_COUNT(names); i++)
        if (limits & 1U << i)
            text = base_arena_printf(arena, "%s%s%s", text, text[0] ? "," : "", names[i]);
    return text;
}

static bool outcome_is(plim_outcome value, plim_outcome *outcome, char *detail, size_t size,
                       const char *text)
{
    *outcome = value;
    snprintf(detail, size, "%s", text);
    return true;
}

/* Steps are judged in order; the first that ran out of time names the outcome. */
static bool outcome_of_steps(const docker_report *report, plim_outcome *outcome, char *detail,
                             size_t size)
{
    for (size_t i = 0; i < report->step_count; i++)
        if (report->steps[i].timed_out) {
            snprintf(detail, size, "step %zu exceeded its time budget", i + 1);
            *outcome = PLIM_OUTCOME_TIMED_OUT;
            return true;
        }
    return outcome_is(PLIM_OUTCOME_COMPLETED, outcome, detail, size, "");
}

static bool outcome_of_error(const docker_report *report, plim_outcome *outcome, char *detail,
                             size_t size)
{
    *outcome = PLIM_OUTCOME_SETUP_FAILED;
    size_t length = report->error.len < size - 1 ? report->error.len : size - 1;
    memcpy(detail, report->error.data, length);
    detail[length] = '\0';
    return true;
}

bool docker_project_outcome(const docker_end *end, docker_report_found found, bool decoded,
                            const docker_report *report, plim_outcome *outcome, char *detail,
                            size_t size)
{
    docker_answer answer = docker_snippet_answer(end);
    if (answer == DOCKER_ANSWER_GONE || !end->started)
        return false;
    if (answer == DOCKER_ANSWER_TIMED_OUT)
        return outcome_is(PLIM_OUTCOME_TIMED_OUT, outcome, detail, size,
                          "run exceeded the time budget");
    if (answer == DOCKER_ANSWER_FAULT)
        return false;
    switch (found) {
    case DOCKER_REPORT_NONE:
        *outcome = PLIM_OUTCOME_PROTOCOL_ERROR;
        snprintf(detail, size, "the runner did not report (container exit %d)", end->exit_code);
        return true;
    case DOCKER_REPORT_UNAUTHENTICATED:
        return outcome_is(PLIM_OUTCOME_PROTOCOL_ERROR, outcome, detail, size,
                          "no authenticated runner report");
    case DOCKER_REPORT_VERIFIED:
        break;
    }
    if (!decoded)
        return outcome_is(PLIM_OUTCOME_PROTOCOL_ERROR, outcome, detail, size,
                          "could not parse sandbox result");
    if (report->error.len)
        return outcome_of_error(report, outcome, detail, size);
    return outcome_of_steps(report, outcome, detail, size);
}
