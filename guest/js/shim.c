/*
 * The JavaScript guest: what a snippet sees beyond the engine itself, as docs/wasm.md tells its
 * authors.
 *
 * Compiled to WebAssembly with the engine as a reactor. The host calls plimsoll_init() once and
 * freezes the memory that leaves behind; each run then is plimsoll_alloc(), plimsoll_run(), and the
 * frozen memory put back. So nothing here is ever freed for the sake of a later run, and nothing
 * may depend on an earlier one.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "prelude.h"
#include "quickjs.h"

/* ---- imports and exports ---- */

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define EXPORT(name)         __attribute__((export_name(name)))

#define ENVELOPE_BYTES_MAX 1114112u /* 1 MiB of body + 64 KiB of framing */
#define RESPONSE_BYTES_MAX 4194304u
#define SCRIPT_STACK_BYTES_MAX                                                                     \
    (768u * 1024u) /* of the 1 MiB stack; the rest is for the C below the last check */

enum { STDOUT = 1, STDERR = 2 };

/* Exit codes of a run. */
enum { RUN_OK = 0, RUN_FAILED = 1, RUN_UNSETTLED = 13 };

struct iovec32 {
    const void *data;
    uint32_t length;
};

IMPORT("wasi_snapshot_preview1", "fd_write")
uint32_t host_fd_write(uint32_t fd, const struct iovec32 *iovs, uint32_t count, uint32_t *written);

IMPORT("plimsoll", "host_call")
uint64_t host_call(const char *request, uint32_t request_length, uint8_t *response,
                   uint32_t response_capacity);

EXPORT("plimsoll_init") int plimsoll_init(void);
EXPORT("plimsoll_alloc") void *plimsoll_alloc(uint32_t length);
EXPORT("plimsoll_run") int plimsoll_run(const char *source, uint32_t length);

/* ---- state of the one engine ---- */

/* A rejection that nothing has handled yet: in a list by age, and in a table by its promise. */
struct rejection {
    struct rejection *next;
    struct rejection **link; /* what points here in the list */
    struct rejection *same_slot;
    JSValue promise;
    JSValue reason;
};

static JSRuntime *runtime;
static JSContext *context;
static JSValue object_to_string; /* Object.prototype.toString before any snippet could replace it */
static bool evaluating;          /* false while the unit is only parsed and linked */
static bool exiting; /* exit() was called: nothing that the guest does from here on may be seen */
static int exit_code;
static struct rejection *rejections; /* oldest first */
static struct rejection **last_rejection = &rejections;
static struct rejection **rejection_slots; /* as many as 1 << rejection_bits, once there are any */
static unsigned rejection_bits;
static uint32_t rejection_count;
static uint8_t response[RESPONSE_BYTES_MAX];

/* ---- output ---- */

/*
 * Writes all pieces with one import call, so that the host sees one message for one line. After
 * exit() the engine may still be unwinding through user code; what that prints is dropped.
 */
static void write_pieces(uint32_t fd, const struct iovec32 *pieces, uint32_t count)
{
    uint32_t written;

    if (!exiting)
        (void)host_fd_write(fd, pieces, count, &written);
}

/*
 * Text of a value by JavaScript's string conversion. When that throws: an object's tag text,
 * `<exception>` for anything else. NULL only when memory is out or the exception must not be caught
 * (exit() inside a conversion).
 */
static const char *display_text(JSContext *ctx, size_t *length, JSValueConst value)
{
    const char *text = JS_ToCStringLen(ctx, length, value);

    if (text != NULL || exiting)
        return text;
    JS_FreeValue(ctx, JS_GetException(ctx));
    if (JS_IsObject(value)) {
        JSValue tag = JS_Call(ctx, object_to_string, value, 0, NULL);
        text = JS_IsException(tag) ? NULL : JS_ToCStringLen(ctx, length, tag);
        JS_FreeValue(ctx, tag);
        if (text != NULL || exiting)
            return text;
        JS_FreeValue(ctx, JS_GetException(ctx));
    }

    JSValue fallback = JS_NewString(ctx, JS_IsObject(value) ? "[object Object]" : "<exception>");
    text = JS_ToCStringLen(ctx, length, fallback);
    JS_FreeValue(ctx, fallback);
    return text;
}

typedef const char *text_of(JSContext *ctx, size_t *length, JSValueConst value);

