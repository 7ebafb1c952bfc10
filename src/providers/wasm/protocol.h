/*
 * What the library and the worker host say to each other.
 *
 * Shared by both sides and free of I/O: tags, limits and wire structs only. Two sockets exist. The
 * CONTROL socket (AF_UNIX, SOCK_SEQPACKET, descriptor 3 of the host) carries one message a packet:
 * a tag byte, then its struct. A WORKER socket (AF_UNIX, SOCK_SEQPACKET, descriptor 3 of the
 * worker) carries frames: plim_worker_frame, then `length` bytes; where one packet ends and the
 * next begins means nothing. What a worker says passes through its OUTBOX, a page of memory that
 * both sides hold, so that a short run is one system call and one wake-up, and a worker that is
 * killed leaves nothing unsaid. All integers are little-endian, all structs packed. The parent
 * treats every byte from a worker as hostile.
 */
#ifndef PLIM_PROVIDERS_WASM_PROTOCOL_H
#define PLIM_PROVIDERS_WASM_PROTOCOL_H

#include <assert.h>
#include <stdint.h>

/* Raised whenever a message changes; the parent refuses a host that states another number. */
#define PLIM_WORKER_PROTOCOL_VERSION 2u

#define PLIM_WORKER_FD 3 /* control socket in the host, worker socket in a worker */

/* ---- limits ---- */

#define PLIM_WASM_PAGE_BYTES    65536u
#define PLIM_WASM_PAGES_DEFAULT 4096u  /* 256 MiB */
#define PLIM_WASM_PAGES_MAX     65536u /* 4 GiB: all that 32-bit addresses reach */

/* A page cap below the snapshot's pages plus this cannot run anything useful and is refused. */
#define PLIM_WASM_PAGES_HEADROOM 64u

/*
 * A run that grew by more pages ends its worker: returning 64 MiB page by page costs more than a
 * fresh fork.
 */
#define PLIM_WASM_GROWTH_REUSE_MAX 1024u

/*
 * Bytes in one packet of a worker socket; both sides read into no less. Packets, because the kernel
 * wakes a process that waits for a stream also when its peer has merely read.
 */
#define PLIM_WORKER_PACKET_MAX 32768u

#define PLIM_WORKER_OUTPUT_MAX   65536u   /* bytes in one O or E frame */
#define PLIM_WORKER_ENVELOPE_MAX 1114112u /* H: 1 MiB body limit + 64 KiB of framing */
#define PLIM_WORKER_REPLY_MAX    4194304u /* body in an h frame: the guest's response buffer */
#define PLIM_WORKER_TRAP_MAX     256u     /* bytes of a trap reason, and of a host's `!` reason */

/* Source bytes in an R frame. Requests are bounded far below; this only bounds a slip. */
#define PLIM_WORKER_SOURCE_MAX 67108864u

/*
 * When lines precede the request's code in the source (a grant's client, a preamble), the source
 * may open with a line made of this and the decimal number of those lines, itself included. Line
 * numbers in errors then count from the first line of the request's code.
 */
#define PLIM_SOURCE_LINES_MARK "//@plimsoll-lines "

/* ---- control socket ---- */

enum plim_host_tag {
    /* host -> parent */

    PLIM_HOST_READY = 'V',     /* plim_host_ready: prepared and confined; first and once */
    PLIM_HOST_REFUSED = '!',   /* UTF-8 reason, 1..256 bytes, instead of V; exits with 1 */
    PLIM_HOST_WORKER = 'W',    /* plim_host_worker + SCM_RIGHTS [worker socket, pidfd, outbox] */
    PLIM_HOST_NO_WORKER = 'N', /* plim_host_no_worker: the fork failed, nothing was created */
    PLIM_HOST_EXITED = 'X',    /* plim_host_exited: a worker was reaped; comes after its W */

    /* parent -> host */

    PLIM_HOST_FORK = 'F', /* plim_host_fork: fork one worker; answered by W or N, in order */
};

/* Flags of plim_host_fork; unknown bits end the host. */

/* The worker exits with 0 after its one run (after D, without I). */
#define PLIM_FORK_SINGLE_USE 0x01u
/* Once confined, the worker makes a forbidden system call: it must be reaped with SIGSYS. */
#define PLIM_FORK_PROBE     0x02u
#define PLIM_FORK_FLAGS_ALL (PLIM_FORK_SINGLE_USE | PLIM_FORK_PROBE)

/*
 * Walls of plim_host_ready: what stands around every worker of this host. The first five always
 * stand, or the host refuses to start. Each of the others is a fact to report, not a failure: an
 * ordinary user on a kernel without user namespaces gets none of them.
 */
#define PLIM_WALL_NO_NEW_PRIVS 0x0001u /* no exec can gain privileges */
#define PLIM_WALL_NOT_DUMPABLE 0x0002u /* no core, no ptrace by equals */
#define PLIM_WALL_RLIMITS      0x0004u /* core, file size, processes, descriptors, stack */
#define PLIM_WALL_SECCOMP      0x0008u /* each worker installs its filter or dies */
#define PLIM_WALL_NO_CAPS      0x0010u /* every capability set is empty */
#define PLIM_WALLS_REQUIRED    0x001fu
#define PLIM_WALL_EMPTY_ROOT   0x0100u /* the root directory is an empty read-only tmpfs */
#define PLIM_WALL_NET_NS       0x0200u /* a network namespace with no interface up */
#define PLIM_WALL_IPC_NS       0x0400u
#define PLIM_WALL_UTS_NS       0x0800u
#define PLIM_WALL_USER_NS      0x1000u /* started by an ordinary user: owns those above */
#define PLIM_WALL_OTHER_UID    0x2000u /* started by root: runs as ids that own nothing */

