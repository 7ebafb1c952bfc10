/*
 * The daemon's rows of the benchmark: plimsolld with the `wasm` provider on loopback, against nginx
 * answering a static 200 under the same load, and against its own Describe. Prints one JSON object
 * a line; bench/run adds other floors.
 */
#include "http_load.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOAD_CONNECTIONS = 4, NGINX_PORT = 18747 };
static const double WARM_S = 0.3, LOAD_S = 2.0;

#define SERVICE "/plimsoll.v1.SandboxService/"
#define POST(procedure, length, body)                                                              \
    "POST " SERVICE procedure " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"     \
    "Content-Length: " length "\r\n\r\n" body

static const char describe[] = POST("Describe", "2", "{}");
static const char run[] =
    POST("Run", "57", "{\"protocol\":3,\"javascript\":{\"code\":\"console.log(1 + 1)\"}}");
static const char get[] = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- the daemon ---- */

static pid_t start_daemon(int *log_end)
{
    char *const arguments[] = {(char[]){"plimsolld"}, NULL};
    char *const environment[] = {
        (char[]){"SANDBOX_PROVIDER=wasm"},
        (char[]){"PLIMSOLL_INSECURE=1"},
        (char[]){"PLIMSOLL_ADDR=127.0.0.1:0"},
        (char[]){"PLIMSOLL_METRICS_ADDR=off"},
        (char[]){"SANDBOX_RATE_PER_MIN=0"},
        (char[]){"SANDBOX_PER_KEY_CONCURRENT=0"},
        NULL,
    };
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("bench: pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (posix_spawn(&pid, BENCH_PLIMSOLLD, &actions, NULL, arguments, environment) != 0)
        die("bench: " BENCH_PLIMSOLLD);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *log_end = ends[0];
    return pid;
}

/* The port of the line `plimsolld listening`; the audit lines after it are read away by nobody: see
 * drop_log. */
static int port_of(FILE *log)
{
    char line[4096];
    while (fgets(line, sizeof(line), log)) {
        const char *address = strstr(line, "\"addr\":\"127.0.0.1:");
        if (strstr(line, "plimsolld listening") && address)
            return (int)strtol(address + strlen("\"addr\":\"127.0.0.1:"), NULL, 10);
    }
    fprintf(stderr, "bench: the daemon did not start\n");
    exit(1);
}

/* Something must read the log, or the daemon would wait for room in the pipe. */
static pid_t drop_log(int log_end)
{
    char *const arguments[] = {(char[]){"cat"}, NULL};
    char *const environment[] = {NULL};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, log_end, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, "/bin/cat", &actions, NULL, arguments, environment) != 0)
        die("bench: cat");
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static double rss_mb(pid_t pid)
{
    char path[64], line[256];
    double kb = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    if (!status)
        die("bench: /proc");
    while (fgets(line, sizeof(line), status))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtod(line + 6, NULL);
    fclose(status);
    return kb / 1024;
}

static void end(pid_t pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* ---- nginx ---- */

/* Answers a second of nginx serving a static 200, one worker; 0 when there is no nginx. */
static double nginx_per_s(void)
{
    char folder[] = "/tmp/plimsoll-bench-XXXXXX", path[128], config[128];
    if (access("/usr/sbin/nginx", X_OK) != 0 || !mkdtemp(folder))
        return 0;
    chmod(folder, 0755);
    snprintf(path, sizeof(path), "%s/nginx.conf", folder);
    FILE *file = fopen(path, "we");
    if (!file)
        die("bench: nginx.conf");
    fprintf(file,
            "daemon off; worker_processes 1; pid %s/pid; error_log stderr crit;\n"
            "events { worker_connections 256; }\n"
            "http { access_log off; keepalive_requests 100000000; server { listen 127.0.0.1:%d; "
            "location / {\n"
            "default_type text/plain; return 200 \"ok\\n\"; } } }\n",
            folder, NGINX_PORT);
    fclose(file);
    snprintf(config, sizeof(config), "%s", path);
    char *const arguments[] = {(char[]){"nginx"}, (char[]){"-c"}, config,
                               (char[]){"-p"},    folder,         NULL};
    char *const environment[] = {NULL};
    pid_t pid;
    if (posix_spawn(&pid, "/usr/sbin/nginx", NULL, NULL, arguments, environment) != 0)
        die("bench: nginx");
    usleep(300000);
    load_run(NGINX_PORT, get, LOAD_CONNECTIONS, WARM_S);
    double per_s = load_run(NGINX_PORT, get, LOAD_CONNECTIONS, LOAD_S).per_s;
    end(pid);
    unlink(path);
    rmdir(folder);
    return per_s;
}

/* ---- rows ---- */

static void row(const char *name, const char *unit, double value, const char *floor_name,
                double floor)
{
    printf("{\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g", name, unit, value);
    if (floor_name)
        printf(", \"floor_name\": \"%s\"", floor_name);
    if (floor > 0)
        printf(", \"floor\": %.6g, \"ratio\": %.6g", floor, value / floor);
    printf("}\n");
    fflush(stdout);
}

int main(void)
{
    int log_end;
    signal(SIGPIPE, SIG_IGN);
    pid_t daemon_pid = start_daemon(&log_end);
    FILE *log = fdopen(log_end, "r");
    if (!log)
        die("bench: log");
    int port = port_of(log);
    pid_t reader = drop_log(log_end);
    usleep(300000);
    double idle_mb = rss_mb(daemon_pid);

    load_run(port, describe, LOAD_CONNECTIONS, WARM_S);
    load_result describes = load_run(port, describe, LOAD_CONNECTIONS, LOAD_S);
    double nginx = nginx_per_s();
    load_result describe_alone = load_run(port, describe, 1, WARM_S);
    load_run(port, run, 1, WARM_S);
    load_result alone = load_run(port, run, 1, LOAD_S);
    load_run(port, run, LOAD_CONNECTIONS, WARM_S);
    load_result runs = load_run(port, run, LOAD_CONNECTIONS, LOAD_S);
    end(daemon_pid);
    end(reader);
    fclose(log);

    if (nginx == 0)
        fprintf(stderr,
                "bench/daemon: /usr/sbin/nginx is not here, so daemon_describe_rps has no floor\n");
    row("daemon_describe_rps", "1/s", describes.per_s, nginx > 0 ? "nginx_static_200" : NULL,
        nginx);
    row("daemon_wasm_p50_ms", "ms", alone.p50_ms, "daemon_describe_p50_ms", describe_alone.p50_ms);
    row("daemon_wasm_p99_ms", "ms", alone.p99_ms, "daemon_describe_p99_ms", describe_alone.p99_ms);
    row("daemon_wasm_runs_per_s", "1/s", runs.per_s, "wasm_engine_runs_per_s", 0);
    row("daemon_idle_rss_mb", "MB", idle_mb, NULL, 0);
    return 0;
}
