/*
 * One step of a project: a shell in a process group of its own, its two outputs read at once under
 * one budget, ended by SIGKILL at its time, and everything it started with it. What a step that
 * ended well leaves running stays, and what that writes is read and dropped while later steps run.
 * One thread; the caller has blocked SIGCHLD.
 */
#ifndef GUEST_CTL_STEP_H
#define GUEST_CTL_STEP_H

#include "common.h"
#include "ctl.h"
#include "env.h"

struct ctl_stream {
    int fd; /* -1 at its end */
    size_t len;
    unsigned char *bytes; /* CTL_STEP_OUTPUT_MAX of them */
};

struct ctl_step_result {
    plim_bytes out, err; /* borrowed from the runner until its next step */
    bool truncated;      /* the budget was exceeded: both streams count as cut */
    bool timed_out;
    int exit_code;
    int64_t duration_ms;
};

struct ctl_runner {
    int work; /* the steps' working directory */
    const struct ctl_env *env;
    struct ctl_stream streams[2];
    int left_open[2 * CTL_PLAN_STEPS_MAX]; /* outputs that outlived their step */
    size_t left_count;
};

/* Set up: a child that is orphaned becomes ours, so that all of a step can be found. False with
 * errno set. */
bool ctl_runner_init(struct ctl_runner *runner, int work, const struct ctl_env *env);

/* Run `command`, a C string, for at most `timeout_ms`. Always gives a result. */
void ctl_runner_step(struct ctl_runner *runner, const char *command, int64_t timeout_ms,
                     struct ctl_step_result *result);

#endif