/* Converts all arguments first, as a conversion may itself print; then writes them in one go. */
static JSValue write_arguments(JSContext *ctx, uint32_t fd, int argc, JSValueConst *argv,
                               text_of *convert, bool console)
{
    uint32_t count = 0;
    int done = 0;
    JSValue result = JS_UNDEFINED;
    const char **texts = js_malloc(ctx, sizeof(*texts) * ((size_t)argc + 1));
    struct iovec32 *pieces = js_malloc(ctx, sizeof(*pieces) * (2 * (size_t)argc + 1));

    if (texts == NULL || pieces == NULL) {
        result = JS_EXCEPTION;
        goto out;
    }
    for (; done < argc; done++) {
        size_t length;
        texts[done] = convert(ctx, &length, argv[done]);
        if (texts[done] == NULL) {
            result = JS_EXCEPTION;
            goto out;
        }
        if (console && done > 0)
            pieces[count++] = (struct iovec32){" ", 1};
        pieces[count++] = (struct iovec32){texts[done], (uint32_t)length};
    }
    if (console)
        pieces[count++] = (struct iovec32){"\n", 1};
    write_pieces(fd, pieces, count);
out:
    while (done > 0)
        JS_FreeCString(ctx, texts[--done]);
    js_free(ctx, texts);
    js_free(ctx, pieces);
    return result;
}

/* print and every console method: they all write to stdout. */
static JSValue js_print(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv)
{
    (void)this_value;
    return write_arguments(ctx, STDOUT, argc, argv, display_text, true);
}

/* The stack of an error as text; NULL when there is none, or when reading it throws. */
static const char *stack_text(JSContext *ctx, size_t *length, JSValueConst error)
{
    const char *text = NULL;
    JSValue stack;

    if (!JS_IsError(error))
        return NULL;
    stack = JS_GetPropertyStr(ctx, error, "stack");
    if (JS_IsException(stack))
        JS_FreeValue(ctx, JS_GetException(ctx));
    else if (!JS_IsUndefined(stack))
        text = display_text(ctx, length, stack);
    JS_FreeValue(ctx, stack);
    return text;
}

/*
 * Report an error as `Name: message`, stack lines and an empty line. A value that is no error is
 * its text alone.
 */
static void report(JSContext *ctx, const char *intro, JSValueConst error)
{
    size_t length = 0, stack_length = 0;
    const char *text = display_text(ctx, &length, error);
    const char *stack = stack_text(ctx, &stack_length, error);
    const struct iovec32 pieces[] = {
        {intro, (uint32_t)strlen(intro)},
        {text, (uint32_t)length},
        {"\n", 1},
        {stack, (uint32_t)stack_length},
        {"\n", 1},
    };

    write_pieces(STDERR, pieces, stack != NULL ? 5 : 3);
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, stack);
}

/* ---- module qjs:std ---- */

/*
 * Ends the run. There is no import to end it with, so the engine unwinds by an error that nothing
 * can catch; meanwhile `exiting` mutes all output and host calls, and the interrupt handler ends
 * loops.
 */
static JSValue js_exit(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv)
{
    int32_t code = 0;

    (void)this_value;
    if (argc > 0 && JS_ToInt32(ctx, &code, argv[0]) != 0)
        return JS_EXCEPTION;
    exit_code = code & 0xff;
    exiting = true;

    JSValue error = JS_NewError(ctx);
    /* With a stack of its own the engine collects none, and so calls no user-made
     * Error.prepareStackTrace. */
    JS_DefinePropertyValueStr(ctx, error, "stack", JS_UNDEFINED, 0);
    JS_SetUncatchableError(ctx, error);
    return JS_Throw(ctx, error);
}

static int on_interrupt(JSRuntime *rt, void *opaque)
{
    (void)rt;
    (void)opaque;
    return exiting;
}

static const char *strict_text(JSContext *ctx, size_t *length, JSValueConst value)
{
    return JS_ToCStringLen(ctx, length, value);
}

/* puts of out (magic 1) and err (magic 2): the strings as they are, one after the other. */
static JSValue js_puts(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv,
                       int magic)
{
    (void)this_value;
    return write_arguments(ctx, (uint32_t)magic, argc, argv, strict_text, false);
}

/* The parameters of these are as the engine calls them. */
/* NOLINTBEGIN(readability-non-const-parameter) */

/* Output is never held back, so there is nothing to flush. */
static JSValue js_flush(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv)
{
    (void)ctx;
    (void)this_value;
    (void)argc;
    (void)argv;
    return JS_UNDEFINED;
}

