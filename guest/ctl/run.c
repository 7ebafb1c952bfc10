#include "run.h"

#include "ctl.h"
#include "end.h"
#include "env.h"
#include "files.h"
#include "io.h"
#include "isolation.h"
#include "plan.h"
#include "report.h"
#include "step.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

/* All of a run. Static, because a plan is large and there is one run in a process. */
static struct {
    base_buf document;
    struct ctl_plan plan;
    bool has_key;
    int streams[2]; /* where the report goes, and the frames of the end */
    int hidden;     /* the socket that holds them while steps run, or -1 */
    uint32_t disk;  /* places that a step which ended badly has left full */
    struct ctl_root root;
    struct ctl_env env;
    struct ctl_runner runner;
    struct ctl_report report;
} run;

/* Take the container's streams out of hiding. */
static bool show_streams(void)
{
    return run.hidden < 0 || ctl_isolation_show(TAKE_FD(run.hidden), run.streams);
}

/* The report is written, or not: the status, and as the first process the end of everything. */
static int end(bool wrote)
{
    int status = wrote ? CTL_EXIT_OK : CTL_EXIT_NO_REPORT;
    if (wrote && run.has_key && ctl_tree_end(0))
        ctl_end_write(run.streams, run.plan.key, status, run.disk);
    explicit_bzero(run.plan.key, sizeof run.plan.key);
    return status;
}

/* End with a report that says only that. */
static int report_error(const char *error, plim_bytes about)
{
    return end(
        show_streams() &&
        ctl_report_write_error(run.streams[0], run.has_key ? run.plan.key : NULL, error, about));
}

static int report_errno(const char *error, plim_bytes about)
{
    char text[256];
    int cause = errno;
    snprintf(text, sizeof text, "%.*s%s%s", (int)about.len, about.len ? about.data : "",
             about.len ? ": " : "", strerrordesc_np(cause));
    return report_error(error, plim_bytes_of(text));
}

static int report_file_fault(enum ctl_file_fault fault, plim_bytes path)
{
    if (fault == CTL_FILE_OUTSIDE)
        return report_error(CTL_ERROR_PATH, path);
    if (fault == CTL_FILE_NOT_REGULAR)
        return report_error(CTL_ERROR_NOT_REGULAR, path);
    return report_errno(CTL_ERROR_WRITE, ctl_cut_text(path, 128));
}

/* The runner's environment less what is meant for it alone, then what every guest process has, the
 * plan's and ours. */
static bool make_env(void)
{
    char runner[16];
    if (!ctl_env_init(&run.env))
        return false;
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, "PLIMSOLL_", strlen("PLIMSOLL_")) != 0 &&
            strchr(*entry, '=') > *entry && !ctl_env_put(&run.env, *entry))
            return false;
    }
    if (!ctl_env_add_identity(&run.env))
        return false;
    for (size_t i = 0; i < run.plan.env_count; i++) {
        if (!ctl_env_put(&run.env, (char *)run.plan.env[i].data))
            return false;
    }
    snprintf(runner, sizeof runner, "%d", (int)getpid());
    if (!ctl_env_set(&run.env, CTL_ENV_RUNNER_PID, "", runner))
        return false;
    if (!run.plan.host_sdk.len)
        return true;
    const char *options = ctl_env_get(&run.env, "NODE_OPTIONS");
    return ctl_env_set(&run.env, "NODE_OPTIONS", options ? options : "",
                       options && *options ? " --import=file://" CTL_HOST_SDK
                                           : "--import=file://" CTL_HOST_SDK);
}

/* Give back the memory of a content that was written: it counts against the same limit as the file.
 */
static void release(plim_bytes content)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (page - (uintptr_t)content.data % page) % page;
    size_t whole = content.len > before ? (content.len - before) / page * page : 0;
    if (whole)
        madvise((char *)content.data + before, whole, MADV_DONTNEED);
}

/* Write the plan's files. True when all are there; otherwise `*status` is that of the reported end.
 */
