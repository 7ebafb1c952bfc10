"""Attempts to leave a container by system calls: known shapes of escapes from runc and from the kernel, each as the calls it
begins with, made by Python's ctypes in a step. Under runc the shipped seccomp profile stands, under runsc gVisor.

A row is (name, what must not happen, program). A program prints `ESCAPED: ...` when it did. `call(number, ...)` makes a system
call of x86_64 and returns (result, errno); `refused(...)` says so when one was answered at all. What gVisor emulates leads
nowhere, so there a row says by `gvisor` that only its outcome counts, not that the call was answered.
"""

import platform

import pytest
from docker_harness import (JS, PYTHON, ROOT, Engine, engine, lack, need_runtime, project, start_daemon)  # noqa: F401

PROFILE = ROOT / "packaging/seccomp.json"

PRELUDE = r"""
import ctypes, errno, mmap, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
gvisor = "4.4.0" in open("/proc/version").read()

def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[a if not isinstance(a, int) else ctypes.c_long(a) for a in arguments])
    return result, ctypes.get_errno()

def escaped(what):
    print("ESCAPED:", what, flush=True)

def refused(what, number, *arguments):
    result, why = call(number, *arguments)
    if result >= 0:
        escaped(f"{what}: {result}")
    return result

def buffer(size=4096):
    return ctypes.create_string_buffer(size)

def opened(path, flags=os.O_RDONLY):
    try:
        return os.open(path, flags)
    except OSError:
        return None

def socket_of(family, kind, protocol=0):
    try:
        return socket.socket(family, kind, protocol)
    except OSError:
        return None
"""

NAMESPACES = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "uts": 0x4000000, "ipc": 0x8000000,
              "cgroup": 0x2000000, "time": 0x80}