static JSValue js_gc(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv)
{
    (void)this_value;
    (void)argc;
    (void)argv;
    JS_RunGC(JS_GetRuntime(ctx));
    return JS_UNDEFINED;
}

/* NOLINTEND(readability-non-const-parameter) */

static const JSCFunctionListEntry out_functions[] = {
    JS_CFUNC_MAGIC_DEF("puts", 1, js_puts, STDOUT),
    JS_CFUNC_DEF("flush", 0, js_flush),
};

static const JSCFunctionListEntry err_functions[] = {
    JS_CFUNC_MAGIC_DEF("puts", 1, js_puts, STDERR),
    JS_CFUNC_DEF("flush", 0, js_flush),
};

static const JSCFunctionListEntry std_functions[] = {
    JS_CFUNC_DEF("exit", 1, js_exit),
    JS_CFUNC_DEF("gc", 0, js_gc),
    JS_OBJECT_DEF("out", out_functions, 2, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE),
    JS_OBJECT_DEF("err", err_functions, 2, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE),
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static int init_std(JSContext *ctx, JSModuleDef *module)
{
    return JS_SetModuleExportList(ctx, module, std_functions, COUNT(std_functions));
}

static bool add_std_module(JSContext *ctx)
{
    JSModuleDef *module = JS_NewCModule(ctx, "qjs:std", init_std);

    return module != NULL &&
           JS_AddModuleExportList(ctx, module, std_functions, COUNT(std_functions)) == 0;
}

/*
 * Every import passes here with the specifier as written. Exactly one name is known, and it is
 * already loaded; so neither relative spellings of it nor the unit's own name resolve. A static
 * import that fails keeps the whole unit from running, like any syntax error; a dynamic one rejects
 * its promise.
 */
static char *normalize_module(JSContext *ctx, const char *base, const char *name, void *opaque)
{
    (void)base;
    (void)opaque;
    if (strcmp(name, "qjs:std") == 0)
        return js_strdup(ctx, name);
    if (evaluating)
        JS_ThrowReferenceError(ctx, "could not load module '%s'", name);
    else
        JS_ThrowSyntaxError(ctx, "could not load module '%s'", name);
    return NULL;
}

/* ---- host call ---- */

static JSValue js_host_call(JSContext *ctx, JSValueConst this_value, int argc, JSValueConst *argv)
{
    size_t length;
    uint64_t packed;
    const char *envelope;

    (void)this_value;
    if (argc == 0)
        return JS_ThrowTypeError(ctx, "the host call takes one envelope");
    envelope = JS_ToCStringLen(ctx, &length, argv[0]);
    if (envelope == NULL)
        return JS_EXCEPTION;
    if (exiting) {
        JS_FreeCString(ctx, envelope);
        return JS_ThrowInternalError(ctx, "the run is over");
    }
    packed = host_call(envelope, (uint32_t)length, response, RESPONSE_BYTES_MAX);
    JS_FreeCString(ctx, envelope);

    const uint32_t status = (uint32_t)(packed >> 32), body_length = (uint32_t)packed;
    if (status < 100 || status > 599 || body_length > RESPONSE_BYTES_MAX)
        return JS_ThrowInternalError(ctx, "invalid answer to a host call");

    JSValue body = JS_NewStringLen(ctx, (const char *)response, body_length);
    JSValue result = JS_IsException(body) ? JS_EXCEPTION : JS_NewObject(ctx);
    if (JS_IsException(result)) {
        JS_FreeValue(ctx, body);
        return JS_EXCEPTION;
    }
    if (JS_DefinePropertyValueStr(ctx, result, "status", JS_NewUint32(ctx, status), JS_PROP_C_W_E) <
            0 ||
        JS_DefinePropertyValueStr(ctx, result, "body", body, JS_PROP_C_W_E) < 0) {
        JS_FreeValue(ctx, result);
        return JS_EXCEPTION;
    }
    return result;
}

/* ---- globals ---- */

static const JSCFunctionListEntry console_functions[] = {
    JS_CFUNC_DEF("log", 0, js_print),   JS_CFUNC_DEF("error", 0, js_print),
    JS_CFUNC_DEF("warn", 0, js_print),  JS_CFUNC_DEF("info", 0, js_print),
    JS_CFUNC_DEF("debug", 0, js_print), JS_CFUNC_DEF("trace", 0, js_print),
};

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define ENGINE_VERSION                                                                             \
    TEXT(QJS_VERSION_MAJOR) "." TEXT(QJS_VERSION_MINOR) "." TEXT(QJS_VERSION_PATCH)

static const JSCFunctionListEntry navigator_properties[] = {
    JS_PROP_STRING_DEF("userAgent", "quickjs-ng/" ENGINE_VERSION,
                       JS_PROP_CONFIGURABLE | JS_PROP_ENUMERABLE),
};

static const JSCFunctionListEntry global_functions[] = {
    JS_CFUNC_DEF("print", 0, js_print),
    JS_CFUNC_DEF("gc", 0, js_gc),
    JS_CFUNC_DEF("__plimsoll_host_call", 1, js_host_call),
    JS_OBJECT_DEF("console", console_functions, COUNT(console_functions),
                  JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE),
    JS_OBJECT_DEF("navigator", navigator_properties, COUNT(navigator_properties),
                  JS_PROP_CONFIGURABLE),
};

static bool add_globals(JSContext *ctx)
{
    JSValue global = JS_GetGlobalObject(ctx);
    bool ok =
        JS_SetPropertyFunctionList(ctx, global, global_functions, COUNT(global_functions)) == 0 &&
        JS_SetPropertyStr(ctx, global, "scriptArgs", JS_NewArray(ctx)) >= 0;

    JS_FreeValue(ctx, global);
    return ok;
}

static bool eval_script(JSContext *ctx, const char *name, const char *text, size_t length,
                        JSValue *result)
{
    *result = JS_Eval(ctx, text, length, name, JS_EVAL_TYPE_GLOBAL);
    return !JS_IsException(*result);
}

/* ---- promises ---- */

enum { REJECTION_BITS_FIRST = 6 };

/* What tells a promise from others: objects do not move. */
static uint32_t address_of(JSValueConst object)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) ; the engine's own macro */
    return (uint32_t)(uintptr_t)JS_VALUE_GET_PTR(object);
}

