/*
 * What the docker provider and plimsoll-guest, the control program inside a container, agree on:
 * how the program is called, what goes in, what comes out, and every limit of it. Included by both
 * sides; constants and pure functions only, no I/O and no allocation. The contract behind it is the
 * docker provider's: everything that comes out of a container is hostile until a MAC says
 * otherwise.
 */
#ifndef GUEST_CTL_H
#define GUEST_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How it is called. Always as a control program, with nothing of the image's environment:
 *
 *   /usr/bin/env -i PATH=<CTL_PATH> [NAME=value ...] <CTL_PROGRAM> VERB ...
 *
 * or with that environment given by the Engine. It reads nothing but argv, stdin and the variables
 * below, and clears its dumpable flag first.
 *
 *   start MARKER [NAME=value ...] COMMAND [ARGUMENT ...]
 *       Writes MARKER to stderr byte for byte (the newline is part of it; it may be empty), then
 *       becomes COMMAND without a fork. Its environment is exactly PATH=<CTL_PATH>, HOME of the uid
 *       in /etc/passwd (`/` when it has none), HOSTNAME (first line of /etc/hostname), then the
 *       NAME=value operands, of which the last of a name wins. COMMAND is looked up in that PATH.
 *       Exit 127: COMMAND was not found; 126: it could not be executed, or cannot be told from an
 *       operand.
 *
 *   supervise MARKER [NAME=value ...] COMMAND [ARGUMENT ...]
 *       The same for a snippet, but COMMAND becomes its one child: as the first process of the
 *       container it proves its isolation, writes MARKER, starts COMMAND with the container's own
 *       output, and only then reads stdin: the head of a run (CTL_HEAD_BYTES), then exactly so many
 *       bytes as it announces, which are COMMAND's input. When COMMAND has ended, or has asked to
 *       where the kernel tells that (watch.h), everything else in the container is killed, and when
 *       nobody is left who could write, an end frame goes to stdout and one to stderr. Its exit
 *       status is COMMAND's, 128 + signal for a signal. Where COMMAND is `node -` and the image has
 *       CTL_WARM, node loads that first. A member of a pool is this program between the marker and
 *       the head: COMMAND has started and waits. When stdin ends before all of its input has come,
 *       COMMAND is killed, never having seen the end of its input, and this exits
 *       CTL_EXIT_NO_INPUT without a frame. It also ends without one when COMMAND ended before the
 *       head had come.
 *
 *   run MARKER
 *       Writes MARKER to stderr, proves its isolation, reads one plan from stdin to its end, runs
 *       it and writes one report frame to stdout; as the first process of the container it then
 *       ends everything else and writes the two end frames. Exit 0 when a report was written,
 *       whatever it says. A member of a pool is this program between the marker and the first byte
 *       of the plan; when its stdin ends without a byte it exits CTL_EXIT_NO_INPUT and writes no
 *       frame.
 *
 *   probe [--kernel] [--banner] [--socket]
 *       The storage and identity probe: one JSON document and a newline on stdout, then exit 0.
 *
 *   version
 *       `plimsoll-guest <release> report <CTL_REPORT_VERSION>` and a newline.
 */
#define CTL_PROGRAM "/usr/local/lib/plimsoll/plimsoll-guest"
/*
 * The same bytes with mode 0755, for the runtime runsc alone. gVisor reads a program as its user
 * before it runs it, so it refuses to start a file of mode 0711 (EACCES; its issue 160). There the
 * program is dumpable for the moment until it has cleared the flag: nothing of the guest's runs yet
 * when a run's container starts, and a session's guest is quiesced. The proof of a step that cannot
 * read the program's file is of CTL_PROGRAM, under every other runtime.
 */
#define CTL_PROGRAM_RUNSC "/usr/local/lib/plimsoll/plimsoll-guest-runsc"
/* What node loads before a snippet, where an image has it (guest/drivers/warm.js). */
#define CTL_WARM "/usr/local/lib/plimsoll/warm.js"
#define CTL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Variables it reads: the work directory (default CTL_WORK), created when missing. */
#define CTL_ENV_WORK "PLIMSOLL_WORK"
#define CTL_WORK     "/work"
/* A step learns the runner's process ID from this one. */
#define CTL_ENV_RUNNER_PID "PLIMSOLL_RUNNER_PID"
/* Where a host client module is put, and the socket that the probe talks to. */
#define CTL_HOST_SDK "/tmp/plimsoll-host.mjs"
#define CTL_SOCKET   "/run/host-api.sock"

