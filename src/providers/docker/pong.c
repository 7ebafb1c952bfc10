#include "providers/docker/pong.h"

#include "providers/docker/text.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { ANSWER_MS = 5000 };

/* Read something, then answer; whoever says nothing is answered nothing. */
static void answer(int fd, int stop)
{
    char ignored[256];
    run_ctx ctx = {base_deadline_after_ms(ANSWER_MS), stop};
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (run_ctx_poll(&ctx, &wait, 1) == RUN_READY &&
        recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
        send(fd, "pong\n", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *serve(void *data)
{
    const docker_pong *pong = data;
    run_ctx ctx = {BASE_NEVER, pong->stop};
    for (;;) {
        struct pollfd wait = {.fd = pong->listener, .events = POLLIN};
        if (run_ctx_poll(&ctx, &wait, 1) != RUN_READY)
            return NULL;
        /* cppcheck-suppress nullPointer ; nobody asks for the address */
        _cleanup_fd_ int fd = accept4(pong->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            answer(fd, pong->stop);
    }
}

static bool listen_at(docker_pong *pong)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(pong->path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(address.sun_path, pong->path, strlen(pong->path));
    pong->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return pong->listener >= 0 &&
           bind(pong->listener, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
           chmod(pong->path, 0666) == 0 && listen(pong->listener, 8) == 0;
}

static bool start_thread(docker_pong *pong)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&pong->thread, NULL, serve, pong);
    pong->running = errno == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pong->running;
}

bool docker_pong_start(docker_pong *pong, const char *tmpdir, plim_error *err)
{
    *pong = (docker_pong){.listener = -1, .stop = -1};
    int length =
        snprintf(pong->directory, sizeof(pong->directory), "%s/plsm-smoke-sock-XXXXXX", tmpdir);
    bool fits = (size_t)length < sizeof(pong->directory);
    if (!fits)
        errno = ENAMETOOLONG;
    if (!fits || !mkdtemp(pong->directory)) {
        pong->directory[0] = '\0';
        return core_refuse_environment(err, "no directory for a socket under TMPDIR: %s",
                                       base_errno_text(errno));
    }
    snprintf(pong->path, sizeof(pong->path), "%s/host-api.sock", pong->directory);
    pong->stop = eventfd(0, EFD_CLOEXEC);
    if (pong->stop >= 0 && listen_at(pong) && start_thread(pong))
        return true;
    core_refuse_environment(err, "no socket for the startup proof under TMPDIR: %s",
                            base_errno_text(errno));
    docker_pong_stop(pong);
    return false;
}

void docker_pong_stop(docker_pong *pong)
{
    if (pong->running) {
        eventfd_write(pong->stop, 1);
        pthread_join(pong->thread, NULL);
    }
    pong->running = false;
    base_fd_close(&pong->listener);
    base_fd_close(&pong->stop);
    if (pong->directory[0]) {
        unlink(pong->path);
        rmdir(pong->directory);
    }
    pong->directory[0] = '\0';
}