/* Where the chain begins that a promise is in. */
static struct rejection **rejection_slot(JSValueConst promise)
{
    return &rejection_slots[(address_of(promise) >> 3) * 0x9e3779b1u >> (32 - rejection_bits)];
}

static void put_in_slot(struct rejection *entry)
{
    struct rejection **slot = rejection_slot(entry->promise);

    entry->same_slot = *slot;
    *slot = entry;
}

/* Keeps chains short, so that no number of rejections makes handling one of them slow. */
static bool grow_slots(void)
{
    const unsigned bits = rejection_slots != NULL ? rejection_bits + 1 : REJECTION_BITS_FIRST;
    struct rejection **slots = calloc((size_t)1 << bits, sizeof(struct rejection *));

    if (slots == NULL)
        return false;
    free(rejection_slots);
    rejection_slots = slots;
    rejection_bits = bits;
    for (struct rejection *entry = rejections; entry != NULL; entry = entry->next)
        put_in_slot(entry);
    return true;
}

static void keep_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason)
{
    const bool full = rejection_slots == NULL || rejection_count >> rejection_bits != 0;
    struct rejection *entry = malloc(sizeof(*entry));

    if (entry == NULL || (full && !grow_slots()))
        abort(); /* a failure that would go unreported is worse than a trap */
    *entry = (struct rejection){.link = last_rejection,
                                .promise = JS_DupValue(ctx, promise),
                                .reason = JS_DupValue(ctx, reason)};
    *last_rejection = entry;
    last_rejection = &entry->next;
    put_in_slot(entry);
    rejection_count++;
}

static void forget_rejection(JSContext *ctx, JSValueConst promise)
{
    struct rejection **at = rejection_slots != NULL ? rejection_slot(promise) : NULL;

    while (at != NULL && *at != NULL && address_of((*at)->promise) != address_of(promise))
        at = &(*at)->same_slot;
    if (at == NULL || *at == NULL)
        return;

    struct rejection *entry = *at;
    *at = entry->same_slot;
    *entry->link = entry->next;
    if (entry->next != NULL)
        entry->next->link = entry->link;
    else
        last_rejection = entry->link;
    rejection_count--;
    JS_FreeValue(ctx, entry->promise);
    JS_FreeValue(ctx, entry->reason);
    free(entry);
}

static void on_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled,
                         void *opaque)
{
    (void)opaque;
    if (handled)
        forget_rejection(ctx, promise);
    else
        keep_rejection(ctx, promise, reason);
}

/*
 * Runs jobs until the queue is empty or the run has failed. True when a job threw; its exception is
 * then pending.
 */