enum {
    CTL_EXIT_OK = 0,
    CTL_EXIT_USAGE = 2,      /* the call is not one of those above */
    CTL_EXIT_NO_INPUT = 3,   /* run: no plan came; supervise: not all of the input */
    CTL_EXIT_NO_REPORT = 4,  /* run: stdout broke, or memory ended, before the frame was complete */
    CTL_EXIT_ISOLATION = 5,  /* supervise: it could not be proven; before the marker */
    CTL_EXIT_DUMPABLE = 125, /* the dumpable flag could not be cleared or read back */
    CTL_EXIT_NO_EXEC = 126,  /* start, supervise */
    CTL_EXIT_NOT_FOUND = 127, /* start, supervise */
};

/*
 * The start marker: CTL_MARKER_PREFIX, 16 lower-case hex digits, a newline. MARKER of a call is
 * the whole of it.
 */
#define CTL_MARKER_PREFIX "plimsoll-started:"
enum { CTL_MARKER_HEX = 16, CTL_MARKER_BYTES = sizeof CTL_MARKER_PREFIX - 1 + CTL_MARKER_HEX + 1 };

/*
 * The head of a supervised run's input: the key of this run, then the length of what follows, big
 * endian. With the length the end of the input is known when its last byte is, and an input that
 * was cut is never taken for a whole one.
 */
enum { CTL_KEY_BYTES = 32, CTL_HEAD_BYTES = CTL_KEY_BYTES + 8 };

/*
 * The plan, one JSON object. Fields in any order, each at most once, no others; strings are UTF-8.
 *
 *   files         [{"path", "content"}]  written before any step; required, may be empty
 *   steps         ["..."]                shell command lines, in order; required, may be empty
 *   stepTimeoutMs integer                budget of each step, 1 .. CTL_STEP_TIMEOUT_MS_MAX;
 * required artifacts     ["path"]               brought back after the steps; required, may be
 * empty env           ["NAME=value"]         added to each step; required, may be empty reportKey
 * 64 hex digits          authenticates the report; required hostSDK       string host client
 * module; optional
 */
enum {
    /* Files may hold 4 MiB, and JSON may spend six bytes on one of theirs; the rest is generous. */
    CTL_PLAN_BYTES_MAX = 32 << 20,
    CTL_PLAN_FILES_MAX = 1024,
    CTL_PLAN_STEPS_MAX = 1024,
    CTL_PLAN_ARTIFACTS_MAX = 1024,
    CTL_PLAN_ENV_MAX = 1024,
    CTL_STEP_TIMEOUT_MS_MAX = 24 * 60 * 60 * 1000,
};

/*
 * The report frame, on stdout:
 *
 *   LF CTL_REPORT_MARKER SP length SP mac LF body
 *
 * length is the body's in plain decimal; mac is HMAC-SHA256 of the body under the key's 32 bytes,
 * as 64 lower-case hex digits. The body is one JSON object, without a newline after it, and has
 * exactly the members below, each once, or exactly {"error": string}.
 *
 *   {"steps": [{"command": string, "stdoutBase64": string, "stderrBase64": string,
 *               "stdoutTruncated": bool, "stderrTruncated": bool, "exitCode": integer,
 *               "timedOut": bool, "durationMs": integer}],
 *    "artifacts": [{"path": string, "content": base64}],
 *    "artifactsTruncated": bool}
 *
 * `command` is the step's, cut to CTL_COMMAND_BYTES_MAX on a character's border. exitCode is the
 * status, 124 with timedOut, -1 when the step ended by a signal or could not be started. An error
 * is one of CTL_ERROR_* (those that end in ": " go on with a path or a cause). When isolation could
 * not be proven there is no key yet: that frame's mac is 64 zeros, which no key yields in practice,
 * so that a host finds a frame it cannot verify.
 */
#define CTL_REPORT_VERSION 3
#define CTL_REPORT_MARKER  "<<<PLIMSOLL_REPORT_V3>>>"

#define CTL_ERROR_ISOLATION   "isolation could not be proven"
#define CTL_ERROR_PLAN        "the plan cannot be read: "
#define CTL_ERROR_PATH        "illegal file path: "
#define CTL_ERROR_NOT_REGULAR "not a regular file: "
#define CTL_ERROR_WRITE       "cannot write a file: "
#define CTL_ERROR_ENV         "bad environment entry"
#define CTL_ERROR_WORK        "the work directory cannot be used: "
#define CTL_ERROR_BUDGET      "sandbox result exceeds the encoded response budget"

enum {
    CTL_MAC_HEX = 64,
    CTL_STEP_EXIT_TIMEOUT = 124,
    CTL_STEP_EXIT_NONE = -1,
    CTL_STEP_OUTPUT_MAX = 1 << 20, /* both streams of a step; one byte more kills it */
    CTL_STEP_LINGER_MS = 250,      /* for what a shell that has exited left holding its output */
    CTL_COMMAND_BYTES_MAX = 16 << 10,
    CTL_STEPS_JSON_MAX = 3 << 20, /* outputs are cut so that all steps encoded stay within it */
    CTL_ARTIFACTS_RAW_MAX = 8 << 20,
    CTL_BODY_BYTES_MAX = 15 << 20,  /* what the program writes */
    CTL_BODY_BYTES_READ = 16 << 20, /* what a host accepts as a length */
    CTL_HEADER_BYTES_MAX = 96,      /* after the marker, up to the newline */
};

