// Names and attributes by paths: what they mean, for whom, and when that changes.
#include "rules.h"
#include <dlfcn.h>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define ROUNDS 200

static pthread_barrier_t both;

static int mode_of(const char *path) {
    struct stat facts;
    CHECK(lstat(path, &facts) == 0);
    return facts.st_mode & 07777;
}

// What the library tells of the space is what the kernel and libc tell, to the last spare byte.
static void space_is_the_same(void) {
    struct statfs direct = {0}, kernel = {0};
    struct statvfs vector = {0}, libc = {0};
    void *loaded = dlopen("libc.so.6", RTLD_NOW);
    int (*real)(const char *, struct statvfs *) = dlsym(loaded, "statvfs");
    CHECK(real && real != statvfs && syscall(SYS_statfs, ".", &kernel) == 0 && real(".", &libc) == 0);
    CHECK(statfs(".", &direct) == 0 && memcmp(&direct, &kernel, sizeof kernel) == 0);
    CHECK(statvfs(".", &vector) == 0 && memcmp(&vector, &libc, sizeof libc) == 0);
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    memset(&direct, 1, sizeof direct);
    memset(&vector, 1, sizeof vector);
    CHECK(fstatfs(fd, &direct) == 0 && memcmp(&direct, &kernel, sizeof kernel) == 0);
    CHECK(fstatvfs(fd, &vector) == 0 && memcmp(&vector, &libc, sizeof libc) == 0 && close(fd) == 0);
    CHECK(statfs("none", &direct) == -1 && errno == ENOENT && statfs(".", (void *)8) == -1 && errno == EFAULT);
    CHECK(fstatvfs(-1, &vector) == -1 && errno == EBADF);
}