static bool run_jobs(JSContext *ctx, JSValueConst unit)
{
    JSContext *job_context;
    int ran;

    do {
        if (exiting || JS_PromiseState(ctx, unit) == JS_PROMISE_REJECTED)
            return false;
        ran = JS_ExecutePendingJob(runtime, &job_context);
    } while (ran > 0);
    return ran < 0;
}

static int report_exception(JSContext *ctx)
{
    JSValue error = JS_GetException(ctx);

    if (!exiting)
        report(ctx, "", error);
    return exiting ? exit_code : RUN_FAILED;
}

/* The exit code of a unit that was evaluated and whose jobs have run. */
static int settle(JSContext *ctx, JSValueConst unit)
{
    JSPromiseStateEnum state = JS_PromiseState(ctx, unit);

    if (exiting)
        return exit_code;
    if (state == JS_PROMISE_REJECTED) {
        report(ctx, "", JS_PromiseResult(ctx, unit));
        return exiting ? exit_code : RUN_FAILED;
    }
    if (rejections != NULL) {
        for (struct rejection *r = rejections; r != NULL && !exiting; r = r->next)
            report(ctx, "Possibly unhandled promise rejection: ", r->reason);
        return exiting ? exit_code : RUN_FAILED;
    }
    if (state == JS_PROMISE_PENDING) {
        static const char text[] = "unsettled top-level await\n";
        write_pieces(STDERR, &(const struct iovec32){text, sizeof(text) - 1}, 1);
        return RUN_UNSETTLED;
    }
    return RUN_OK;
}

/* ---- exports ---- */

/* Creates the engine. 0 = ready for its snapshot; anything else names the step that failed. */
int plimsoll_init(void)
{
    JSValue ignored;

    runtime = JS_NewRuntime();
    if (runtime == NULL)
        return 1;
    JS_SetMaxStackSize(runtime, SCRIPT_STACK_BYTES_MAX);
    JS_SetCanBlock(runtime, false);
    JS_SetInterruptHandler(runtime, on_interrupt, NULL);
    JS_SetHostPromiseRejectionTracker(runtime, on_rejection, NULL);
    JS_SetModuleLoaderFunc(runtime, normalize_module, NULL, NULL);

    context = JS_NewContext(runtime);
    if (context == NULL)
        return 2;
    if (JS_AddIntrinsicDOMException(context) != 0)
        return 3;
    if (!add_globals(context) || !add_std_module(context))
        return 4;
    if (!eval_script(context, "<prelude>", (const char *)prelude_js, prelude_js_length, &ignored))
        return 5;
    if (!eval_script(context, "<prelude>", "Object.prototype.toString", 25, &object_to_string))
        return 6;
    JS_RunGC(runtime);
    return 0;
}

/* Room for `length` bytes of source and the NUL that the parser wants behind them; 0 = no memory.
 */
void *plimsoll_alloc(uint32_t length)
{
    if (length == UINT32_MAX)
        return NULL;
    char *room = malloc((size_t)length + 1);
    if (room != NULL)
        room[length] = '\0';
    return room;
}

/* The parser's line numbers start at the request's code when the host states how many lines it put
 * before it. */
static int first_line(const char *source, uint32_t length)
{
    static const char mark[] = "//@plimsoll-lines ";
    const size_t mark_length = sizeof(mark) - 1;
    int lines = 0;

    if (length <= mark_length || memcmp(source, mark, mark_length) != 0)
        return 1;
    for (const char *at = source + mark_length; *at >= '0' && *at <= '9' && lines < 1000000; at++)
        lines = lines * 10 + (*at - '0');
    return 1 - lines;
}

/* Runs one unit to its end. `source` comes from plimsoll_alloc. The result is the exit code,
 * 0..255. */
int plimsoll_run(const char *source, uint32_t length)
{
    JSEvalOptions options = {
        .version = JS_EVAL_OPTIONS_VERSION,
        .eval_flags = JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY,
        .filename = "<snippet>",
        .line_num = first_line(source, length),
    };
    JSValue unit;

    JS_UpdateStackTop(runtime);
    unit = JS_Eval2(context, source, length, &options);
    if (JS_IsException(unit) || JS_ResolveModule(context, unit) != 0)
        return report_exception(context);
    evaluating = true;
    unit = JS_EvalFunction(context, unit);
    if (JS_IsException(unit) || run_jobs(context, unit))
        return report_exception(context);
    return settle(context, unit);
}
