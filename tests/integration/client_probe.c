/*
 * The library's client as a test drives it: one command a line on stdin, one JSON object a line on
 * stdout.
 *
 *   open NAME URL [TOKEN [CA-FILE]]   a handle; "-" for no token
 *   run NAME FLOOR CODE               a snippet; FLOOR "-" for none; CODE to the end of the line
 *   cancel NAME MS CODE               the same, cancelled after MS milliseconds
 *   describe NAME
 *   crowd NAME THREADS RUNS           that many threads, each with that many snippets of its own
 *   pool NAME...                      a pool of handles, in that order
 *   place FLOOR BACKEND CODE          a snippet through the pool; "-" for none
 *   free NAME
 */
#include "base/base.h"

#include <jansson.h>
#include <plimsoll/plimsoll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { HANDLES_MAX = 8, TIMEOUT_MS = 60000 };

static struct handle {
    char name[32];
    plim_sandbox *sandbox;
} handles[HANDLES_MAX];

static plim_pool *pool;

static plim_sandbox *find(const char *name)
{
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (strcmp(handles[i].name, name) == 0 && name[0])
            return handles[i].sandbox;
    fprintf(stderr, "no handle %s\n", name);
    exit(2);
}

/* ---- answers ---- */

static void add_error(json_t *out, const plim_error *err)
{
    json_object_set_new(out, "status", json_string(plim_status_name(plim_error_status(err))));
    json_object_set_new(out, "code", json_string(plim_error_code(err)));
    json_object_set_new(out, "message", json_string(plim_error_message(err)));
    json_object_set_new(out, "mark",
                        json_string(plim_not_dispatched_name(plim_error_not_dispatched(err))));
    json_object_set_new(out, "may_have_run", json_boolean(plim_may_have_run(err)));
    json_object_set_new(out, "http", json_integer(plim_error_http_status(err)));
    json_object_set_new(out, "not_bound", json_boolean(plim_error_answer_not_bound(err)));
}

static void add_record(json_t *out, const plim_record *record)
{
    char own[PLIM_DIGEST_HEX_SIZE];
    json_t *fields = json_object();
    json_object_set_new(fields, "version", json_integer(plim_record_version(record)));
    json_object_set_new(fields, "request_sha256", json_string(plim_record_request_sha256(record)));
    json_object_set_new(fields, "provider", json_string(plim_record_provider(record)));
    json_object_set_new(fields, "isolation", json_string(plim_record_isolation(record)));
    json_object_set_new(fields, "environment", json_string(plim_record_environment(record)));
    json_object_set_new(fields, "started_unix_ms",
                        json_integer(plim_record_started_unix_ms(record)));
    json_object_set_new(fields, "ended_unix_ms", json_integer(plim_record_ended_unix_ms(record)));
    json_object_set_new(fields, "record_sha256", json_string(plim_record_record_sha256(record)));
    plim_record_digest(record, own);
    json_object_set_new(fields, "own_sha256", json_string(own));
    json_object_set_new(out, "record", fields);
}

static void add_result(json_t *out, const plim_result *result)
{
    plim_bytes text = plim_result_stdout(result);
    json_object_set_new(out, "stdout", json_stringn(text.len ? text.data : "", text.len));
    json_object_set_new(out, "exit_code", json_integer(plim_result_exit_code(result)));
    json_object_set_new(out, "timed_out", json_boolean(plim_result_timed_out(result)));
    json_object_set_new(out, "isolation", json_string(plim_result_isolation(result)));
    if (plim_result_record(result))
        add_record(out, plim_result_record(result));
}