static void names_are_direct(void) {
    struct stat facts;
    struct statx more;
    struct statfs space;
    char target[16], whole[PATH_MAX];
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0700) == 0);
    CHECK(close(make("d/file", 0)) == 0 && symlink("e", "d/l") == 0 && symlink("nowhere", "d/e/dangling") == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(stat("d/l/../e", &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_nlink == 2);
        CHECK(statx(AT_FDCWD, "d/e", 0, STATX_BASIC_STATS, &more) == 0);
        CHECK(more.stx_ino == facts.st_ino && more.stx_mode == facts.st_mode);
        CHECK(lstat("d/l", &facts) == 0 && S_ISLNK(facts.st_mode) && facts.st_size == 1);
        CHECK(stat("d/e/dangling", &facts) == -1 && errno == ENOENT);
        CHECK(access("d/l", R_OK | W_OK | X_OK) == 0 && access("d/none", F_OK) == -1);
        CHECK(readlink("d/l", target, sizeof target) == 1 && target[0] == 'e');
        CHECK(realpath("d/l/../file", whole) == whole && strcmp(strrchr(whole, '/') - 2, "/d/file") == 0);
        char *same = realpath(whole, NULL);
        CHECK(same != NULL && strcmp(same, whole) == 0);
        free(same);
        CHECK(mkdir("d/e/f", 0755) == 0 && mkdir("d/e/f", 0755) == -1 && errno == EEXIST);
        CHECK(rename("d/e/f", "d/g") == 0 && rmdir("d") == -1 && errno == ENOTEMPTY);
        CHECK(chmod("d/g", 0500) == 0 && mode_of("d/g") == 0500);
        CHECK(fchmodat(AT_FDCWD, "d/g", 0700, AT_SYMLINK_NOFOLLOW) == 0 && mode_of("d/g") == 0700);
        CHECK(open("d/file", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
        CHECK(open("d/file", O_PATH | O_NOFOLLOW | O_DIRECTORY) == -1 && errno == ENOTDIR && rmdir("d/g") == 0);
        CHECK(symlink("x", "d/s") == 0 && rename("d/s", "d/e/dangling") == 0);
        CHECK(unlink("d/e/dangling") == 0 && symlink("nowhere", "d/e/dangling") == 0);
        CHECK(fopen("d/none", "r") == NULL && errno == ENOENT && statfs("d", &space) == 0 && space.f_bsize == 4096);
        CHECK(truncate("d/file", i + 7) == 0 && stat("d/file", &facts) == 0 && facts.st_size == i + 7);
    }
}

static void attributes_are_direct(void) {
    char text[64];
    CHECK(mkdir("d", 0755) == 0 && close(make("f", 0)) == 0 && symlink("f", "l") == 0);
    for (int i = 0; i < ROUNDS; i++) {
        const char *name = i % 2 ? "f" : "d", *through = i % 2 ? "l" : "d/.";
        CHECK(setxattr(through, "user.one", "1", 1, XATTR_CREATE) == 0);
        CHECK(setxattr(name, "user.one", "", 0, XATTR_CREATE) == -1 && errno == EEXIST);
        CHECK(setxattr(name, "user.two", "", 0, XATTR_REPLACE) == -1 && errno == ENODATA);
        CHECK(lsetxattr(name, "user.two", "22", 2, 0) == 0 && getxattr(name, "user.two", text, 64) == 2);
        CHECK(memcmp(text, "22", 2) == 0 && listxattr(name, NULL, 0) == 18 && llistxattr(name, text, 64) == 18);
        CHECK(memcmp(text, "user.one\0user.two", 18) == 0 && listxattr(name, text, 17) == -1 && errno == ERANGE);
        int fd = open(name, O_RDONLY);
        CHECK(fd >= 0 && fsetxattr(fd, "user.two", NULL, 0, XATTR_REPLACE) == 0 && fgetxattr(fd, "user.two", text, 64) == 0);
        CHECK(removexattr(through, "user.one") == 0 && lremovexattr(name, "user.one") == -1 && errno == ENODATA);
        CHECK(flistxattr(fd, text, 64) == 9 && fremovexattr(fd, "user.two") == 0 && close(fd) == 0);
        CHECK(listxattr(name, text, 64) == 0);
    }
}

static void addresses_may_be_bad(void) {
    struct stat facts;
    const char *bad = (const char *)8;
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 2 * page, page, PROT_NONE) == 0);
    char *end = pages + 2 * page;
    for (int i = 0; i < 2; i++) {
        CHECK(stat(bad, &facts) == -1 && errno == EFAULT);
        // Paths over the border of two pages, one that ends with its page, and one without an end.
        CHECK(stat(strcpy(pages + page - 2, "/dev"), &facts) == 0 && S_ISDIR(facts.st_mode));
        CHECK(stat(strcpy(end - 2, "/"), &facts) == 0 && S_ISDIR(facts.st_mode));
        end[-1] = '/';
        CHECK(stat(end - 1, &facts) == -1 && errno == EFAULT);
        CHECK(stat(end, &facts) == -1 && errno == EFAULT && stat((char *)-1, &facts) == -1 && errno == EFAULT);
        CHECK(mkdir(NULL, 0755) == -1 && errno == EFAULT);
        CHECK(rename("f", bad) == -1 && (errno == EFAULT || errno == ENOENT));
        // From now on the volume is attached.
        CHECK(close(make("f", 0)) == 0 && stat("f", &facts) == 0);
        CHECK(stat("f", (struct stat *)8) == -1 && errno == EFAULT);
        CHECK(readlink("f", (char *)8, 10) == -1);
        CHECK(utimensat(AT_FDCWD, "f", (struct timespec *)8, 0) == -1 && errno == EFAULT);
        CHECK(symlink(bad, "s") == -1 && errno == EFAULT);
        CHECK(setxattr("f", "user.a", bad, 9, 0) == -1 && errno == EFAULT);
        CHECK(setxattr("f", bad, "", 0, 0) == -1 && errno == EFAULT && removexattr("f", bad) == -1 && errno == EFAULT);
        CHECK(linkat(AT_FDCWD, bad, AT_FDCWD, "g", AT_SYMLINK_FOLLOW) == -1 && errno == EFAULT);
        char *path = strcpy(end - 2, "f");
        CHECK(stat(path, &facts) == 0);
        path[1] = 'f';
        CHECK(stat(path, &facts) == -1 && errno == EFAULT);
    }
}

