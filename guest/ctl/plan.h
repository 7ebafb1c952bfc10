/* What a runner is told to do: one JSON document on its stdin, read strictly and in place. A plan
 * borrows all its text from the document's buffer. Pure functions. */
#ifndef GUEST_CTL_PLAN_H
#define GUEST_CTL_PLAN_H

#include "common.h"
#include "ctl.h"

struct ctl_plan_file {
    plim_bytes path, content;
};

/* Every text of it has a terminator after it. Paths and steps hold none themselves. */
struct ctl_plan {
    struct ctl_plan_file files[CTL_PLAN_FILES_MAX];
    plim_bytes steps[CTL_PLAN_STEPS_MAX];
    plim_bytes artifacts[CTL_PLAN_ARTIFACTS_MAX];
    plim_bytes env[CTL_PLAN_ENV_MAX];
    size_t file_count, step_count, artifact_count, env_count;
    int64_t step_timeout_ms;
    plim_bytes host_sdk; /* no bytes: none */
    unsigned char key[CTL_KEY_BYTES];
};

/*
 * Read `len` bytes, which are changed. The key's digits are wiped from the document as they are
 * read.
 * `*has_key` says whether there was a key before the first fault, which can then be reported under
 * it. False with `*fault`, a literal, when the plan is not to be used.
 */
bool ctl_plan_read(char *document, size_t len, struct ctl_plan *plan, bool *has_key,
                   const char **fault);

#endif
