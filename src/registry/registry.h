/*
 * The caller registry: the file that says who may call a daemon. One strict parser serves the
 * daemon, which reads the file once, and the tool that edits it. A registry owns its callers; it
 * belongs to one thread while it changes and may be shared once it no longer does. Errors name the
 * caller or the place in the file, never a fingerprint.
 */
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include "base/base.h"

typedef struct registry_caller {
    plim_bytes id;
    char fingerprint[BASE_SHA256_HEX + 1]; /* SHA-256 of the token, lowercase hex */
    const plim_bytes *scopes;
    size_t scope_count;
    int64_t paid_seconds_per_day; /* 0: no allowance of its own */
} registry_caller;

typedef struct registry {
    base_arena *arena; /* holds everything below */
    registry_caller *callers;
    size_t count;
} registry;

/* A registry file is at most this long: some 30,000 callers. */
enum { REGISTRY_BYTES_MAX = 8 * 1024 * 1024 };

/* Read and check a file's text. Errors: PLIM_E_INVALID_OPTION saying what is wrong and where. */
bool registry_parse(plim_bytes text, registry **out, plim_error *err);

/* The same from a file by name, symbolic links followed. Errors name the path. */
bool registry_load(const char *path, registry **out, plim_error *err);

/* The same for a file that may be edited: a symbolic link or anything but a regular file is
 * refused. */
bool registry_load_plain(const char *path, registry **out, plim_error *err);

void registry_free(registry *reg);
BASE_CLEANUP_FN(registry, registry_free, registry_freep)

/* The file's text: two-space indent, a final newline. False when `out` is too small or memory is
 * out. */
bool registry_serialize(const registry *reg, base_buf *out);

/* A JSON array of these callers for a reader: no fingerprints, no allowance of 0. */
bool registry_serialize_list(const registry_caller *const *callers, size_t count, base_buf *out);

/* The caller of that id; NULL when there is none such. */
registry_caller *registry_find(const registry *reg, plim_bytes id);

/* An id as the file's rules take it: white space around it removed. */
plim_bytes registry_trim(plim_bytes text);

/* ---- editing ---- */

/* Append a caller whose members outlive the registry. False when memory is out. */
bool registry_add(registry *reg, const registry_caller *caller, plim_error *err);

/* Drop a caller that registry_find gave. */
void registry_remove(registry *reg, registry_caller *caller);

typedef bool registry_change(registry *reg, void *ctx, plim_error *err);

/*
 * Change the file at `path` so that a reader sees the old content or the new one, whatever happens:
 * lock, load, `change`, check, write beside it, sync, rename. A missing file is an empty registry
 * when `may_create`. On success `*left` is the number of callers left. False before the rename
 * leaves the file as it was; false after it says so.
 */
bool registry_edit(const char *path, bool may_create, registry_change *change, void *ctx,
                   size_t *left, plim_error *err);

#endif