static void the_working_directory_counts_at_once(void) {
    struct stat facts;
    CHECK(mkdir("one", 0755) == 0 && mkdir("two", 0755) == 0 && mkdir("one/in_one", 0755) == 0);
    int root = open(".", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(chdir("one") == 0 && stat("in_one", &facts) == 0);
        CHECK(fchdir(root) == 0 && stat("in_one", &facts) == -1 && stat("one/in_one", &facts) == 0);
        CHECK(syscall(SYS_chdir, "two") == 0 && stat("../one/in_one", &facts) == 0);
        CHECK(stat("in_one", &facts) == -1 && syscall(SYS_fchdir, root) == 0);
        CHECK(fstatat(root, "one/in_one", &facts, 0) == 0);
        CHECK(chdir("/") == 0 && stat("one", &facts) == -1 && fchdir(root) == 0);
    }
    // One that is removed, with a thread in it.
    CHECK(mkdir("gone", 0755) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
    CHECK(stat(".", &facts) == 0 && facts.st_nlink == 0);
    CHECK(stat("x", &facts) == -1 && errno == ENOENT);
    CHECK(mkdir("x", 0755) == -1 && errno == ENOENT);
}

static void *has_a_umask_of_its_own(void *unused) {
    CHECK(unshare(CLONE_FS) == 0);
    umask(0);
    pthread_barrier_wait(&both);
    CHECK(mkdir("b", 0777) == 0 && mode_of("b") == 0777);
    CHECK(close(open("g", O_CREAT | O_WRONLY, 0666)) == 0 && mode_of("g") == 0666);
    pthread_barrier_wait(&both);
    return unused;
}

static void threads_have_umasks_of_their_own(void) {
    pthread_t thread;
    umask(027);
    CHECK(mkdir("a", 0777) == 0 && mode_of("a") == 0750 && pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, has_a_umask_of_its_own, NULL) == 0);
    pthread_barrier_wait(&both);
    CHECK(mkdir("c", 0777) == 0 && mode_of("c") == 0750);
    CHECK(close(open("h", O_CREAT | O_WRONLY, 0666)) == 0 && mode_of("h") == 0640);
    pthread_barrier_wait(&both);
    umask(077);
    CHECK(mkdir("e", 0777) == 0 && mode_of("e") == 0700 && pthread_join(thread, NULL) == 0);
}

static void the_umask_counts_at_once(void) {
    CHECK(mkdir("a", 0777) == 0);
    umask(077);
    CHECK(mkdir("b", 01777) == 0 && mode_of("b") == 01700);
    pid_t child = vfork();
    if (child == 0) {
        umask(0);
        _exit(0);
    }
    ended_well(child);
    CHECK(mkdir("c", 0777) == 0 && mode_of("c") == 0700);
    child = fork();
    if (child == 0) {
        CHECK(mkdir("d", 0777) == 0 && mode_of("d") == 0700);
        umask(0);
        CHECK(mkdir("e", 0777) == 0 && mode_of("e") == 0777);
        _exit(0);
    }
    ended_well(child);
    CHECK(syscall(SYS_umask, 022) == 077 && mkdir("f", 0777) == 0 && mode_of("f") == 0755);
}

// In a mount namespace of its own.
static void mounts_count_at_once(void) {
    struct stat facts;
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/below", 0755) == 0 && stat("d/below", &facts) == 0);
    dev_t device = facts.st_dev;
    for (int i = 0; i < 3; i++) {
        CHECK(system("mount -t tmpfs none d") == 0);
        CHECK(stat("d/below", &facts) == -1 && errno == ENOENT);
        CHECK(mkdir("d/other", 0755) == 0 && stat("d/other", &facts) == 0 && facts.st_dev != device);
        CHECK(rename("d/other", "other") == -1 && errno == EXDEV);
        CHECK(system("umount d") == 0);
        CHECK(stat("d/below", &facts) == 0 && facts.st_dev == device);
    }
    CHECK(rmdir("d/below") == 0 && mkdir("d/below", 0755) == 0);
    space_is_the_same();
    CHECK(system("mount -o remount,bind,ro,noexec,atime,relatime .") == 0);
    space_is_the_same();
    CHECK(mkdir("d/new", 0755) == -1 && errno == EROFS && chmod("d", 0700) == -1 && errno == EROFS);
    CHECK(access("d", W_OK) == -1 && errno == EROFS && access("d", R_OK) == 0);
    CHECK(system("mount -o remount,bind,rw,nodiratime,strictatime .") == 0);
    space_is_the_same();
}