/*
 * The end frame, the last bytes of a stream: all that can be known of the end of a container from
 * inside, when nobody is left in it who could write another byte.
 *
 *   LF CTL_END_MARKER SP status SP memory SP pids SP disk SP mac LF
 *
 * The four numbers are eight lower-case hex digits each. status is the exit status that this
 * program is about to end with; memory counts processes of this container that the kernel killed
 * for want of memory, pids the forks that it refused at the process limit; disk counts the writable
 * places that were found without a free block after a guest that ended badly. CTL_END_UNKNOWN
 * stands for what this kernel does not tell. mac is HMAC-SHA256, as 64 lower-case hex digits, under
 * the key of the run, of CTL_END_STDOUT or CTL_END_STDERR followed by the text from the marker to
 * the space before the mac: no frame of one stream is one of the other, and none is a report.
 */
#define CTL_END_MARKER  "<<<PLIMSOLL_END_V1>>>"
#define CTL_END_STDOUT  "end of stdout "
#define CTL_END_STDERR  "end of stderr "
#define CTL_END_UNKNOWN UINT32_C(0xffffffff)

enum {
    CTL_END_NUMBERS = 4,
    CTL_END_SIGNED_BYTES = sizeof CTL_END_MARKER - 1 + (size_t)CTL_END_NUMBERS * 9 + 1,
    CTL_END_BYTES = 1 + CTL_END_SIGNED_BYTES + 64 + 1,
};

struct ctl_end {
    uint32_t status, memory, pids, disk;
};

/* The signed text of a frame, which has no terminator. */
void ctl_end_text(const struct ctl_end *end, char out[CTL_END_SIGNED_BYTES]);

/* Are these CTL_END_BYTES bytes a frame? Its signed text begins at 1, its mac, borrowed, follows
 * it; nothing of it is to be believed before that was compared. */
bool ctl_end_read(const unsigned char *bytes, struct ctl_end *end, const char **mac);

/* The number after `name` and a space at the beginning of a line of what a kernel counts, at most
 * CTL_END_UNKNOWN - 1; CTL_END_UNKNOWN when there is none. */
uint32_t ctl_end_counter(const char *text, const char *name);

/*
 * The probe's document. Members, in this order; a member that could not be read is null.
 *
 *   "release":      string   of the program, the same as `version` prints
 *   "report":       integer  CTL_REPORT_VERSION
 *   "rootWritable": bool     a file could be made in /
 *   "mounts":       string   text of /proc/mounts
 *   "writable":     [string] mount points that took a byte, in the table's order, each once
 *   "pidsMax":      string   first readable of pids.max of cgroup v2 and v1, 32 characters at most
 *   "uid", "gid", "groups": [string]  numbers of /proc/self/status, 64 at most of each
 *   "interfaces":   [string] names of /proc/net/dev: 16 at most, of 32 characters at most
 *   "kernel":       {"release": string, "version": string, "proc": string}, with --kernel only
 *   "banner":       string   kernel log, 512 bytes at most, with --banner only
 *   "socket":       {"connected": bool, "reply": string}, with --socket only
 */
enum {
    CTL_PROBE_MOUNTS_MAX = 256 << 10,
    CTL_PROBE_PIDS_MAX = 32,
    CTL_PROBE_IDS_MAX = 64,
    CTL_PROBE_INTERFACES_MAX = 16,
    CTL_PROBE_NAME_MAX = 32,
    CTL_PROBE_BANNER_MAX = 512,
    CTL_PROBE_WAIT_MS = 3000, /* for the kernel log and for the socket's reply */
};

/* A frame as it stands in a runner's output, all of it borrowed from there. Nothing in it is to be
 * believed before `mac` was compared, in constant time, with the body's under the run's key. */
struct ctl_frame {
    const char *mac; /* CTL_MAC_HEX lower-case hex digits, no terminator */
    const unsigned char *body;
    size_t body_len;
};

/*
 * Find the next well-formed frame at or after `*offset` of `bytes`, and move `*offset` to where to
 * look for another. False when there is none; `*marker_seen` becomes true when a marker was met,
 * whatever followed it, and is never made false.
 */
bool ctl_frame_next(const unsigned char *bytes, size_t len, size_t *offset, struct ctl_frame *frame,
                    bool *marker_seen);

#endif
