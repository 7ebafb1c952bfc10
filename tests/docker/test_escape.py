"""Attempts to leave a container, at every tier this machine has. Each row says what must not happen; a hostile program
prints `ESCAPED: ...` when it did, and anything else it can do is its own affair.

A row is (name, what must not happen, language, program). `sh` programs are steps of a project; `js` are snippets.
"""

import pytest
from docker_harness import (engine, images, javascript, need_runtime, project, start_daemon)  # noqa: F401

WRITE = "(echo x > {0}) 2>/dev/null && echo 'ESCAPED: {0} was written'"
FILL = ("head -c {1} /dev/zero > {0}/x 2>/dev/null && echo 'ESCAPED: {0} took it all'; "
        "n=$(stat -c %s {0}/x 2>/dev/null) && [ $n -gt {2} ] && echo \"ESCAPED: {0} has $n\"; true")
READ = "[ -n \"$(head -c 1 {0} 2>/dev/null | tr -d '\\0')\" ] && echo 'ESCAPED: {0} was read'"

# What gVisor makes of its own leads nowhere: its devices are its emulation, and a copy that its loader maps from a
# writable place is the guest's own code, which it may run in any case.
NOT_GVISOR = "grep -q 'Linux version 4.4.0' /proc/version && exit 0; "

ROWS = [
    # Writes to the kernel.
    ("core_pattern", "the host's core handler changes", "sh", WRITE.format("/proc/sys/kernel/core_pattern")),
    ("modprobe", "the host's module loader changes", "sh", WRITE.format("/proc/sys/kernel/modprobe")),
    ("hotplug", "the host's uevent helper changes", "sh", WRITE.format("/sys/kernel/uevent_helper")),
    ("panic", "the host's panic setting changes", "sh", WRITE.format("/proc/sys/kernel/panic")),
    ("sysrq", "the host takes a sysrq", "sh", "(echo h > /proc/sysrq-trigger) 2>/dev/null && echo 'ESCAPED: sysrq'"),
    ("ip_forward", "the network stack changes", "sh", WRITE.format("/proc/sys/net/ipv4/ip_forward")),
    ("overcommit", "the host's memory policy changes", "sh", WRITE.format("/proc/sys/vm/overcommit_memory")),
    ("binfmt", "a program format is registered", "sh", WRITE.format("/proc/sys/fs/binfmt_misc/register")),
    ("ptrace_scope", "the ptrace policy changes", "sh", WRITE.format("/proc/sys/kernel/yama/ptrace_scope")),
    ("bus_rescan", "a bus is rescanned", "sh", WRITE.format("/sys/bus/pci/rescan")),
    ("latency", "a power setting changes", "sh", WRITE.format("/dev/cpu_dma_latency")),
    ("irq", "interrupts are steered", "sh", WRITE.format("/proc/irq/default_smp_affinity")),
    ("oom_adj", "the guest protects itself from the kernel's kill", "sh",
     "(echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && [ \"$(cat /proc/self/oom_score_adj)\" = -1000 ] "
     "&& [ ! -e /proc/sentry-meminfo ] && ! grep -q 'Linux version 4.4.0' /proc/version && echo 'ESCAPED: oom_score_adj'"),
    # Control groups.
    ("release_agent", "a release agent is set", "sh",
     "for f in /sys/fs/cgroup/*/release_agent /sys/fs/cgroup/release_agent; do "
     "(echo /tmp/x > $f) 2>/dev/null && echo \"ESCAPED: $f\"; done; true"),
    ("cgroup_limit", "its own limits are raised", "sh",
     "for f in /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/memory.max "
     "/sys/fs/cgroup/memory/memory.limit_in_bytes; do (echo 999999999 > $f) 2>/dev/null && echo \"ESCAPED: $f\"; done; true"),
    ("cgroup_new", "a control group is made", "sh",
     "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $d/x 2>/dev/null && echo \"ESCAPED: $d\"; done; true"),
    ("cgroup_leave", "a process leaves its group", "sh",
     "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do (echo $$ > $f) 2>/dev/null "
     "&& echo \"ESCAPED: $f\"; done; true"),
    # Devices and memory of the machine.
    *[(f"device {name}", f"{name} is opened", "sh", f"{NOT_GVISOR}(exec 3<{name}) 2>/dev/null && echo 'ESCAPED: {name}'")
      for name in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/kvm", "/dev/fuse",
                   "/dev/net/tun", "/dev/kmsg", "/dev/loop-control", "/dev/mapper/control", "/dev/vhost-net",
                   "/dev/userfaultfd", "/dev/bus/usb/001/001")],
    ("mknod", "a device node is made", "sh", "for d in /tmp /work /dev/shm; do mknod $d/d b 8 0 2>/dev/null "
     "&& head -c 1 $d/d 2>/dev/null && echo \"ESCAPED: $d\"; done; true"),
    ("kcore", "the host's memory is read", "sh", READ.format("/proc/kcore")),
    ("kallsyms", "kernel addresses are read", "sh",
     "grep -qv '^0*[ ]' /proc/kallsyms 2>/dev/null && grep -q '^[0-9a-f]*[1-9a-f][0-9a-f]* ' /proc/kallsyms "
     "&& echo 'ESCAPED: kallsyms'"),
    ("timer_list", "host timers are read", "sh", READ.format("/proc/timer_list")),
    ("sched_debug", "host tasks are read", "sh", READ.format("/proc/sched_debug")),
    ("keys", "kernel keys are listed", "sh", "grep -q . /proc/keys 2>/dev/null && echo 'ESCAPED: keys'"),
    ("firmware", "firmware is read", "sh", "ls /sys/firmware/efi /sys/firmware/acpi/tables 2>/dev/null | grep -q . "
     "&& echo 'ESCAPED: firmware'"),
    ("scsi", "disks are listed", "sh", READ.format("/proc/scsi/scsi")),
    # Mounts and namespaces.
    ("mount_tmpfs", "a file system is mounted", "sh", "mount -t tmpfs x /tmp 2>/dev/null && echo 'ESCAPED: mount'"),
    ("mount_proc", "proc is mounted again", "sh", "mount -t proc x /tmp 2>/dev/null && echo 'ESCAPED: mount'"),
    ("remount", "the root becomes writable", "sh", "mount -o remount,rw / 2>/dev/null && echo 'ESCAPED: remount'"),
    ("bind", "a bind mount is made", "sh", "mount --bind / /tmp 2>/dev/null && echo 'ESCAPED: bind'"),
    ("umount", "a mask is taken off", "sh", "umount /proc/kcore 2>/dev/null && echo 'ESCAPED: umount'"),
    ("unshare_mount", "a mount is made in a namespace of its own", "sh",
     "unshare -Urm sh -c 'mount -t tmpfs x /tmp && mount --bind /proc/1 /mnt' 2>/dev/null && echo 'ESCAPED: unshare'"),
    ("unshare_net", "a raw socket in a namespace of its own", "sh",
     "unshare -Urn sh -c 'ip link add dummy0 type dummy' 2>/dev/null && echo 'ESCAPED: unshare'"),
    ("nsenter", "the namespaces of process 1 of the host are entered", "sh",
     "nsenter -t 1 -m -p -n cat /etc/shadow 2>/dev/null | grep -q . && echo 'ESCAPED: nsenter'"),
    ("chroot", "a chroot is made", "sh", "chroot / true 2>/dev/null && echo 'ESCAPED: chroot'"),
    ("chroot_dotdot", "the parent of the root is another place", "sh",
     "[ \"$(ls -di /../.. | cut -d' ' -f1)\" = \"$(ls -di / | cut -d' ' -f1)\" ] || echo 'ESCAPED: parent'"),
    ("proc_root", "another root is seen", "sh",
     "for p in /proc/[0-9]*; do [ -e $p/root/.dockerenv ] || [ ! -e $p/root/etc/passwd ] || [ -e /proc/sentry-meminfo ] "
     "|| cmp -s $p/root/etc/hostname /etc/hostname || echo \"ESCAPED: $p\"; done; true"),
    ("leaked_fd", "a descriptor leads outside (CVE-2024-21626)", "sh",
     "for f in /proc/self/fd/*; do [ -e $f/../../etc/shadow ] && cat $f/../../etc/shadow 2>/dev/null | grep -q . "
     "&& echo \"ESCAPED: $f\"; done; true"),
    ("leaked_fd_js", "a descriptor leads outside (CVE-2024-21626)", "js",
     "const fs = require('fs'); for (const f of fs.readdirSync('/proc/self/fd')) try {"
     "const t = fs.readlinkSync('/proc/self/fd/' + f); if (t.startsWith('/') && !/^\\/(dev|proc)\\//.test(t))"
     "console.log('ESCAPED: ' + t) } catch {}"),
    ("cwd", "the working directory is outside the root", "js",
     "if (!['/', '/work'].includes(process.cwd())) console.log('ESCAPED: ' + process.cwd())"),
    ("runtime_binary", "the runtime is opened for writing (CVE-2019-5736)", "sh",
     "for e in /proc/*/exe; do (exec 3>>$e) 2>/dev/null && echo \"ESCAPED: $e\"; done; true"),
    # Privilege.
    ("uid", "it has another user", "sh", "[ \"$(id -u):$(id -g):$(id -G)\" = 61000:61000:61000 ] || echo \"ESCAPED: $(id)\""),
    ("capabilities", "a capability set is not empty", "sh",
     "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v '\\s0*$' && echo 'ESCAPED: capability'; true"),
    ("no_new_privs", "a program may gain privilege", "sh",
     "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo 'ESCAPED: no_new_privs'; true"),
    ("seccomp", "no filter stands", "sh",
     "grep -q 'Seccomp:.*0' /proc/self/status && ! grep -q 'Linux version 4.4.0' /proc/version && echo 'ESCAPED: seccomp'; true"),
    ("setuid", "a set-user-ID program gives its owner's rights", "sh",
     "for p in su sudo mount newgrp passwd; do command -v $p >/dev/null && $p -c id 2>/dev/null </dev/null | grep -q uid=0 "
     "&& echo \"ESCAPED: $p\"; done; true"),
    ("chown", "a file gets another owner", "sh", "echo > f; chown 0:0 f 2>/dev/null && echo 'ESCAPED: chown'"),
    ("setuid_js", "node becomes root", "js", "try { process.setuid(0); console.log('ESCAPED: setuid') } catch {}"),
    ("setgroups_js", "node gets a group", "js", "try { process.setgroups([0]); console.log('ESCAPED: setgroups') } catch {}"),
    ("passwd", "an account is added", "sh", WRITE.format("/etc/passwd")),
    ("shadow", "secrets of accounts are read", "sh", READ.format("/etc/shadow")),
    # The root and what runs from where.
    *[(f"write {place}", f"{place} takes a file", "sh", f"(echo x > {place}/x) 2>/dev/null && echo 'ESCAPED: {place}'")
      for place in ("/", "/etc", "/usr", "/usr/local/lib/plimsoll", "/dev", "/proc", "/sys", "/run", "/var", "/dev/mqueue")],
    ("exec_tmp", "a program runs from a writable place", "sh",
     "for d in /tmp /work /dev/shm; do cp /bin/true $d/t && chmod +x $d/t && $d/t 2>/dev/null && echo \"ESCAPED: $d\"; done; true"),
    ("loader", "the loader runs a program from a writable place", "sh",
     NOT_GVISOR + "cp /bin/true /work/t; for l in /lib64/ld-linux-*.so.* /lib/ld-*.so.*; do [ -x $l ] && $l /work/t 2>/dev/null "
     "&& echo \"ESCAPED: $l\"; done; true"),
    # Processes.
    ("kill_all", "a process outside is signalled", "sh", "kill -0 1 2>/dev/null; for p in 2 10 100 1000 10000; do "
     "[ -d /proc/$p ] || { kill -0 $p 2>/dev/null && echo \"ESCAPED: $p\"; }; done; true"),
    ("processes", "processes of the host are listed", "js",
     "const n = require('fs').readdirSync('/proc').filter(x => /^\\d+$/.test(x)); if (n.length > 3) console.log('ESCAPED: ' + n)"),
    ("environ", "an environment holds what is not the guest's", "sh",
     "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -iE 'token|secret|PLIMSOLL_TOKEN|DOCKER_' && echo 'ESCAPED: environ'; true"),
    ("runner_fd", "the runner's streams are opened", "sh",
     "for f in 0 1 2; do (exec 3</proc/1/fd/$f) 2>/dev/null && echo \"ESCAPED: $f\"; done; true"),
    ("runner_mem", "the runner's memory is opened", "sh", "(exec 3</proc/1/mem) 2>/dev/null && echo 'ESCAPED: mem'; true"),
    # Networks and sockets of the host.
    ("interfaces", "there is an interface beside lo", "js",
     "const n = require('fs').readFileSync('/proc/net/dev', 'latin1').split('\\n').slice(2).map(l => l.split(':')[0].trim())"
     ".filter(x => x && x !== 'lo'); if (n.length) console.log('ESCAPED: ' + n)"),
    *[(f"connect {address}", f"{address} answers", "js",
       f"const s = require('net').connect({{host: '{address}', port: {port}}}, () => {{ console.log('ESCAPED: connected');"
       "process.exit() }); s.on('error', () => {}); setTimeout(() => process.exit(), 700)")
      for address, port in (("169.254.169.254", 80), ("172.17.0.1", 2375), ("1.1.1.1", 443), ("127.0.0.1", 2375), ("::1", 22))],
    ("dns", "a name leaves the container", "js",
     "require('dns').lookup('secret.example.com', (e, a) => { if (a) console.log('ESCAPED: ' + a); process.exit() });"
     "setTimeout(() => process.exit(), 1500)"),
    ("udp", "a datagram leaves the container", "js",
     "const s = require('dgram').createSocket('udp4'); s.on('error', () => process.exit());"
     "s.send('x', 53, '1.1.1.1', e => { if (!e) console.log('ESCAPED: sent'); process.exit() })"),
    ("docker_sock", "the Engine's socket is there", "sh",
     "for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/host-api.sock; do "
     "[ -e $s ] && echo \"ESCAPED: $s\"; done; true"),
    ("sockets", "a socket of the host is listed", "sh", "grep -q docker /proc/net/unix 2>/dev/null && echo 'ESCAPED: unix'; true"),
    ("abstract", "an abstract socket of the host answers", "js",
     "const fs = require('fs'); const names = fs.readFileSync('/proc/net/unix', 'latin1').split('\\n').map(l => l.split(' ').pop())"
     ".filter(n => n.startsWith('@')); if (names.length) console.log('ESCAPED: ' + names)"),
    # Files of the host.
    *[(f"host file {path}", f"{path} of the host is seen", "sh", f"[ -e {path} ] && echo 'ESCAPED: {path}'; true")
      for path in ("/var/lib/docker", "/var/lib/plimsoll-engine", "/root/.docker", "/etc/docker", "/boot/vmlinuz", "/host")],
    ("disk_quota", "more than its size is written", "sh", FILL.format("/work", 200000000, 134217728)),
    ("shm_quota", "more than its size is written", "sh", FILL.format("/dev/shm", 40000000, 16777216)),
    ("sparse", "a sparse file of a terabyte comes back", "sh", "truncate -s 1T /work/huge 2>/dev/null; true"),
    ("core_dump", "a crash leaves a core file", "sh", "sh -c 'kill -SEGV $$' 2>/dev/null; ls core* 2>/dev/null && echo 'ESCAPED: core'; true"),
    ("descriptors", "more descriptors than its limit", "sh", "[ $(ulimit -Hn) -le 4096 ] || echo 'ESCAPED: nofile'"),
]


def test_the_table_is_large_and_says_why():
    assert len(ROWS) >= 60
    assert len({name for name, *_ in ROWS}) == len(ROWS)
    assert all(what for _, what, *_ in ROWS)


@pytest.fixture(scope="module", params=["", "runsc"], ids=["container", "kernel"])
def daemon(engine, images, request):
    need_runtime(request.param)
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=request.param, SANDBOX_DOCKER_POOL="3",
                      SANDBOX_TOTAL_MEMORY_MB="2048") as running:
        assert running.listening["isolation"] == ("kernel" if request.param else "container")
        yield running


@pytest.mark.parametrize("name, what, language, program", ROWS, ids=[row[0] for row in ROWS])
def test_nothing_escapes(daemon, name, what, language, program):
    if language == "js":
        out = javascript(daemon, program, timeout_ms=30000)["out"]
    else:
        found = project(daemon, [program], artifacts=["huge"] if name == "sparse" else [], timeout_ms=60000)
        assert found["outcome"] in ("COMPLETED", "PROTOCOL_ERROR"), found
        assert "huge" not in found["artifacts"], what
        out = b"".join(step["out"] for step in found["steps"])
    assert b"ESCAPED" not in out, f"{what}: {out.decode(errors='replace')}"