struct plim_host_ready {
    uint32_t version;          /* PLIM_WORKER_PROTOCOL_VERSION */
    uint32_t snapshot_pages;   /* a page cap must be this + PLIM_WASM_PAGES_HEADROOM, or more */
    uint32_t module_max_pages; /* a higher cap is cut to it */
    uint32_t walls;            /* PLIM_WALL_* */
    char identity[64];         /* hex SHA-256 of guest.wasm, no NUL; as PLIM_GUEST_SHA256 */
} __attribute__((packed));

struct plim_host_fork {
    uint32_t id;   /* chosen by the parent, echoed in W, N and X */
    uint8_t flags; /* PLIM_FORK_* */
} __attribute__((packed));

struct plim_host_worker {
    uint32_t id;
    uint32_t pid; /* for logs and tests; signals go through the pidfd only */
} __attribute__((packed));

struct plim_host_no_worker {
    uint32_t id;
    int32_t error; /* errno of the step that failed; EAGAIN: too many workers */
} __attribute__((packed));

struct plim_host_exited {
    uint32_t id;
    int32_t status; /* as from waitpid */
} __attribute__((packed));

#define PLIM_HOST_PACKET_MAX 512u /* no control packet is longer */

/* Exit codes of the host itself. Anything else, or a signal, is a crash. */
enum plim_host_exit {
    PLIM_HOST_EXIT_PARENT_GONE = 0, /* end of file on the control socket */
    PLIM_HOST_EXIT_REFUSED = 1,     /* could not prepare or confine itself; a `!` says why */
    PLIM_HOST_EXIT_NO_SOCKET = 2,   /* descriptor 3 is no SOCK_SEQPACKET socket: nobody to tell */
    PLIM_HOST_EXIT_PROTOCOL = 3,    /* malformed message from the parent */
    PLIM_HOST_EXIT_LOST = 4,        /* the control socket failed */
};

/* Descriptors of a `W`, in this order. */
enum {
    PLIM_HOST_WORKER_SOCKET,
    PLIM_HOST_WORKER_PIDFD,
    PLIM_HOST_WORKER_OUTBOX,
    PLIM_HOST_WORKER_FDS
};

/* ---- worker socket ---- */

struct plim_worker_frame {
    uint8_t tag;
    uint32_t length;
} __attribute__((packed));

enum plim_worker_tag {
    /* worker -> parent; per run: S, then any of O E H, then one D or T */

    PLIM_WORKER_IDLE = 'I',   /* 0 bytes: snapshot in place, waiting for R */
    PLIM_WORKER_START = 'S',  /* 0 bytes: said, in the outbox, before any guest code runs */
    PLIM_WORKER_STDOUT = 'O', /* 1..OUTPUT_MAX bytes */
    PLIM_WORKER_STDERR = 'E', /* 1..OUTPUT_MAX bytes */
    PLIM_WORKER_CALL = 'H',   /* 1..ENVELOPE_MAX bytes; the worker then waits for h */
    PLIM_WORKER_TRAP = 'T',   /* 1..TRAP_MAX bytes, no "wasm error: "; the worker then exits */
    PLIM_WORKER_DONE = 'D',   /* 1 byte: exit code. Then I, or the worker exits: see below */

    /* parent -> worker */

    PLIM_WORKER_RUN = 'R',   /* plim_worker_run, then the source */
    PLIM_WORKER_REPLY = 'h', /* plim_worker_reply, then the body */
};

struct plim_worker_run {
    uint32_t page_cap; /* snapshot_pages + HEADROOM .. PAGES_MAX, else malformed */
} __attribute__((packed));

struct plim_worker_reply {
    uint32_t status; /* outside 100..599 the guest sees 500 and no body */
} __attribute__((packed));

/*
 * The outbox: the first page of a memory file, shared by one worker and its parent. A frame counts
 * as said once it is in here; `H`, `T`, `D` and `I` are sent at once with all that waits before
 * them, the others when there is no more room. The parent reads the file, never maps it, and only
 * once the worker is dead: of the `length` bytes waiting, those from `received - sent` on, where
 * `received` counts all that came through the socket. The worker changes `length` last when it adds
 * and first when it has sent, so that this holds at whatever instruction it is killed.
 */
#define PLIM_WORKER_OUTBOX_BYTES 4096u
#define PLIM_WORKER_OUTBOX_ROOM  (PLIM_WORKER_OUTBOX_BYTES - 12u)

struct plim_worker_outbox {
    uint64_t sent;   /* bytes that went into the socket since the worker was forked */
    uint32_t length; /* bytes that come after those */
    uint8_t bytes[PLIM_WORKER_OUTBOX_ROOM];
};

/* Exit codes of a worker. */
enum plim_worker_exit {
    PLIM_WORKER_EXIT_OK = 0,         /* after D: single use, or grew too far; or parent gone */
    PLIM_WORKER_EXIT_TRAP = 10,      /* after T */
    PLIM_WORKER_EXIT_PROTOCOL = 11,  /* malformed or unexpected frame from the parent */
    PLIM_WORKER_EXIT_UNCONFINED = 12 /* a wall could not be raised: no I was sent, no code ran */
};

static_assert(sizeof(struct plim_host_ready) == 80, "wire layout");
static_assert(sizeof(struct plim_host_fork) == 5, "wire layout");
static_assert(sizeof(struct plim_worker_frame) == 5, "wire layout");
static_assert(sizeof(struct plim_worker_outbox) == PLIM_WORKER_OUTBOX_BYTES, "no padding");

#endif