/* Print and release the outcome of a run. */
static void answer_run(plim_result *result, plim_error *err, plim_choice *choice)
{
    json_t *out = json_object();
    add_error(out, err);
    if (result)
        add_result(out, result);
    if (choice) {
        json_t *refused = json_array();
        for (size_t i = 0; i < plim_choice_retried_count(choice); i++) {
            plim_retried one = plim_choice_retried(choice, i);
            json_array_append_new(
                refused, json_pack("[ss]", one.backend, plim_not_dispatched_name(one.reason)));
        }
        json_object_set_new(out, "backend", json_string(plim_choice_backend(choice)));
        json_object_set_new(out, "refused", refused);
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    puts("");
    json_decref(out);
    plim_result_free(result);
    plim_choice_free(choice);
    plim_error_clear(err);
}

static plim_javascript_request snippet(const char *floor, const char *code)
{
    plim_javascript_request request = {
        .size = sizeof(request), .options = {.timeout_ms = 20000}, .code = plim_bytes_of(code)};
    plim_tier_from_name(plim_bytes_of(floor), &request.options.minimum_isolation);
    return request;
}

/* ---- commands ---- */

static void do_open(const char *name, const char *url, const char *token, const char *ca_file)
{
    size_t at = 0;
    while (at < HANDLES_MAX - 1 && handles[at].sandbox)
        at++;
    plim_error err = PLIM_ERROR_INIT;
    plim_client_options options = {
        .size = sizeof(options),
        .base_url = plim_bytes_of(url),
        .token = plim_bytes_of(token && strcmp(token, "-") != 0 ? token : NULL),
        .request_timeout_ms = TIMEOUT_MS,
        .ca_file = plim_bytes_of(ca_file)};
    plim_sandbox_connect(&options, &handles[at].sandbox, &err);
    snprintf(handles[at].name, sizeof(handles[at].name), "%s", name);
    answer_run(NULL, &err, NULL);
}

static void do_run(const char *name, const char *floor, const char *code)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_javascript_request request = snippet(floor, code);
    plim_run_javascript(find(name), &request, NULL, &result, &err);
    answer_run(result, &err, NULL);
}

typedef struct fuse {
    plim_cancel *cancel;
    long ms;
} fuse;

static void *burn(void *arg)
{
    fuse *it = arg;
    struct timespec pause = {it->ms / 1000, it->ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    plim_cancel_fire(it->cancel);
    return NULL;
}

static void do_cancel(const char *name, const char *ms, const char *code)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_javascript_request request = snippet("-", code);
    fuse it = {plim_cancel_new(), strtol(ms, NULL, 10)};
    pthread_t thread;
    if (pthread_create(&thread, NULL, burn, &it) != 0)
        exit(2);
    plim_run_javascript(find(name), &request, it.cancel, &result, &err);
    pthread_join(thread, NULL);
    plim_cancel_free(it.cancel);
    answer_run(result, &err, NULL);
}

static void do_describe(const char *name)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_info *info;
    json_t *out = json_object();
    plim_describe(find(name), NULL, &info, &err);
    add_error(out, &err);
    if (info) {
        plim_environment environment = plim_info_environment(info, PLIM_KIND_JAVASCRIPT);
        json_object_set_new(out, "provider", json_string(plim_info_provider(info)));
        json_object_set_new(out, "tier", json_string(plim_tier_name(plim_info_tier(info))));
        json_object_set_new(out, "environment", json_string(environment.identity));
        json_object_set_new(out, "project",
                            json_boolean(plim_info_supports(info, PLIM_KIND_PROJECT)));
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    puts("");
    json_decref(out);
    plim_info_free(info);
    plim_error_clear(&err);
}

typedef struct member {
    plim_sandbox *sandbox;
    int number;
    long runs;
    atomic_long *good, *refused;
} member;

/* A run that is refused for want of a slot is counted and not repeated. */
static void *take_part(void *arg)
{
    const member *self = arg;
    for (long i = 0; i < self->runs; i++) {
        char code[64], expected[64];
        plim_error err = PLIM_ERROR_INIT;
        plim_result *result;
        snprintf(code, sizeof(code), "console.log(%d, %ld)", self->number, i);
        snprintf(expected, sizeof(expected), "%d %ld\n", self->number, i);
        plim_javascript_request request = snippet("process", code);
        plim_status status = plim_run_javascript(self->sandbox, &request, NULL, &result, &err);
        if (status == PLIM_OK && base_bytes_is(plim_result_stdout(result), expected))
            atomic_fetch_add(self->good, 1);
        else if (plim_error_not_dispatched(&err) == PLIM_ND_CAPACITY)
            atomic_fetch_add(self->refused, 1);
        else
            fprintf(stderr, "%s\n", plim_error_message(&err));
        plim_result_free(result);
        plim_error_clear(&err);
    }
    return NULL;
}