static void both_ways_see_the_same_space(void) {
    struct statfs before, after;
    space_is_the_same();
    CHECK(statfs(".", &before) == 0);
    int fd = make("f", 0);
    static char block[1 << 16];
    for (int i = 0; i < 32; i++)
        CHECK(write(fd, block, sizeof block) == sizeof block);
    space_is_the_same();
    CHECK(statfs("f", &after) == 0 && before.f_bfree >= after.f_bfree + 512 && before.f_ffree == after.f_ffree + 1);
    CHECK(fstatfs(fd, &before) == 0 && memcmp(&before, &after, sizeof after) == 0 && close(fd) == 0);
}

static void open_files_have_their_new_paths(void) {
    char link[64], target[4096] = {0};
    int fd = make("before", 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK(rename("before", "after") == 0 && readlink(link, target, sizeof target - 1) > 0);
    CHECK(strcmp(strrchr(target, '/'), "/after") == 0);
    CHECK(unlink("after") == 0 && readlink(link, target, sizeof target - 1) > 0);
    CHECK(strstr(target, "(deleted)"));
    struct stat facts;
    CHECK(fstat(fd, &facts) == 0 && facts.st_nlink == 0);
}

static void both_ways_see_the_same(void) {
    for (int i = 0; i < 20; i++) {
        CHECK(mkdir("direct", 0755) == 0);
        CHECK(system("EGERIA_PRELOAD=off sh -c 'test -d direct && mv direct other && mkdir back'") == 0);
        CHECK(access("direct", F_OK) == -1 && rename("other", "moved") == 0 && rmdir("back") == 0);
        CHECK(system("EGERIA_PRELOAD=off sh -c 'test ! -e back && ls | grep -qx moved && rmdir moved'") == 0);
        CHECK(access("moved", F_OK) == -1 && errno == ENOENT);
    }
}

/* 50 files that the kernel looked up: each is renamed twenty times, and removed. */
static void known_names_change_directly(void) {
    char name[2][16];
    for (int i = 0; i < 50; i++) {
        snprintf(name[0], sizeof name[0], "f%d", i);
        CHECK(close(make(name[0], 0)) == 0);
    }
    CHECK(system("EGERIA_PRELOAD=off sh -c 'sleep 0.2; cat f* && ls -l > /dev/null && ls -l > /dev/null'") == 0);
    for (int i = 0; i < 50; i++) {
        snprintf(name[0], sizeof name[0], "f%d", i);
        snprintf(name[1], sizeof name[1], "g%d", i);
        for (int turn = 0; turn < 21; turn++)
            CHECK(rename(name[turn & 1], name[(turn + 1) & 1]) == 0);
    }
    CHECK(system("EGERIA_PRELOAD=off sh -c 'test ! -e f1 && test -e g1 && cat g* && ls -l > /dev/null'") == 0);
    for (int i = 0; i < 50; i++) {
        snprintf(name[1], sizeof name[1], "g%d", i);
        CHECK(unlink(name[1]) == 0);
    }
    CHECK(system("EGERIA_PRELOAD=off sh -c 'test ! -e g1 && test -z \"$(ls)\"'") == 0);
}

static const struct rule rules[] = {
    {"known_names_change_directly", known_names_change_directly},
    {"names_are_direct", names_are_direct},
    {"attributes_are_direct", attributes_are_direct},
    {"addresses_may_be_bad", addresses_may_be_bad},
    {"the_working_directory_counts_at_once", the_working_directory_counts_at_once},
    {"the_umask_counts_at_once", the_umask_counts_at_once},
    {"threads_have_umasks_of_their_own", threads_have_umasks_of_their_own},
    {"mounts_count_at_once", mounts_count_at_once},
    {"open_files_have_their_new_paths", open_files_have_their_new_paths},
    {"both_ways_see_the_same", both_ways_see_the_same},
    {"both_ways_see_the_same_space", both_ways_see_the_same_space},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