static bool write_files(int *status)
{
    for (size_t i = 0; i < run.plan.file_count; i++) {
        const struct ctl_plan_file *file = &run.plan.files[i];
        enum ctl_file_fault fault = ctl_file_write(&run.root, file->path, file->content);
        if (fault) {
            *status = report_file_fault(fault, file->path);
            return false;
        }
        release(file->content);
    }
    if (!run.plan.host_sdk.len)
        return true;
    enum ctl_file_fault fault = ctl_file_write_at(CTL_HOST_SDK, run.plan.host_sdk);
    if (fault)
        *status = report_file_fault(fault, PLIM_LIT(CTL_HOST_SDK));
    return !fault;
}

static void run_steps(void)
{
    for (size_t i = 0; i < run.plan.step_count; i++) {
        struct ctl_step_result result;
        ctl_runner_step(&run.runner, run.plan.steps[i].data, run.plan.step_timeout_ms, &result);
        ctl_report_step(&run.report, run.plan.steps[i], &result);
        if (result.exit_code != 0) {
            run.disk = ctl_end_full_places();
            return;
        }
    }
}

static void capture_artifacts(void)
{
    bool more = true;
    for (size_t i = 0; more && i < run.plan.artifact_count; i++) {
        size_t size;
        int fd = ctl_file_open(&run.root, run.plan.artifacts[i], &size);
        if (fd < 0)
            continue;
        more = ctl_report_artifact(&run.report, run.plan.artifacts[i], fd, size);
        close(fd);
    }
}

/* The plan was read: do it. */
static int execute(void)
{
    const char *work = getenv(CTL_ENV_WORK);
    int status;
    if (!ctl_root_open(&run.root, work && *work ? work : CTL_WORK))
        return report_errno(CTL_ERROR_WORK, (plim_bytes){NULL, 0});
    if (!make_env())
        return report_error(CTL_ERROR_ENV, (plim_bytes){NULL, 0});
    if (!write_files(&status))
        return status;
    if (!ctl_runner_init(&run.runner, run.root.fd, &run.env))
        return report_errno(CTL_ERROR_WORK, (plim_bytes){NULL, 0});
    ctl_report_init(&run.report);
    run_steps();
    capture_artifacts();
    return end(show_streams() && ctl_report_write(&run.report, run.streams[0], run.plan.key));
}

/* The same for all that is left to guard once the plan was read: before a step runs, everything
 * must be refused. */
static bool may_run_steps(enum ctl_isolation proven)
{
    if (proven == CTL_ISOLATION_FULL)
        return true;
    if (!ctl_isolation_alone())
        return false;
    run.hidden = ctl_isolation_hide();
    return run.hidden >= 0 && ctl_isolation_prove() == CTL_ISOLATION_FULL;
}

int ctl_run(const char *marker)
{
    const char *fault;
    const plim_bytes nothing = {NULL, 0};
    run.streams[0] = STDOUT_FILENO;
    run.streams[1] = STDERR_FILENO;
    run.hidden = -1;
    umask(022);
    signal(SIGPIPE, SIG_IGN); /* a host that has gone away shows as a failed write */
    if (!ctl_write_all(STDERR_FILENO, plim_bytes_of(marker)))
        return CTL_EXIT_NO_REPORT;
    enum ctl_isolation proven = ctl_isolation_prove();
    if (!ctl_isolation_may_read(proven))
        return report_error(CTL_ERROR_ISOLATION, nothing);
    run.document = BASE_BUF_INIT(CTL_PLAN_BYTES_MAX);
    if (!ctl_read_all(STDIN_FILENO, &run.document))
        return report_errno(CTL_ERROR_PLAN, nothing);
    if (!run.document.len)
        return CTL_EXIT_NO_INPUT;
    if (!ctl_plan_read(run.document.data, run.document.len, &run.plan, &run.has_key, &fault))
        return report_error(CTL_ERROR_PLAN, plim_bytes_of(fault));
    return may_run_steps(proven) ? execute() : report_error(CTL_ERROR_ISOLATION, nothing);
}
