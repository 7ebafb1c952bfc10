/*
 * Beginnings and ends of the server: listeners that never start, requests that outlive it, answers
 * from many threads at once, draining, a listening socket that dies.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "http/server.h"

enum { HANG_S = 60, THREADS = 8, REQUESTS_EACH = 200, HELD_MAX = 16 };

typedef struct fixture {
    http_server *server;
    http_listener *listener;
    pthread_t thread;
    sem_t held_one;
    http_request *held[HELD_MAX];
    atomic_size_t held_count;
    atomic_int drained; /* 1 clean, 2 hard */
    atomic_int failures;
} fixture;

static void *answer_now(void *req)
{
    http_respond_text(req, 200, "from another thread");
    return NULL;
}

/* "/held" is kept for the test to answer, anything else is answered by a thread of its own. */
static void on_request(http_request *req, void *data)
{
    fixture *self = data;
    pthread_t thread;
    if (base_bytes_is(http_request_path(req), "/held")) {
        self->held[atomic_fetch_add(&self->held_count, 1)] = req;
        assert_true(http_request_cancel_fd(req) >= 0);
        sem_post(&self->held_one);
    } else if (pthread_create(&thread, NULL, answer_now, req) == 0) {
        pthread_detach(thread);
    } else {
        http_respond_text(req, 503, "no thread");
    }
}

static void on_failed(http_listener *listener, const char *why, void *data)
{
    fixture *self = data;
    assert_non_null(strstr(why, "Invalid argument"));
    atomic_fetch_add(&self->failures, 1);
    http_listener_drain(listener, 0, NULL, NULL);
}

static void on_drained(bool clean, void *data)
{
    fixture *self = data;
    atomic_store(&self->drained, clean ? 1 : 2);
}

static http_listener *listen_any(fixture *self)
{
    http_limits limits = http_limits_default();
    limits.discard_ms = 10;
    const http_listener_config config = {
        .name = "test",
        .address = "127.0.0.1:0",
        .limits = limits,
        .handler = {.on_request = on_request, .on_failed = on_failed, .data = self}};
    http_listener *listener = http_server_listen(self->server, &config, NULL);
    assert_non_null(listener);
    return listener;
}

static void *serve(void *server)
{
    return http_server_run(server, NULL) ? server : NULL;
}

static void start(fixture *self)
{
    self->server = http_server_new(NULL);
    assert_non_null(self->server);
    self->listener = listen_any(self);
    sem_init(&self->held_one, 0, 0);
    http_listener_start(self->listener);
    assert_int_equal(pthread_create(&self->thread, NULL, serve, self->server), 0);
}

static void join_and_free(fixture *self)
{
    void *served;
    assert_int_equal(pthread_join(self->thread, &served), 0);
    assert_non_null(served);
    http_server_free(self->server);
    sem_destroy(&self->held_one);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval hang = {HANG_S, 0};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang));
    return fd;
}

static void send_get(int fd, const char *path)
{
    base_buf text = BASE_BUF_INIT(1024);
    base_buf_printf(&text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), text.len);
    base_buf_free(&text);
}

static void test_free_without_run(void **state)
{
    (void)state;
    fixture self = {.server = http_server_new(NULL)};
    assert_non_null(self.server);
    http_server_free(self.server);

    self.server = http_server_new(NULL);
    listen_any(&self);
    http_listener_start(listen_any(&self));
    http_server_free(self.server);
    http_server_free(NULL);
}

static void test_drain_before_start(void **state)
{
    (void)state;
    fixture self = {.server = http_server_new(NULL)};
    self.listener = listen_any(&self);
    http_listener_drain(self.listener, 1000, on_drained, &self);
    assert_true(http_server_run(self.server, NULL));
    assert_int_equal(atomic_load(&self.drained), 1);
    http_server_free(self.server);
}

/* A hard drain cancels the request; its answer may come when the server is long gone. */
static void test_request_outlives_the_server(void **state)
{
    (void)state;
    fixture self = {0};
    start(&self);
    int fd = connect_to(http_listener_port(self.listener));
    send_get(fd, "/held");
    sem_wait(&self.held_one);
    http_request *req = self.held[0];
    assert_false(http_request_canceled(req));
    http_listener_drain(self.listener, 1, on_drained, &self);
    join_and_free(&self);
    assert_int_equal(atomic_load(&self.drained), 2);
    assert_true(http_request_canceled(req));
    assert_true(base_bytes_is(http_request_path(req), "/held"));
    assert_true(http_respond_text(req, 200, "late"));
    char byte;
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

/* Answered after its client has left, while the server still runs. */
static void test_request_outlives_its_connection(void **state)
{
    (void)state;
    fixture self = {0};
    start(&self);
    int fd = connect_to(http_listener_port(self.listener));
    send_get(fd, "/held");
    sem_wait(&self.held_one);
    close(fd);
    const run_ctx ctx = {base_deadline_after_ms(1000 * INT64_C(60)),
                         http_request_cancel_fd(self.held[0])};
    assert_int_equal(run_ctx_poll(&ctx, NULL, 0), RUN_CANCELED);
    assert_true(http_respond_text(self.held[0], 200, "late"));
    http_listener_drain(self.listener, 1000 * INT64_C(60), on_drained, &self);
    join_and_free(&self);
    assert_int_equal(atomic_load(&self.drained), 1);
}

static void *ask_often(void *data)
{
    fixture *self = data;
    int fd = connect_to(http_listener_port(self->listener));
    size_t answered = 0;
    for (; answered < REQUESTS_EACH; answered++) {
        char text[1024] = "";
        size_t length = 0;
        send_get(fd, "/thread");
        while (!strstr(text, "from another thread")) {
            ssize_t got = recv(fd, text + length, sizeof(text) - 1 - length, 0);
            if (got <= 0)
                break;
            length += (size_t)got;
        }
    }
    close(fd);
    return answered == REQUESTS_EACH ? self : NULL;
}

static void test_answers_from_many_threads(void **state)
{
    (void)state;
    fixture self = {0};
    pthread_t clients[THREADS];
    start(&self);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, ask_often, &self), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(clients[i], &done);
        assert_non_null(done);
    }
    http_listener_drain(self.listener, 1000 * INT64_C(60), on_drained, &self);
    join_and_free(&self);
    assert_int_equal(atomic_load(&self.drained), 1);
}

static void test_dead_listening_socket_is_reported_once(void **state)
{
    (void)state;
    fixture self = {0};
    start(&self);
    shutdown(self.listener->fd, SHUT_RDWR);
    join_and_free(&self); /* on_failed drains it */
    assert_int_equal(atomic_load(&self.failures), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_without_run),
        cmocka_unit_test(test_drain_before_start),
        cmocka_unit_test(test_request_outlives_the_server),
        cmocka_unit_test(test_request_outlives_its_connection),
        cmocka_unit_test(test_answers_from_many_threads),
        cmocka_unit_test(test_dead_listening_socket_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
