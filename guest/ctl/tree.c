#include "tree.h"

#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROCESSES_MAX = 8192, /* looked at in one round */
    ROUNDS_MAX = 50,
    END_WAIT_MS = 2000, /* for the kernel to end what was killed */
    END_LOOK_MS = 10,
    LEAVE_LOOKS = 20, /* for threads that were killed to take note of it */
    LEAVE_LOOK_US = 50,
    EXITING = 0x4, /* PF_EXITING of Linux's sched.h: does nothing more but end */
    STAT_BYTES = 512,
};

struct process {
    pid_t pid, parent;
    bool ours;
};

/* The parent and the state of a process; false when it is gone. */
static bool read_process(const char *name, struct process *process, char *state)
{
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%s/stat", name);
    if (!ctl_read_text(path, text, sizeof text))
        return false;
    const char *after = strrchr(text, ')'); /* the name before it may hold anything */
    if (!after || strlen(after) < sizeof ") S 1" - 1)
        return false;
    *state = after[2];
    *process = (struct process){.pid = (pid_t)strtol(name, NULL, 10),
                                .parent = (pid_t)strtol(after + 3, NULL, 10)};
    return true;
}

static size_t list_processes(struct process *list)
{
    size_t count = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        return 0;
    /* cppcheck-suppress readdirCalled ; there is one thread */
    for (struct dirent *entry; count < PROCESSES_MAX && (entry = readdir(folder));) {
        char state;
        if (entry->d_name[strspn(entry->d_name, "0123456789")] != '\0')
            continue;
        if (read_process(entry->d_name, &list[count], &state) && state != 'Z' && state != 'X')
            count++;
    }
    closedir(folder);
    return count;
}

/* Kill our descendants among the processes; false when there was none. */
static bool kill_descendants(struct process *list, size_t count)
{
    const pid_t self = getpid();
    bool found = false;
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < count; i++) {
            bool ours = list[i].parent == self;
            for (size_t j = 0; !ours && j < count; j++)
                ours = list[j].ours && list[j].pid == list[i].parent;
            if (list[i].ours || !ours)
                continue;
            list[i].ours = grew = found = true;
            kill(list[i].pid, SIGKILL);
        }
    }
    return found;
}

void ctl_tree_kill(void)
{
    static struct process list[PROCESSES_MAX];
    if (getpid() == 1) {
        kill(-1, SIGKILL);
        return;
    }
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        if (!kill_descendants(list, list_processes(list)))
            return;
        usleep(1000); /* let what was killed go, and its orphans become our children */
    }
}

/* Whether nobody is there but us and one other. What was killed can start nobody. A zombie counts:
 * it may be the first thread of a process that has others. */
static bool only_we_and(pid_t other)
{
    bool only = true;
    DIR *folder = opendir("/proc");
    if (!folder)
        return false;
    /* cppcheck-suppress readdirCalled ; there is one thread */
    for (struct dirent *entry; only && (entry = readdir(folder));) {
        long pid = strtol(entry->d_name, NULL, 10);
        only = pid <= 0 || pid == getpid() || pid == other;
    }
    closedir(folder);
    return only;
}

/* Whether a thread is gone, or does nothing more but go. */
static bool is_over(pid_t process, const char *thread)
{
    char path[96], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)process, thread);
    if (!ctl_read_text(path, text, sizeof text))
        return access(path, F_OK) < 0 && errno == ENOENT;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 9; field++)
        at = strchr(at + 1, ' ');
    return at && (strtoul(at, NULL, 10) & EXITING);
}

/* The same of every thread but the first. One that was killed may still finish a write. */
static bool threads_are_over(pid_t process)
{
    char path[64];
    bool over = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *folder = opendir(path);
    if (!folder)
        return errno == ENOENT;
    /* cppcheck-suppress readdirCalled ; there is one thread */
    for (struct dirent *entry; over && (entry = readdir(folder));) {
        if (entry->d_name[0] != '.' && (pid_t)strtol(entry->d_name, NULL, 10) != process)
            over = is_over(process, entry->d_name);
    }
    closedir(folder);
    return over;
}

/* Everybody was killed: does nobody do anything more, one that stands in its call to end apart? */
static bool only_leaves(pid_t process)
{
    for (int i = 0; i < LEAVE_LOOKS && only_we_and(process); i++) {
        if (threads_are_over(process))
            return true;
        usleep(LEAVE_LOOK_US);
    }
    return false;
}

bool ctl_tree_end(pid_t leaving)
{
    const struct timespec look = {.tv_nsec = END_LOOK_MS * 1000000L};
    int64_t deadline = ctl_now_ms() + END_WAIT_MS;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (getpid() != 1)
        return false;
    kill(-1, SIGKILL);
    if (leaving && only_leaves(leaving))
        return true;
    for (;;) {
        kill(-1, SIGKILL);
        pid_t pid;
        do
            pid = waitpid(-1, NULL, WNOHANG | __WALL);
        while (pid > 0 || (pid < 0 && errno == EINTR));
        if (pid < 0)
            return errno == ECHILD;
        if (ctl_now_ms() >= deadline)
            return false;
        sigtimedwait(&child, NULL, &look);
    }
}
