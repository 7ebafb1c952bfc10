#include "sandbox_support.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "providers/wasm/host.h"

enum { SETTINGS_MAX = 8, PIDS_MAX = 256 };

const char *worker_missing(void)
{
    static char text[4200];
    char path[4096];
    if (!wasm_host_locate(path, sizeof(path)))
        return "the worker host cannot be located";
    if (access(path, X_OK) == 0)
        return NULL;
    snprintf(text, sizeof(text), "no worker host at %s", path);
    return text;
}

plim_sandbox *open_wasm(const char *const *settings)
{
    plim_setting list[SETTINGS_MAX + 1] = {{PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")}};
    plim_local_options options = {sizeof(options), list, 1, true};
    for (; settings && *settings; settings++) {
        const char *equals = strchr(*settings, '=');
        assert_true(options.setting_count <= SETTINGS_MAX);
        list[options.setting_count++] =
            (plim_setting){{*settings, (size_t)(equals - *settings)}, plim_bytes_of(equals + 1)};
    }
    plim_sandbox *sandbox = NULL;
    plim_error err = PLIM_ERROR_INIT;
    if (plim_sandbox_local(&options, &sandbox, &err) != PLIM_OK)
        fail_msg("the sandbox does not open: %s", plim_error_message(&err));
    return sandbox;
}

plim_result *run_snippet(plim_sandbox *sandbox, const char *code, int64_t timeout_ms)
{
    plim_javascript_request request = {.size = sizeof(request),
                                       .options = {.timeout_ms = timeout_ms},
                                       .code = plim_bytes_of(code)};
    plim_result *result = NULL;
    plim_error err = PLIM_ERROR_INIT;
    if (plim_run_javascript(sandbox, &request, NULL, &result, &err) != PLIM_OK) {
        print_error("%.100s: %s\n", code, plim_error_message(&err));
        return NULL;
    }
    return result;
}

static bool begins_with(plim_bytes text, const char *front)
{
    if (front[0] == '\0')
        return text.len == 0;
    size_t length = strlen(front);
    return text.len >= length && memcmp(text.data, front, length) == 0;
}

void expect_run_at(plim_sandbox *sandbox, const char *code, int exit_code, const char *out,
                   const char *err, const char *file, int line)
{
    plim_result *result = run_snippet(sandbox, code, 20000);
    if (!result)
        _fail(file, line);
    plim_bytes found_out = plim_result_stdout(result), found_err = plim_result_stderr(result);
    plim_bytes wanted = plim_bytes_of(out);
    bool good = plim_result_exit_code(result) == exit_code &&
                plim_result_timed_out(result) == (exit_code == 124) &&
                (!out || (found_out.len == wanted.len &&
                          (wanted.len == 0 || memcmp(found_out.data, out, wanted.len) == 0))) &&
                (!err || begins_with(found_err, err));
    if (!good)
        print_error("%.200s\nexit code %d, stdout \"%.*s\", stderr \"%.*s\"; expected %d, \"%s\", "
                    "\"%s\"\n",
                    code, plim_result_exit_code(result), (int)found_out.len, found_out.data,
                    (int)found_err.len, found_err.data, exit_code, out ? out : "(any)",
                    err ? err : "(any)");
    plim_result_free(result);
    if (!good)
        _fail(file, line);
}

/* Parent and name of a process: the fields of /proc/<pid>/stat around its parentheses. */
static bool read_stat(pid_t pid, pid_t *parent, char *name, size_t size)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close[1] != ' ' || close[2] == '\0')
        return false;
    *close = '\0';
    snprintf(name, size, "%s", open + 1);
    *parent = (pid_t)strtol(close + 3, NULL, 10);
    return true;
}

static size_t find_children(pid_t parent, const char *named, pid_t *out, size_t most)
{
    size_t count = 0;
    DIR *folder = opendir("/proc");
    assert_non_null(folder);
    for (struct dirent *entry; count < most && (entry = readdir(folder));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10), its_parent;
        char name[32];
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_stat(pid, &its_parent, name, sizeof(name)) && its_parent == parent &&
            (!named || strcmp(name, named) == 0))
            out[count++] = pid;
    }
    closedir(folder);
    return count;
}

size_t children_of(pid_t parent, pid_t *out, size_t most)
{
    return find_children(parent, NULL, out, most);
}

size_t host_pids(pid_t *out, size_t most)
{
    return find_children(getpid(), "plimsoll-wasm-w", out, most);
}

size_t worker_pids(pid_t *out, size_t most)
{
    pid_t hosts[PIDS_MAX];
    size_t count = 0;
    for (size_t host = host_pids(hosts, PIDS_MAX); host-- > 0 && count < most;)
        count += children_of(hosts[host], out + count, most - count);
    return count;
}

bool await_children(size_t count)
{
    pid_t pids[PIDS_MAX];
    for (int waited = 0; waited < HANG_MS; waited += 5) {
        if (children_of(getpid(), pids, PIDS_MAX) == count)
            return true;
        sleep_ms(5);
    }
    return false;
}

const char *status_of(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64], line[256];
    size_t length = strlen(name);
    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return out;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", line + length + 1 + strspn(line + length + 1, "\t "));
        }
    fclose(file);
    return out;
}

bool await_end(pid_t pid)
{
    for (int waited = 0; waited < HANG_MS; waited += 5) {
        char state[64];
        if (kill(pid, 0) != 0 || status_of(pid, "State", state, sizeof(state))[0] == 'Z')
            return true;
        sleep_ms(5);
    }
    return false;
}

size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

size_t resident_kb(void)
{
    if (SANITIZED)
        return 0;
    char text[64];
    return (size_t)strtoul(status_of(getpid(), "VmRSS", text, sizeof(text)), NULL, 10);
}

void sleep_ms(int ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}