static void do_crowd(const char *name, const char *threads_text, const char *runs_text)
{
    pthread_t threads[256];
    member members[256];
    atomic_long good = 0, refused = 0;
    size_t count = strtoul(threads_text, NULL, 10);
    if (count > PLIM_COUNT(threads))
        exit(2);
    for (size_t i = 0; i < count; i++) {
        members[i] = (member){find(name), (int)i, strtol(runs_text, NULL, 10), &good, &refused};
        if (pthread_create(&threads[i], NULL, take_part, &members[i]) != 0)
            exit(2);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("{\"good\":%ld,\"refused\":%ld}\n", atomic_load(&good), atomic_load(&refused));
}

static void do_pool(char **names, size_t count)
{
    plim_backend backends[HANDLES_MAX];
    plim_error err = PLIM_ERROR_INIT;
    for (size_t i = 0; i < count; i++)
        backends[i] = (plim_backend){plim_bytes_of(names[i]), find(names[i])};
    plim_pool_free(pool);
    plim_pool_new(backends, count, 0, &pool, &err);
    answer_run(NULL, &err, NULL);
}

static void do_place(const char *floor, const char *backend, const char *code)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_choice *choice;
    plim_javascript_request request = snippet("-", code);
    plim_requirement need = {.size = sizeof(need)};
    plim_tier_from_name(plim_bytes_of(floor), &need.minimum_isolation);
    if (strcmp(backend, "-") != 0)
        need.backend = plim_bytes_of(backend);
    plim_pool_run_javascript(pool, &request, &need, NULL, &result, &choice, &err);
    answer_run(result, &err, choice);
}

static void do_free(const char *name)
{
    plim_error none = PLIM_ERROR_INIT;
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (strcmp(handles[i].name, name) == 0) {
            plim_sandbox_free(handles[i].sandbox);
            handles[i] = (struct handle){.sandbox = NULL};
        }
    answer_run(NULL, &none, NULL);
}

/* The next word of the line, or NULL; `*rest` moves behind it. */
static char *word(char **rest)
{
    char *found = *rest + strspn(*rest, " ");
    size_t length = strcspn(found, " ");
    *rest = found + length + (found[length] != '\0');
    found[length] = '\0';
    return length ? found : NULL;
}

static void obey(char *line)
{
    char *rest = line, *words[HANDLES_MAX + 1] = {NULL};
    const char *command = word(&rest);
    bool is_run = command && (!strcmp(command, "run") || !strcmp(command, "cancel") ||
                              !strcmp(command, "place"));
    size_t count = 0;
    while (count < (is_run ? 2 : HANDLES_MAX) && (words[count] = word(&rest)))
        count++;
    if (!command || count == 0)
        exit(2);
    if (!strcmp(command, "open"))
        do_open(words[0], words[1], words[2], words[3]);
    else if (!strcmp(command, "run"))
        do_run(words[0], words[1], rest);
    else if (!strcmp(command, "cancel"))
        do_cancel(words[0], words[1], rest);
    else if (!strcmp(command, "describe"))
        do_describe(words[0]);
    else if (!strcmp(command, "crowd"))
        do_crowd(words[0], words[1], words[2]);
    else if (!strcmp(command, "pool"))
        do_pool(words, count);
    else if (!strcmp(command, "place"))
        do_place(words[0], words[1], rest);
    else if (!strcmp(command, "free"))
        do_free(words[0]);
    else
        exit(2);
    fflush(stdout);
}

int main(void)
{
    char line[65536];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    plim_pool_free(pool);
    for (size_t i = 0; i < HANDLES_MAX; i++)
        plim_sandbox_free(handles[i].sandbox);
    return 0;
}
