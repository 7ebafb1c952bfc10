/*
 * What settings ask of every container, checked: image references, sizes, the guest's user. Pure
 * but for reading the host's account files. Faults are kept until Preflight reports them, so that a
 * floor is still compared first.
 */
#ifndef DOCKER_LIMITS_H
#define DOCKER_LIMITS_H

#include "core/core.h"

enum {
    DOCKER_TMP_MB = 16,
    DOCKER_SHM_MB = 16,
    DOCKER_WORK_MB = 128,
    DOCKER_MEMORY_MB = 256,
    DOCKER_PIDS = 256,
    DOCKER_GUEST_UID = 61000,
};

/* Writable sizes in MiB. `budget` 0: no aggregate check; `work` 0: derived. */
typedef struct docker_disk {
    int64_t budget, tmp, shm, work;
} docker_disk;

/* Derive `work` and check the sum (the contract's 7.3). False: refused, `environment`. */
bool docker_disk_resolve(docker_disk *disk, plim_error *err);

/* A reference that may be used: not empty, no white space around it, not an option. */
bool docker_image_ref_valid(const char *reference);

/* Does it end in `@sha256:` and 64 hex digits, with something before the `@`? */
bool docker_image_ref_pinned(const char *reference);

/* 1-65532, and neither it nor its successor in a band that the host's service manager hands out. */
bool docker_guest_uid_valid(int64_t uid);

/*
 * Does a line of an account file (`name:x:uid:gid:...`, or a group's `name:x:gid:...`) use `uid` or
 * its successor? `entry` gets the line's name for a message.
 */
bool docker_account_collides(plim_bytes text, bool is_group, int64_t uid, char *entry, size_t size);

/* The same for the files of this host. A missing file is skipped. False: refused. */
bool docker_check_accounts(int64_t uid, plim_error *err);

/* A document that may be sent as a seccomp profile: a JSON object of at most 1 MiB. `*out` is its
 * compact form on the heap. */
bool docker_seccomp_read(const char *path, char **out, plim_error *err);

#endif
