/* Files of a work directory that a guest has prepared: links, FIFOs, folders of the wrong kind.
 * What is outside is never written or read, and nothing blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/base.h"
#include "files.h"
#include "io.h"

static char base[64], outside[96];
static struct ctl_root root;

static const char *at(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned next;
    char *to = path[next++ % 4];
    snprintf(to, PATH_MAX, "%s/work/%s", base, name);
    return to;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && ctl_write_all(fd, plim_bytes_of(text)));
    close(fd);
}

static void assert_holds(const char *path, const char *text)
{
    char got[256];
    assert_true(ctl_read_text(path, got, sizeof got));
    assert_string_equal(got, text);
}

static int set_up(void **state)
{
    (void)state;
    char work[96];
    snprintf(base, sizeof base, "/tmp/plimsoll-files-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(work, sizeof work, "%s/work", base);
    snprintf(outside, sizeof outside, "%s/outside", base);
    umask(022);
    put(outside, "secret");
    return ctl_root_open(&root, work) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    close(root.fd);
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    char *const argv[] = {"sh", "-c", command, NULL};
    pid_t pid = (fork)();
    if (pid == 0) {
        execv("/bin/sh", argv);
        _exit(1);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void paths_are_worked_out_in_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *path, *inside; /* NULL: outside */
    } rows[] = {
        {"a", "a"},
        {"a/b", "a/b"},
        {"./a", "a"},
        {"a/./b//c/", "a/b/c"},
        {"a/../b", "b"},
        {"", ""},
        {".", ""},
        {"a/..", ""},
        {"..", NULL},
        {"../x", NULL},
        {"a/../../x", NULL},
        {"/etc/x", NULL},
        {"/work", ""},
        {"/work/x", "x"},
        {"/workx", NULL},
        {"/work/../x", NULL},
        {"../work/y", "y"},
        {"/wor", NULL},
        {"/", NULL},
        {"...", "..."},
        {"a\nb", "a\nb"},
        {"-rf", "-rf"},
        {"\xC3\xA4", "\xC3\xA4"},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        char got[PATH_MAX];
        bool inside = ctl_path_inside("/work", plim_bytes_of(rows[i].path), got);
        assert_int_equal(inside, rows[i].inside != NULL);
        if (inside)
            assert_string_equal(got, rows[i].inside);
    }
    char got[PATH_MAX], longest[PATH_MAX + 10];
    memset(longest, 'a', sizeof longest);
    assert_false(ctl_path_inside("/work", (plim_bytes){longest, sizeof longest}, got));
    assert_false(ctl_path_inside("/work", (plim_bytes){"a\0b", 3}, got));
}

static void files_are_written_with_their_folders(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("a/b/c.txt"), PLIM_LIT("one")), CTL_FILE_OK);
    assert_holds(at("a/b/c.txt"), "one");
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("a/b/c.txt"), PLIM_LIT("2")), CTL_FILE_OK);
    assert_holds(at("a/b/c.txt"), "2");
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("a/b/empty"), PLIM_LIT("")), CTL_FILE_OK);
    assert_int_equal(stat(at("a/b/empty"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0644);
    assert_int_equal(stat(at("a/b"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0755);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("new\nline \xC3\xA4"), PLIM_LIT("x")),
                     CTL_FILE_OK);
}

static void what_is_outside_is_not_written(void **state)
{
    (void)state;
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("../outside"), PLIM_LIT("x")),
                     CTL_FILE_OUTSIDE);
    assert_int_equal(ctl_file_write(&root, plim_bytes_of(outside), PLIM_LIT("x")),
                     CTL_FILE_OUTSIDE);
    assert_int_equal(symlink(outside, at("file-link")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("file-link"), PLIM_LIT("x")),
                     CTL_FILE_NOT_REGULAR);
    assert_int_equal(symlink("..", at("up")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("up/outside"), PLIM_LIT("x")),
                     CTL_FILE_OUTSIDE);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("up/new/outside"), PLIM_LIT("x")),
                     CTL_FILE_OUTSIDE);
    assert_int_equal(symlink("/proc/self/cwd", at("magic")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("magic/x"), PLIM_LIT("x")), CTL_FILE_OUTSIDE);
    assert_int_equal(symlink("nowhere", at("dangling")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("dangling/x"), PLIM_LIT("x")), CTL_FILE_FAILED);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("dangling"), PLIM_LIT("x")),
                     CTL_FILE_NOT_REGULAR);
    assert_int_equal(symlink("loop", at("loop")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("loop/x"), PLIM_LIT("x")), CTL_FILE_FAILED);
    assert_holds(outside, "secret");
}

static void links_that_stay_inside_are_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("real"), 0755), 0);
    assert_int_equal(symlink("real", at("relative")), 0);
    assert_int_equal(symlink(at("real"), at("absolute")), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("relative/deep/x"), PLIM_LIT("1")),
                     CTL_FILE_OK);
    assert_holds(at("real/deep/x"), "1");
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("absolute/y"), PLIM_LIT("2")), CTL_FILE_OK);
    assert_holds(at("real/y"), "2");
}

static void only_regular_files_are_written(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(at("fifo"), 0666), 0);
    assert_int_equal(mkdir(at("folder"), 0755), 0);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("fifo"), PLIM_LIT("x")), CTL_FILE_NOT_REGULAR);
    int reader = open(at("fifo"), O_RDONLY | O_NONBLOCK); /* with a reader, the open succeeds */
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("fifo"), PLIM_LIT("x")), CTL_FILE_NOT_REGULAR);
    close(reader);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("folder"), PLIM_LIT("x")),
                     CTL_FILE_NOT_REGULAR);
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("."), PLIM_LIT("x")), CTL_FILE_NOT_REGULAR);
    put(at("plain"), "p");
    assert_int_equal(ctl_file_write(&root, PLIM_LIT("plain/x"), PLIM_LIT("x")), CTL_FILE_FAILED);
    assert_int_equal(errno, ENOTDIR);
    assert_holds(at("plain"), "p");
}

static int open_artifact(const char *path)
{
    size_t size;
    return ctl_file_open(&root, plim_bytes_of(path), &size);
}

static void only_regular_files_inside_are_read(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "missing", "a",           "fifo",           "file-link", "up/outside", "../outside",
        "magic",   "dangling",    "loop",           "socket",    "device",     ".",
        "",        "/etc/passwd", "proc/1/environ", "zero",
    };
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at("socket"));
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(symlink("/proc", at("proc")), 0);
    assert_int_equal(symlink("/dev/zero", at("zero")), 0);
    for (size_t i = 0; i < PLIM_COUNT(refused); i++)
        assert_int_equal(open_artifact(refused[i]), -1);
    close(listener);

    size_t size;
    assert_int_equal(symlink("a/b/c.txt", at("inner")), 0);
    const char *const taken[] = {"a/b/c.txt", "inner", "a/../a/b/c.txt", at("a/b/c.txt")};
    for (size_t i = 0; i < PLIM_COUNT(taken); i++) {
        int fd = ctl_file_open(&root, plim_bytes_of(taken[i]), &size);
        assert_true(fd >= 0);
        assert_int_equal(size, 1);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_worked_out_in_the_text),
        cmocka_unit_test(files_are_written_with_their_folders),
        cmocka_unit_test(what_is_outside_is_not_written),
        cmocka_unit_test(links_that_stay_inside_are_followed),
        cmocka_unit_test(only_regular_files_are_written),
        cmocka_unit_test(only_regular_files_inside_are_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