ROWS = [
    # Another process.
    ("ptrace_runner", "the runner is traced", "refused('attached', 101, 16, int(os.environ['PLIMSOLL_RUNNER_PID']), 0, 0)"),
    ("ptrace_seize", "the runner is seized", "refused('seized', 101, 0x4206, int(os.environ['PLIMSOLL_RUNNER_PID']), 0, 0)"),
    ("process_vm_read", "the runner's memory is read",
     "b = buffer(16); v = struct.pack('QQ', ctypes.addressof(b), 16); w = struct.pack('QQ', 0x400000, 16)\n"
     "refused('read', 310, int(os.environ['PLIMSOLL_RUNNER_PID']), v, 1, w, 1, 0)"),
    ("process_vm_write", "the runner's memory is written",
     "b = buffer(16); v = struct.pack('QQ', ctypes.addressof(b), 16); w = struct.pack('QQ', 0x400000, 16)\n"
     "refused('written', 311, int(os.environ['PLIMSOLL_RUNNER_PID']), v, 1, w, 1, 0)"),
    ("pidfd_getfd", "a descriptor of the runner is taken",
     "fd, _ = call(434, 1, 0)\nif fd >= 0:\n    for n in range(20): refused('taken', 438, fd, n, 0)"),
    ("kcmp", "the runner's files are compared", "refused('compared', 312, os.getpid(), 1, 0, 0, 0)"),
    ("host_pids", "a process outside is signalled",
     "for p in range(100, 4000):\n    if not os.path.exists(f'/proc/{p}') and call(62, p, 0)[0] == 0 and not os.path.exists(f'/proc/{p}'): "
     "escaped(p)"),
    ("proc_mem", "the runner's memory is opened", "for p in (1,):\n    if opened(f'/proc/{p}/mem', os.O_RDWR) is not None: escaped(p)"),
    # Keys, programs of the kernel, rings.
    ("add_key", "a key is made in the kernel's ring", "r = call(248, b'user', b'x', b'y', 1, -3)[0]\nif r >= 0 and not gvisor: escaped(r)"),
    ("request_key", "a helper of the host is called for a key", "refused('asked', 249, b'user', b'nothing', b'x', -3)"),
    ("keyctl_join", "a session ring is joined", "r = call(250, 1, 0)[0]\nif r >= 0 and not gvisor: escaped(r)"),
    ("keyctl_read", "a key of the host is read",
     "b = buffer()\nfor ring in range(-6, 0):\n    r = call(250, 11, ring, b, 4096)[0]\n    if r > 0: escaped(f'{ring}: {r}')"),
    ("bpf_map", "a map is made", "a = struct.pack('IIII', 1, 4, 4, 1) + bytes(112)\nrefused('map', 321, 0, a, len(a))"),
    ("bpf_program", "a program is loaded into the kernel (CVE-2020-8835, CVE-2021-3490)",
     "code = struct.pack('BBhi', 0xb7, 0, 0, 0) + struct.pack('BBhi', 0x95, 0, 0, 0); c = buffer(len(code)); c.raw = code\n"
     "l = ctypes.c_char_p(b'GPL')\na = struct.pack('IIQQIIQ', 1, 2, ctypes.addressof(c), ctypes.cast(l, ctypes.c_void_p).value, 0, 0, 0) + bytes(88)\n"
     "refused('loaded', 321, 5, a, len(a))"),
    ("bpf_socket", "a filter reaches a packet socket", "s = socket_of(17, socket.SOCK_RAW, 768)\nif s and not gvisor: escaped('packet')"),
    ("io_uring", "a ring is made (CVE-2021-41073, CVE-2022-29582)",
     "p = buffer(120); r = call(425, 8, p)[0]\nif r >= 0 and not gvisor: escaped('ring')"),
    ("io_uring_open", "a ring opens what its user may not",
     "p = buffer(120); r = call(425, 8, p)[0]\nif r >= 0: refused('registered', 427, r, 0xffff, 0, 0)"),
    ("userfaultfd", "page faults are held up (CVE-2021-22555, CVE-2022-0185)", "r = call(323, 0)[0]\nif r >= 0 and not gvisor: escaped(r)"),
    ("perf_event", "the processor is watched (CVE-2013-2094, CVE-2023-5717)",
     "a = struct.pack('IIQ', 1, 128, 0) + bytes(112)\nrefused('watched', 298, a, 0, -1, -1, 0)"),
    ("perf_event_system", "all processors are watched", "a = struct.pack('IIQ', 0, 128, 0) + bytes(112)\nrefused('watched', 298, a, -1, 0, -1, 0)"),
    # Namespaces and mounts.
    *[(f"unshare_{name}", f"a {name} namespace gives powers over the host's kernel",
       f"r = call(272, {flag})[0]\nif r == 0 and not gvisor: escaped('unshare')\n"
       "if r == 0 and call(165, b'none', b'/work', b'ext4', 0, 0)[0] == 0: escaped('ext4')") for name, flag in NAMESPACES.items()],
    *[(f"setns_{name}", f"the {name} namespace of process 1 is entered again",
       f"fd = opened('/proc/1/ns/{name}')\nif fd is not None:\n    r = call(308, fd, 0)[0]\n    if r == 0 and not gvisor: escaped('entered')")
      for name in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")],
    ("clone3_user", "clone3 makes a user namespace", "a = struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0); r = call(435, a, 64)[0]\n"
     "if r == 0: os._exit(0)\nif r > 0 and not gvisor: escaped(r)"),
    ("clone_user", "clone makes a user namespace (CVE-2022-0185, CVE-2024-1086)", "r = call(56, 0x10000000 | 17, 0, 0, 0, 0)[0]\n"
     "if r == 0: os._exit(0)\nif r > 0 and not gvisor: escaped(r)"),
    ("release_agent", "a control group is mounted in a namespace (CVE-2022-0492)",
     "call(272, 0x10000000 | 0x2000000 | 0x20000)\nif call(165, b'cgroup', b'/work', b'cgroup', 0, b'rdma')[0] == 0 and os.path.exists('/work/release_agent'):\n"
     "    try:\n        open('/work/release_agent', 'w').write('/x'); escaped('release_agent')\n    except OSError: pass"),
    ("fsopen", "a file system is opened (CVE-2022-0185)", "for f in (b'ext4', b'cgroup', b'proc', b'overlay'):\n    refused(f, 430, f, 0)"),
    ("fspick", "the root is picked for a change", "refused('picked', 433, -100, b'/', 0)"),
    ("open_tree", "the tree is cloned", "refused('cloned', 428, -100, b'/', 1)"),
    ("move_mount", "a mount is moved", "refused('moved', 429, -100, b'/proc', -100, b'/work', 0)"),
    ("mount_setattr", "the root becomes writable", "a = struct.pack('QQQQ', 0, 1, 0, 0)\nrefused('changed', 442, -100, b'/', 0, a, 32)"),
    ("mount_call", "a file system is mounted", "for f in (b'tmpfs', b'proc', b'sysfs', b'cgroup2', b'ext4'):\n"
     "    if call(165, b'none', b'/work', f, 0, 0)[0] == 0 and not (gvisor and f == b'tmpfs'): escaped(f)"),
    ("remount_call", "the root becomes writable", "refused('remounted', 165, b'none', b'/', b'none', 0x20, 0)"),
    ("bind_proc", "a mask is covered", "refused('bound', 165, b'/proc/self', b'/proc/kcore', b'none', 0x1000, 0)"),
    ("overlay", "an overlay is mounted (CVE-2021-3493, CVE-2023-0386)",
     "for d in 'lum': os.mkdir('/work/' + d)\nos.mkdir('/work/w'); call(272, 0x10000000 | 0x20000)\n"
     "if call(165, b'overlay', b'/work/m', b'overlay', 0, b'lowerdir=/etc,upperdir=/work/u,workdir=/work/w')[0] == 0 and not gvisor: escaped('overlay')"),
    ("pivot_root", "the root is moved", "refused('moved', 155, b'/work', b'/work')"),
    ("chroot_call", "the root is another place", "os.mkdir('/work/j'); r = call(161, b'/work/j')[0]\nif r == 0 and not gvisor: escaped('chroot')"),
    ("umount_call", "a mask is taken off", "for p in (b'/proc/kcore', b'/proc/keys', b'/sys/firmware', b'/proc/sys', b'/tmp'):\n    refused(p, 166, p, 2)"),
    # Handles and files.
    ("open_by_handle", "a file is opened past every check (the Shocker shape)",
     "h = struct.pack('Ii', 8, 1) + struct.pack('II', 2, 0); fd = opened('/')\nrefused('opened', 304, fd, h, 0)"),
    ("name_to_handle", "a handle of a host's file is made and opened",
     "h = struct.pack('Ii', 128, 0) + bytes(128); b = buffer(136); b.raw = h; m = buffer(4)\n"
     "for p in (b'/etc/hosts', b'/etc/hostname', b'/etc/resolv.conf'):\n    if call(303, -100, p, b, m, 0)[0] == 0: refused(p, 304, opened('/'), b, 0)"),
    ("openat2_root", "a path leads out of a root", "h = struct.pack('QQQ', 0, 0, 0x10); fd = opened('/work')\n"
     "r = call(437, fd, b'../../../../../etc/shadow', h, 24)[0]\nif r >= 0 and os.read(r, 1): escaped('shadow')"),
    ("dirty_cow", "a read-only file is written through its mapping (CVE-2016-5195)",
     "fd = opened('/etc/passwd'); m = mmap.mmap(fd, 64, mmap.MAP_PRIVATE, mmap.PROT_READ); before = open('/etc/passwd', 'rb').read()\n"
     "a = ctypes.c_char.from_buffer_copy(b'x')\nmem = opened('/proc/self/mem', os.O_RDWR)\n"
     "maps = [l for l in open('/proc/self/maps') if '/etc/passwd' in l]\n"
     "if mem is not None and maps:\n    try: os.pwrite(mem, b'HACKED', int(maps[0].split('-')[0], 16))\n    except OSError: pass\n"
     "if open('/etc/passwd', 'rb').read() != before: escaped('passwd')"),
    ("dirty_pipe", "a read-only file is written through a pipe (CVE-2022-0847)",
     "before = open('/etc/passwd', 'rb').read(); fd = opened('/etc/passwd'); r, w = os.pipe()\n"
     "try:\n    n = 65536\n    os.write(w, bytes(n)); os.read(r, n)\n    os.splice(fd, w, 1, offset_src=0); os.write(w, b'HACKED')\n"
     "except (OSError, AttributeError): pass\nif open('/etc/passwd', 'rb').read() != before: escaped('passwd')"),
    ("splice_root", "bytes are spliced into the root", "r, w = os.pipe(); os.write(w, b'x'); fd = opened('/etc/passwd', os.O_RDWR)\n"
     "if fd is not None: escaped('opened')"),
    ("vmsplice", "memory is given to the kernel by reference (CVE-2008-0600)",
     "r, w = os.pipe(); b = buffer(16); v = struct.pack('QQ', ctypes.addressof(b), 16)\nx = call(278, w, v, 1, 8)[0]\nif x >= 0 and not gvisor: escaped(x)"),
    ("runtime_exe", "a program of ours or the runtime's is opened for writing (CVE-2019-5736)",
     "import glob\nfor e in glob.glob('/proc/[0-9]*/exe') + ['/usr/bin/env', '/bin/sh', '/usr/local/lib/plimsoll/plimsoll-guest']:\n"
     "    if opened(e, os.O_WRONLY) is not None: escaped(e)"),
    ("leaked_fd_cwd", "a descriptor leads to a folder of the host (CVE-2024-21626)",
     "for n in range(3, 64):\n    try: t = os.readlink(f'/proc/self/fd/{n}')\n    except OSError: continue\n"
     "    if t.startswith('/sys') or (os.path.isdir(f'/proc/self/fd/{n}') and not t.startswith(('/work', '/proc/self', '/proc/%d' % os.getpid()))): escaped(t)"),
    ("leaked_fd_runner", "a descriptor of the runner leads outside",
     "for n in range(0, 64):\n    try: t = os.readlink(f'/proc/1/fd/{n}')\n    except OSError: continue\n"
     "    if t.startswith('/') and not t.startswith(('/work', '/dev/null', '/proc', '/usr/local/lib/plimsoll/')): escaped(t)"),
    ("cwd_deleted", "a deleted folder leads outside", "os.makedirs('/work/a/b'); os.chdir('/work/a/b'); os.rmdir('/work/a/b')\n"
     "if opened('../../../../../../root/.ssh') is not None: escaped('root')"),
    ("symlink_race", "a link that turns during the look leads outside",
     "import threading\nstop = []\ndef turn():\n    while not stop:\n        for t in ('/etc', '/work'):\n            try: os.symlink(t, '/work/t.new'); os.rename('/work/t.new', '/work/turn')\n"
     "            except OSError: pass\nt = threading.Thread(target=turn); t.start()\nfor _ in range(2000):\n    fd = opened('/work/turn/shadow')\n"
     "    if fd is not None: escaped('shadow'); break\nstop.append(1); t.join()"),
    ("core_pattern_fd", "the host's core handler is reached", "for p in ('/proc/sys/kernel/core_pattern', '/proc/1/root/proc/sys/kernel/core_pattern'):\n"
     "    if opened(p, os.O_WRONLY) is not None: escaped(p)"),
    ("uevent", "the host's helper for devices is set, or a device's event forged",
     "for d, _, files in os.walk('/sys'):\n    for f in files:\n        p = os.path.join(d, f)\n"
     "        if 'uevent' in f and opened(p, os.O_WRONLY) is not None: escaped(p)"),
    ("sys_writable", "anything under /proc/sys or /sys is opened for writing",
     "for top in ('/proc/sys', '/sys/fs/cgroup', '/sys/kernel'):\n    for d, _, files in os.walk(top):\n        for f in files[:50]:\n"
     "            if opened(os.path.join(d, f), os.O_WRONLY | os.O_NONBLOCK) is not None: escaped(os.path.join(d, f))"),
    # Machine and clock.
    ("modules", "a module is loaded", "refused('init', 175, b'x', 1, b''); refused('finit', 313, opened('/etc/passwd'), b'', 0); refused('delete', 176, b'x', 0)"),
    ("kexec", "another kernel is loaded", "refused('kexec', 246, 0, 0, 0, 0); refused('kexec_file', 320, opened('/etc/passwd'), -1, 0, b'', 0)"),
    ("reboot", "the machine is restarted", "refused('reboot', 169, 0xfee1dead, 672274793, 0, 0)"),
    ("swap", "swap is changed", "open('/work/s', 'wb').write(bytes(65536)); refused('on', 167, b'/work/s', 0); refused('off', 168, b'/work/s')"),
    ("clock", "the time of day is set", "t = struct.pack('qq', 0, 0)\nrefused('settimeofday', 164, t, 0); refused('clock_settime', 227, 0, t)"),
    ("adjtime", "the clock is steered", "b = buffer(256); struct.pack_into('I', b, 0, 1)\nrefused('adjtimex', 159, b)"),
    ("ports", "ports of the machine are opened", "refused('iopl', 172, 3); refused('ioperm', 173, 0x60, 1, 1)"),
    ("ldt", "a segment is made (CVE-2015-5157)", "a = struct.pack('IIII', 0, 0x1000, 1, 0x51)\nr = call(154, 1, a, 16)[0]\nif r == 0 and not gvisor: escaped('ldt')"),
    ("syslog", "the kernel's log is read", "b = buffer(); r = call(103, 3, b, 4096)[0]\nif r > 0 and not gvisor: escaped(b.raw[:60])"),
    ("acct", "accounting is switched on", "refused('acct', 163, b'/work/a')"),
    ("quota", "quotas are changed", "refused('quota', 179, 0x800002, b'/work', 0, 0)"),
    ("hostname", "the name of the host changes", "r = call(170, b'x', 1)[0]\nif r == 0 and not gvisor: escaped('name')"),
    ("fanotify", "files of everybody are watched", "r = call(300, 0, 0)[0]\nif r >= 0 and not gvisor: escaped(r)"),
    ("lookup_dcookie", "paths of the host are looked up", "b = buffer()\nrefused('path', 212, 1, b, 4096)"),
    ("nice", "it goes before everybody", "r = call(141, 0, 0, -20)[0]\nif r == 0 and not gvisor: escaped('nice')"),
    ("realtime", "it takes a processor", "r = call(144, 0, 1, struct.pack('i', 99))[0]\nif r == 0 and not gvisor: escaped('fifo')"),
    ("mlock", "it holds memory past its limit", "m = mmap.mmap(-1, 300 << 20)\nif call(149, ctypes.addressof(ctypes.c_char.from_buffer(m)), 300 << 20)[0] == 0 and not gvisor: escaped('locked')"),
    # Users and powers.
    ("setuid_calls", "it becomes root", "for n, a in ((105, (0,)), (106, (0,)), (117, (0, 0, 0)), (119, (0, 0, 0)), (122, (0,))):\n    call(n, *a)\n"
     "if 0 in os.getresuid() + os.getresgid(): escaped(os.getresuid())"),
    ("capset", "it takes capabilities", "h = struct.pack('Ii', 0x20080522, 0); d = struct.pack('IIIIII', 0xffffffff, 0xffffffff, 0xffffffff, 0xff, 0xff, 0xff)\nrefused('taken', 126, h, d)"),
    ("ambient", "it raises an ambient capability", "refused('raised', 157, 47, 2, 21, 0, 0)"),
    ("no_new_privs_off", "it may gain rights again", "call(157, 38, 0, 0, 0, 0)\nif call(157, 39, 0, 0, 0, 0)[0] != 1: escaped('off')"),
    ("seccomp_off", "its filter is taken off", "if not gvisor:\n    call(157, 22, 0, 0)\n    if 'Seccomp:\\t2' not in open('/proc/self/status').read(): escaped('off')"),
    ("setuid_file", "a program of root's, made by nobody, gives rights",
     "import shutil, subprocess\nfor d in ('/tmp', '/work', '/dev/shm'):\n    shutil.copy('/usr/bin/id', d + '/id')\n    try: os.chmod(d + '/id', 0o6755)\n    except OSError: pass\n"
     "    try: out = subprocess.run([d + '/id', '-u'], capture_output=True).stdout\n    except OSError: continue\n    escaped(out)"),
    ("file_caps", "a file is given capabilities", "import shutil\nshutil.copy('/usr/bin/id', '/work/id')\ntry:\n    os.setxattr('/work/id', 'security.capability', struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0xffffffff, 0)); escaped('set')\nexcept OSError: pass"),
    ("device_nodes", "a device is made and opened", "for d in ('/tmp', '/work', '/dev/shm', '/dev'):\n    for m, n in ((0o60666, 0x800), (0o20666, 0x101), (0o60666, 0xfe00)):\n"
     "        if call(133, f'{d}/n{n}'.encode(), m, n)[0] == 0 and opened(f'{d}/n{n}') is not None: escaped(n)"),
    # Sockets.
    *[(f"socket_{name}", f"a {name} socket speaks past the container", f"s = socket_of({family}, {kind}, {protocol})\nif s and not gvisor: escaped('{name}')\n"
       "if s and gvisor and len(socket.if_nameindex()) > 1: escaped('interfaces')")
      for name, family, kind, protocol in (("raw", 2, 3, 1), ("raw6", 10, 3, 58), ("packet", 17, 3, 768), ("netlink_netfilter", 16, 3, 12),
                                           ("netlink_audit", 16, 3, 9), ("vsock", 40, 1, 0), ("alg", 38, 5, 0), ("xdp", 44, 3, 0),
                                           ("bluetooth", 31, 3, 1), ("can", 29, 3, 1), ("tipc", 30, 1, 0), ("rds", 21, 5, 0),
                                           ("dccp", 2, 6, 33), ("sctp", 2, 1, 132), ("smc", 43, 1, 0), ("x25", 9, 5, 0))],
    ("vsock_host", "the machine around this one answers", "s = socket_of(40, 1)\nif s:\n    s.settimeout(1)\n    for p in (22, 1024, 2375, 5000):\n"
     "        for c in (2, 1, 0):\n            try: s.connect((c, p)); escaped((c, p))\n            except OSError: pass"),
    ("host_sockets", "a socket of a service of the host is there",
     "for d in ('/run', '/var/run', '/tmp', '/work', '/dev'):\n    for b, _, files in os.walk(d):\n        for f in files:\n            import stat\n"
     "            try:\n                if stat.S_ISSOCK(os.lstat(os.path.join(b, f)).st_mode): escaped(os.path.join(b, f))\n            except OSError: pass"),
    ("abstract_engine", "an abstract socket of the Engine's or the supervisor's answers (CVE-2020-15257)",
     "names = [l.split()[-1][1:] for l in open('/proc/net/unix') if l.rstrip().split()[-1].startswith('@')]\n"
     "for n in names + ['/containerd-shim/x.sock', 'containerd', '/org/freedesktop/systemd1/notify']:\n    s = socket_of(1, 1)\n"
     "    try: s.connect('\\0' + n); escaped(n)\n    except OSError: pass"),
    # Old interfaces.
    ("uselib", "an old loader is used (CVE-2004-1235)", "refused('uselib', 134, b'/bin/sh')"),
    ("x32", "a call of another convention is answered", "r = call(0x40000000 | 39)[0]\nif r > 0 and not gvisor: escaped(r)"),
    ("personality", "addresses are no longer random", "r = call(135, 0x0040000)[0]\nif r >= 0 and not gvisor: escaped(r)"),
    ("move_pages", "pages of the runner are moved", "r = call(279, 1, 1, 0, 0, 0, 0)[0]\nif r > 0: escaped(r)"),
    ("msg_queues", "storage outside every mount is made", "for n, a in ((68, (0, 0o1777)), (64, (0, 1, 0o1777)), (29, (0, 65536, 0o1777)), (240, (b'q', 0o102, 0o777, 0))):\n"
     "    r = call(n, *a)[0]\n    if r >= 0 and not gvisor: escaped(n)"),
    ("memfd_secret", "memory that nobody can look at", "r = call(447, 0)[0]\nif r >= 0 and not gvisor: escaped(r)"),
]


def test_the_table_is_large_and_says_why():
    assert len(ROWS) >= 60
    assert len({name for name, *_ in ROWS}) == len(ROWS)
    assert all(what and program for _, what, program in ROWS)


@pytest.fixture(scope="module", params=["", "runsc"], ids=["container", "kernel"])
def daemon(engine, request):
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of the calls are those of x86_64")
    if engine.call("GET", f"/images/{PYTHON}/json")[0] != 200:
        lack(f"there is no image {PYTHON}; make images builds it")
    need_runtime(request.param)
    with start_daemon((JS, PYTHON), SANDBOX_DOCKER_RUNTIME=request.param, SANDBOX_DOCKER_POOL="3", SANDBOX_DOCKER_SECCOMP=PROFILE,
                      SANDBOX_TOTAL_MEMORY_MB="2048") as running:
        assert running.listening["isolation"] == ("kernel" if request.param else "container")
        yield running


@pytest.mark.parametrize("name, what, program", ROWS, ids=[row[0] for row in ROWS])
def test_no_call_escapes(daemon, name, what, program):
    found = project(daemon, ["python3 try.py 2>&1; echo tried"], {"try.py": PRELUDE + program + "\n"}, timeout_ms=30000)
    assert found["outcome"] == "COMPLETED", found
    out = found["steps"][0]["out"].decode(errors="replace")
    assert "ESCAPED" not in out, f"{what}: {out}"
    assert out.endswith("tried\n")
    assert "Traceback" not in out, f"the attempt itself is broken: {out}"


def test_an_attempt_that_succeeds_is_seen(daemon):
    """What the rows rely on: a call is really made, and its answer is really read."""
    program = "refused('getpid', 39)\nrefused('no such call', 9999)\n"
    out = project(daemon, ["python3 try.py"], {"try.py": PRELUDE + program})["steps"][0]["out"]
    assert out.startswith(b"ESCAPED: getpid: ") and out.count(b"ESCAPED") == 1
