#include "daemon/daemon.h"

#include "daemon/environment.h"
#include "daemon/state.h"

#include <signal.h>

enum { EXIT_CANNOT = 1, EXIT_ARGUMENT = 2, REFERENCE_BYTES_MAX = 64 * 1024 };

/* ---- step 1: arguments ---- */

static bool print_reference(int fd)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(REFERENCE_BYTES_MAX);
    base_buf_add_text(&text,
                      "usage: plimsolld [-h | --help | help]\n\n"
                      "Runs untrusted code for authenticated callers. All configuration comes from "
                      "the environment,\nread once at startup; the log goes to stderr.\n\n");
    core_settings_help(&text);
    return !text.failed && base_write_all(fd, base_buf_bytes(&text));
}

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0 ||
           strcmp(argument, "help") == 0;
}

/* The first argument that is not understood: of `-h extra`, the second. */
static int refuse_arguments(int argc, char **argv)
{
    const char *wrong = argc > 2 && asks_for_help(argv[1]) ? argv[2] : argv[1];
    fprintf(stderr, "plimsolld: unexpected argument \"%s\"\n\n", wrong);
    print_reference(STDERR_FILENO);
    return EXIT_ARGUMENT;
}

/* ---- step 2: descriptors and the log ---- */

/* Half of the raised limit is for connections, the other half for runs; 0 when it cannot be read.
 */
static int64_t connections_of_limit(void)
{
    uint64_t limit = base_fd_limit_raise();
    return limit / 2 < INT32_MAX ? (int64_t)(limit / 2) : INT32_MAX;
}

static void open_log(void)
{
    core_daemon_settings settings;
    /* The format is read whatever else is wrong; that is reported in its turn. */
    core_daemon_settings_read(core_lookup_environment, NULL, &settings, NULL);
    base_log_open(STDERR_FILENO, settings.log_text ? BASE_LOG_TEXT : BASE_LOG_JSON);
    base_wipe(settings.token, sizeof(settings.token));
}

/* ---- the whole life ---- */

static void release(daemon_state *daemon)
{
    daemon_recheck_stop(&daemon->recheck);
    rpc_server_free(daemon->procedures);
    http_server_free(daemon->server);
    core_gate_free(daemon->gate);
    if (daemon->auth)
        daemon_auth_report_refused(daemon->auth, true);
    daemon_auth_free(daemon->auth);
}

static bool run(daemon_state *daemon)
{
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    if (!daemon_start(daemon, &err)) {
        if (plim_error_status(&err) != PLIM_OK)
            base_log(BASE_LOG_ERROR, "plimsolld cannot start",
                     LOG_STR("error", plim_error_message(&err)));
        return false;
    }
    if (daemon_serve(daemon, &err))
        return true;
    base_log(BASE_LOG_ERROR, "plimsolld stops serving", LOG_STR("error", plim_error_message(&err)));
    return false;
}

int daemon_main(int argc, char **argv, const daemon_program *program)
{
    static daemon_state daemon;
    base_fd_occupy_standard();
    if (argc > 2 || (argc == 2 && !asks_for_help(argv[1])))
        return refuse_arguments(argc, argv);
    if (argc == 2)
        return print_reference(STDOUT_FILENO) ? EXIT_SUCCESS : EXIT_CANNOT;
    daemon = (daemon_state){.program = program, .recheck = DAEMON_RECHECK_INIT};
    signal(SIGPIPE, SIG_IGN);
    daemon.connections_max = connections_of_limit();
    open_log();
    daemon_warn_unknown(environ);
    bool served = run(&daemon);
    release(&daemon);
    if (served)
        base_log(BASE_LOG_INFO, "plimsolld stopped");
    return served && !daemon.listener_failed ? EXIT_SUCCESS : EXIT_CANNOT;
}
