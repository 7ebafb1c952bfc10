#include "local_daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_MS = 150,
    READY_POLLS_MAX = 200, /* 30 s */
    STOP_POLLS_MAX = 100,  /* 15 s for a clean stop, then a kill */
    TOKEN_LENGTH = 64,
    ENVIRONMENT_MAX = 1024,
    ADDED_VARIABLES = 4,
};

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

static bool problem(local_daemon *daemon, const char *what)
{
    snprintf(daemon->problem, sizeof(daemon->problem), "%.120s: %.100s", what, strerror(errno));
    return false;
}

/* ---- a place, a caller, a port ---- */

static bool make_folder(local_daemon *daemon)
{
    snprintf(daemon->folder, sizeof(daemon->folder), "/tmp/plimsoll-example-XXXXXX");
    if (!mkdtemp(daemon->folder)) { /* mode 0700 */
        daemon->folder[0] = '\0';
        return problem(daemon, "no private folder");
    }
    snprintf(daemon->clients, sizeof(daemon->clients), "%s/clients.json", daemon->folder);
    return true;
}

/* Run a program with its stdout in `out`; true when it exits with 0. */
static bool read_output(char *const *command, char *out, size_t size)
{
    int ends[2], status = -1;
    pid_t child;
    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&child, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t length = 0;
    ssize_t count;
    while (!failed && length + 1 < size &&
           (count = read(ends[0], out + length, size - 1 - length)) > 0)
        length += (size_t)count;
    out[length] = '\0';
    close(ends[0]);
    while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return !failed && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The tool writes only the token's SHA-256 into the file; the token itself comes to us. */
static bool make_caller(local_daemon *daemon, const char *bin)
{
    char tool[256];
    snprintf(tool, sizeof(tool), "%s/plimsoll", bin);
    char *const command[] = {tool,   "callers", "create",         "--file", daemon->clients,
                             "--id", "example", "--token-stdout", NULL};
    if (access(tool, X_OK) != 0)
        return problem(daemon, tool);
    errno = 0;
    if (!read_output(command, daemon->token, sizeof(daemon->token)) ||
        strlen(daemon->token) != TOKEN_LENGTH + 1)
        return problem(daemon, "no caller was made");
    daemon->token[TOKEN_LENGTH] = '\0';
    return true;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((unsigned short)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static bool choose_port(local_daemon *daemon)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool chosen = fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
                  getsockname(fd, (struct sockaddr *)&address, &length) == 0;
    if (fd >= 0)
        close(fd);
    daemon->port = ntohs(address.sin_port);
    snprintf(daemon->base_url, sizeof(daemon->base_url), "http://127.0.0.1:%d", daemon->port);
    return chosen || problem(daemon, "no free port");
}

/* ---- the daemon ---- */

/* Our environment without any setting of plimsoll's, and these. */
static bool spawn(local_daemon *daemon, const char *bin, const char *provider, int log_fd)
{
    char program[256], name[80], address[64], clients[160];
    char metrics[] = "PLIMSOLL_METRICS_ADDR=off";
    char *environment[ENVIRONMENT_MAX];
    size_t count = 0;
    snprintf(program, sizeof(program), "%s/plimsolld", bin);
    snprintf(name, sizeof(name), "SANDBOX_PROVIDER=%s", provider);
    snprintf(address, sizeof(address), "PLIMSOLL_ADDR=127.0.0.1:%d", daemon->port);
    snprintf(clients, sizeof(clients), "PLIMSOLL_CLIENTS_FILE=%s", daemon->clients);
    for (char **entry = environ; *entry && count < ENVIRONMENT_MAX - ADDED_VARIABLES - 1; entry++)
        if (strncmp(*entry, "PLIMSOLL_", 9) != 0 && strncmp(*entry, "SANDBOX_", 8) != 0)
            environment[count++] = *entry;
    environment[count++] = name;
    environment[count++] = address;
    environment[count++] = clients;
    environment[count++] = metrics;
    environment[count] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, log_fd, STDERR_FILENO);
    errno =
        posix_spawn(&daemon->pid, program, &actions, NULL, (char *[]){program, NULL}, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (errno == 0)
        return true;
    daemon->pid = 0;
    return problem(daemon, program);
}

/* Does GET /readyz answer 200? */
static bool is_ready(const local_daemon *daemon)
{
    static const char request[] =
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static const char expected[] = "HTTP/1.1 200 ";
    char answer[sizeof(expected)] = "";
    struct sockaddr_in address = loopback(daemon->port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool asked =
        fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(request) - 1 &&
        recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL) > 0;
    if (fd >= 0)
        close(fd);
    return asked && strcmp(answer, expected) == 0;
}

static bool has_ended(local_daemon *daemon)
{
    if (daemon->pid > 0 && waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid)
        daemon->pid = 0;
    return daemon->pid == 0;
}

static bool wait_until_ready(local_daemon *daemon)
{
    for (int i = 0; i < READY_POLLS_MAX; i++) {
        if (is_ready(daemon))
            return true;
        if (has_ended(daemon))
            break;
        wait_a_little();
    }
    snprintf(daemon->problem, sizeof(daemon->problem), "the daemon did not become ready");
    return false;
}

bool local_daemon_start(local_daemon *daemon, const char *bin, const char *provider, int log_fd)
{
    *daemon = (local_daemon){.pid = 0};
    return make_folder(daemon) && make_caller(daemon, bin) && choose_port(daemon) &&
           spawn(daemon, bin, provider, log_fd) && wait_until_ready(daemon);
}

void local_daemon_kill(local_daemon *daemon)
{
    if (has_ended(daemon))
        return;
    kill(daemon->pid, SIGKILL);
    waitpid(daemon->pid, NULL, 0);
    daemon->pid = 0;
}

void local_daemon_stop(local_daemon *daemon)
{
    if (!has_ended(daemon))
        kill(daemon->pid, SIGTERM);
    for (int i = 0; i < STOP_POLLS_MAX && !has_ended(daemon); i++)
        wait_a_little();
    local_daemon_kill(daemon);
    explicit_bzero(daemon->token, sizeof(daemon->token));
    if (daemon->folder[0]) {
        unlink(daemon->clients);
        rmdir(daemon->folder);
        daemon->folder[0] = '\0';
    }
}
