// Files opened without the kernel, and what the kernel must see of them.
#include "rules.h"
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/loop.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#define ROUNDS 500

static void opens_cost_no_requests(void) {
    char text[8];
    struct stat facts;
    CHECK(mkdir("d", 0755) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open("d/f", O_RDWR | O_CREAT | O_EXCL, 0640);
        CHECK(fd >= 0 && write(fd, "text", 4) == 4 && fstat(fd, &facts) == 0);
        CHECK(facts.st_size == 4 && (facts.st_mode & 07777) == 0640 && S_ISREG(facts.st_mode));
        CHECK(open("d/f", O_RDWR | O_CREAT | O_EXCL, 0640) == -1 && errno == EEXIST);
        CHECK(fcntl(fd, F_GETFL) == (O_RDWR | 0100000) && fcntl(fd, F_GETFD) == 0);
        CHECK(ftruncate(fd, 20000) == 0 && lseek(fd, 0, SEEK_HOLE) == 4096 && lseek(fd, 0, SEEK_CUR) == 4096);
        CHECK(lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 4096, SEEK_DATA) == -1 && errno == ENXIO);
        CHECK(lseek(fd, 20000, SEEK_HOLE) == -1 && errno == ENXIO && ftruncate(fd, 4) == 0);
        CHECK(fallocate(fd, 0, 0, 9000) == 0 && posix_fallocate(fd, 0, 10000) == 0 && fstat(fd, &facts) == 0);
        CHECK(facts.st_size == 10000 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
        CHECK(pread(fd, text, 4, 0) == 4 && memcmp(text, "\0\0\0", 4) == 0 && ftruncate(fd, 4) == 0);
        CHECK(rename("d/f", "d/moved") == 0 && rename("d/moved", "d/f") == 0);
        CHECK(lseek(fd, 1, SEEK_SET) == 1 && read(fd, text, 8) == 3 && close(fd) == 0);
        CHECK(read(fd, text, 8) == -1 && errno == EBADF);
        fd = open("d/f", O_WRONLY | O_TRUNC | O_CLOEXEC);
        CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fstat(fd, &facts) == 0);
        CHECK(facts.st_size == 0 && close(fd) == 0 && open("d/g", O_RDONLY) == -1 && errno == ENOENT);
        fd = open("d/f", O_RDONLY | O_DIRECT);
        CHECK(fd >= 0 && fcntl(fd, F_GETFL) == (O_DIRECT | 0100000) && close(fd) == 0);
        CHECK(unlink("d/f") == 0);
    }
}

static void made_up_names_cost_no_requests(void) {
    struct stat facts;
    char last[32] = "";
    CHECK(mkdir("d", 0755) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char name[] = "d/fXXXXXX", other[] = "d/XXXXXX.txt", directory[] = "d/XXXXXX";
        errno = 77;
        int fd = mkstemp(name);
        CHECK(fd >= 0 && errno == 77 && strncmp(name, "d/f", 3) == 0 && strcmp(name, last) != 0);
        strcpy(last, name);
        CHECK(fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && (facts.st_mode & 07777) == 0600);
        CHECK(write(fd, "text", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, last + 20, 4) == 4);
        CHECK(stat(name, &facts) == 0 && facts.st_size == 4 && close(fd) == 0 && unlink(name) == 0);
        fd = mkostemps(other, 4, O_APPEND | O_CLOEXEC);
        CHECK(fd >= 0 && strcmp(other + 8, ".txt") == 0 && strncmp(other, "d/", 2) == 0);
        CHECK(fcntl(fd, F_GETFL) == (O_RDWR | O_APPEND | 0100000) && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        CHECK(close(fd) == 0 && unlink(other) == 0 && mkdtemp(directory) == directory);
        CHECK(stat(directory, &facts) == 0 && S_ISDIR(facts.st_mode) && (facts.st_mode & 07777) == 0700);
        CHECK(rmdir(directory) == 0);
    }
    char none[] = "none/XXXXXX", few[] = "d/XXXXX", late[] = "d/XXXXXXa", outside[] = "/tmp/egeria-preload-XXXXXX";
    CHECK(mkstemp(none) == -1 && errno == ENOENT && mkdtemp(strcpy(none, "none/XXXXXX")) == NULL);
    CHECK(errno == ENOENT && mkstemp(few) == -1 && errno == EINVAL && strcmp(few, "d/XXXXX") == 0);
    CHECK(mkstemp(late) == -1 && errno == EINVAL && mkstemps(late, 2) == -1 && errno == EINVAL);
    CHECK(mkstemps(late, -1) == -1 && errno == EINVAL && mkdtemp(late) == NULL && errno == EINVAL);
    int fd = mkstemp(outside);
    CHECK(fd >= 0 && close(fd) == 0 && unlink(outside) == 0);
}

// Files that are made without a name, and given one.
static void unnamed_files_cost_no_requests(void) {
    char path[64], text[8];
    struct stat facts;
    CHECK(mkdir("d", 0755) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640), lost = open("d", O_TMPFILE | O_WRONLY | O_EXCL, 0600);
        CHECK(fd >= 0 && lost >= 0 && write(fd, "text", 4) == 4 && write(lost, "text", 4) == 4);
        CHECK(fstat(fd, &facts) == 0 && facts.st_nlink == 0 && (facts.st_mode & 07777) == 0640 && facts.st_size == 4);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "d/f", AT_SYMLINK_FOLLOW) == 0);
        CHECK(fstat(fd, &facts) == 0 && facts.st_nlink == 1 && close(fd) == 0 && close(lost) == 0);
        CHECK((fd = open("d/f", O_RDONLY)) >= 0 && read(fd, text, 8) == 4 && memcmp(text, "text", 4) == 0);
        CHECK(close(fd) == 0 && unlink("d/f") == 0 && rmdir("d") == 0 && mkdir("d", 0755) == 0);
    }
}

static void unnamed_files_by_the_path_of_the_mount(void) {
    char path[PATH_MAX];
    struct stat facts, same;
    CHECK(getcwd(path, sizeof path - 2) && stat(path, &facts) == 0 && lstat(path, &same) == 0 && facts.st_ino == same.st_ino);
    int fd = open(path, O_TMPFILE | O_RDWR, 0600), directory = open(path, O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && directory >= 0 && fstat(directory, &same) == 0 && facts.st_ino == same.st_ino);
    CHECK(rmdir(path) == -1 && errno == EBUSY && mkdir(path, 0755) == -1 && errno == EEXIST);
    CHECK(open(path, O_RDWR) == -1 && errno == EISDIR && open(path, O_CREAT | O_EXCL | O_RDWR, 0600) == -1 && errno == EEXIST);
    strcat(path, "/");
    CHECK(stat(path, &same) == 0 && facts.st_ino == same.st_ino && (fd = open(path, O_TMPFILE | O_RDWR, 0600)) >= 0);
}

static void unnamed_files_are_named_once(void) {
    char path[64], text[8];
    struct stat facts;
    int fd = open(".", O_TMPFILE | O_RDWR, 0600), never = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    CHECK(fd >= 0 && never >= 0 && write(fd, "text", 4) == 4 && close(make("taken", 0)) == 0);
    CHECK(open(".", O_TMPFILE | O_RDONLY, 0600) == -1 && errno == EINVAL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", never);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW) == -1 && errno == ENOENT);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "taken", AT_SYMLINK_FOLLOW) == -1 && errno == EEXIST);
    // The kernel has it open from now on, as a removed file.
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "text", 4) == 0);
    mapped[0] = 'T';
    CHECK(syscall(SYS_fstat, fd, &facts) == 0 && facts.st_nlink == 0 && facts.st_size == 4);
    pid_t child = fork();
    if (child == 0) {
        CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW) == -1 && errno == ENOENT);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW) == 0);
    CHECK(syscall(SYS_fstat, fd, &facts) == 0 && facts.st_nlink == 1 && pread(fd, text, 8, 0) == 4);
    CHECK(memcmp(text, "Text", 4) == 0 && stat("f", &facts) == 0 && facts.st_nlink == 1);
    int other = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(other >= 0 && linkat(other, "", AT_FDCWD, "g", AT_EMPTY_PATH) == 0 && unlink("g") == 0);
    CHECK(linkat(other, "", AT_FDCWD, "g", AT_EMPTY_PATH) == -1 && errno == ENOENT);
    CHECK(close(fd) == 0 && close(never) == 0 && close(other) == 0);
}

// A file that nobody but the engine has opened, with a position in it.
static int begin(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10 && lseek(fd, 2, SEEK_SET) == 2);
    return fd;
}

static void every_call_sees_the_file(void) {
    char text[16] = {0}, path[64], found[4096] = {0};
    struct stat facts;
    int fd = begin("f");
    CHECK(syscall(SYS_fstat, fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size == 10);
    CHECK(syscall(SYS_read, fd, text, 3) == 3 && memcmp(text, "234", 3) == 0 && close(fd) == 0);
    fd = begin("f");
    char *map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && memcmp(map, "0123456789", 10) == 0 && munmap(map, 10) == 0);
    CHECK(read(fd, text, 2) == 2 && memcmp(text, "23", 2) == 0 && close(fd) == 0);
    fd = begin("f");
    struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
    CHECK(poll(&entry, 1, 0) == 1 && entry.revents == (POLLIN | POLLOUT) && close(fd) == 0);
    fd = begin("f");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set) && close(fd) == 0);
    fd = begin("f");
    CHECK(isatty(fd) == 0 && errno == ENOTTY && flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK(close(fd) == 0);
    fd = begin("f");
    int left = 0;
    struct statfs system;
    CHECK(ioctl(fd, FIONREAD, &left) == 0 && left == 8 && fstatfs(fd, &system) == 0);
    CHECK(fallocate(fd, 0, 0, 20) == 0 && ftruncate(fd, 12) == 0 && fstat(fd, &facts) == 0);
    CHECK(facts.st_size == 12 && fsetxattr(fd, "user.a", "b", 1, 0) == 0);
    CHECK(fgetxattr(fd, "user.a", text, 4) == 1 && text[0] == 'b' && close(fd) == 0);
    fd = begin("f");
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && write(fd, "+", 1) == 1);
    CHECK(fcntl(fd, F_GETFL) & O_APPEND && close(fd) == 0);
    holds("f", "0123456789+");
    fd = begin("f");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(readlink(path, found, sizeof found - 1) > 0 && strcmp(strrchr(found, '/'), "/f") == 0);
    int again = open(path, O_RDONLY);
    CHECK(again >= 0 && read(again, text, 3) == 3 && memcmp(text, "012", 3) == 0);
    CHECK(close(again) == 0 && close(fd) == 0);
    fd = begin("f");
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    FILE *stream = fopen(path, "r");
    CHECK(stream && fread(text, 1, 4, stream) == 4 && memcmp(text, "0123", 4) == 0);
    CHECK(fclose(stream) == 0 && close(fd) == 0);
    fd = begin("f");
    stream = fdopen(fd, "r+");
    CHECK(stream && fread(text, 1, 2, stream) == 2 && memcmp(text, "23", 2) == 0 && fclose(stream) == 0);
    fd = begin("f");
    CHECK(openat(fd, "x", O_RDONLY) == -1 && errno == ENOTDIR && fchdir(fd) == -1 && errno == ENOTDIR);
    CHECK(fchmod(fd, 0600) == 0 && futimens(fd, NULL) == 0 && fstatat(fd, "", &facts, AT_EMPTY_PATH) == 0);
    CHECK((facts.st_mode & 07777) == 0600 && close(fd) == 0);
    CHECK(close(0) == 0 && begin("f") == 0 && fgets(text, 4, stdin) && strcmp(text, "234") == 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fd = begin("f");
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && close(fd) == 0);
}

static void rules_name_directories(void) {
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_WRITE_FILE};
    int rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules < 0)
        return;
    CHECK(mkdir("allowed", 0755) == 0 && mkdir("other", 0755) == 0);
    struct landlock_path_beneath_attr rule = {
        .allowed_access = handled.handled_access_fs,
        .parent_fd = open("allowed", O_PATH | O_DIRECTORY | O_CLOEXEC),
    };
    CHECK(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(syscall(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0) == 0);
        CHECK(syscall(SYS_landlock_restrict_self, rules, 0) == 0);
        int fd = open("allowed/f", O_WRONLY | O_CREAT, 0644);
        CHECK(fd >= 0 && write(fd, "x", 1) == 1);
        CHECK(open("other/f", O_WRONLY | O_CREAT, 0644) == -1 && errno == EACCES);
        _exit(0);
    }
    ended_well(child);
    CHECK(close(rules) == 0);
}

// As `losetup` and `mount -o loop` do; without such devices nothing.
static void loops_are_of_files(void) {
    char path[64], text[16];
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    snprintf(path, sizeof path, "/dev/loop%d", number);
    int device = number < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (device < 0)
        return;
    int fd = make("image", 0);
    CHECK(ftruncate(fd, 1 << 20) == 0 && pwrite(fd, "in the image", 12, 4096) == 12);
    struct loop_config wanted = {.fd = fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    int is_made = ioctl(device, LOOP_CONFIGURE, &wanted);
    // Another process may have taken the device.
    CHECK(is_made == 0 || errno == EBUSY);
    CHECK(is_made != 0 || (pread(device, text, 12, 4096) == 12 && memcmp(text, "in the image", 12) == 0));
    CHECK(close(device) == 0 && close(control) == 0 && close(fd) == 0);
}

// The kernel must have open what it finds by an address only.
static void numbers_in_structures_count(void) {
    struct timespec now = {0};
    struct timeval no_time = {0};
    fd_set set;
    for (int i = 0; i < 4; i++) {
        char name[] = {'0' + i, 0};
        int fd = begin(name);
        struct pollfd entry = {fd, POLLIN, 0};
        FD_ZERO(&set);
        FD_SET(fd, &set);
        switch (i) {
        case 0:
            CHECK(syscall(SYS_poll, &entry, 1L, 0L) == 1 && entry.revents == POLLIN);
            break;
        case 1:
            CHECK(syscall(SYS_ppoll, &entry, 1L, &now, NULL, 8L) == 1 && entry.revents == POLLIN);
            break;
        case 2:
            CHECK(syscall(SYS_select, (long)fd + 1, &set, NULL, NULL, &no_time) == 1 && FD_ISSET(fd, &set));
            break;
        default:
            CHECK(syscall(SYS_pselect6, (long)fd + 1, &set, NULL, NULL, &now, NULL) == 1 && FD_ISSET(fd, &set));
        }
        CHECK(close(fd) == 0);
    }
    rules_name_directories();
    loops_are_of_files();
}

static void no_call_reaches_the_placeholder(void) {
    struct stat facts;
    struct statx more;
    for (int i = 0; i < 5; i++) {
        int fd = begin("f");
        switch (i) {
        case 0:
            CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | 0x2000, &more) == 0);
            CHECK(S_ISREG(more.stx_mode) && more.stx_size == 10);
            break;
        case 1:
            CHECK(fchmodat(fd, "", 0600, AT_EMPTY_PATH) == 0 || errno == EINVAL || errno == EOPNOTSUPP);
            break;
        case 2:
            CHECK(fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH) == 0);
            break;
        case 3:
            CHECK(faccessat(fd, "", R_OK, AT_EMPTY_PATH) == 0 || errno == EINVAL);
            CHECK(linkat(fd, "", AT_FDCWD, "linked", AT_EMPTY_PATH) == 0 || errno == ENOENT);
            break;
        default:
            CHECK(utimensat(fd, "", NULL, AT_EMPTY_PATH) == 0 || errno == EINVAL);
        }
        CHECK(fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && close(fd) == 0);
    }
}

// A system call that the library does not see.
__attribute__((always_inline)) static inline long bare(long number, long a, long b, long c) {
    return kernel(number, a, b, c, 0);
}

static void bare_calls_change_nothing(void) {
    char text[16], path[64];
    struct stat facts;
    int fd = begin("f"), other = begin("g");
    CHECK(bare(SYS_read, fd, (long)text, 1) == -EBADF && bare(SYS_write, fd, (long)"x", 1) == -EBADF);
    CHECK(bare(SYS_ftruncate, fd, 0, 0) == -EBADF && bare(SYS_fchmod, fd, 0777, 0) == -EBADF);
    CHECK(bare(SYS_fchown, fd, 0, 0) == -EBADF && bare(SYS_lseek, fd, 0, SEEK_SET) == -EBADF);
    CHECK(bare(SYS_fstat, fd, (long)&facts, 0) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0);
    CHECK((facts.st_mode & 07777) == 0 && facts.st_size == 0);
    // Not even root writes to it by its path.
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    long past = bare(SYS_open, (long)path, O_RDWR, 0);
    CHECK(past == -EACCES || (past >= 0 && bare(SYS_write, past, (long)"x", 1) == -EPERM));
    CHECK(past < 0 || (bare(SYS_read, past, (long)text, 16) == 0 && close(past) == 0));
    past = bare(SYS_truncate, (long)path, 100, 0);
    CHECK(past == -EACCES || past == -EPERM);
    CHECK(read(fd, text, 16) == 8 && read(other, text, 16) == 8 && close(fd) == 0 && close(other) == 0);
}

static int count_open(void) {
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += bare(SYS_fcntl, fd, F_GETFD, 0) >= 0;
    return count;
}

static void opens_again(void) {
    char text[4];
    int fd = open("f", O_RDONLY);
    CHECK(fd == 3 && read(fd, text, 4) == 4 && memcmp(text, "0123", 4) == 0 && close(fd) == 0);
}

static void closing_all_numbers_is_survived(void) {
    CHECK(close(begin("f")) == 0);
    closefrom(3);
    opens_again();
    int count = count_open();
    CHECK(count <= 4);
    for (int i = 0; i < 60; i++) {
        pid_t child;
        switch (i % 6) {
        case 0:
            closefrom(3);
            break;
        case 1:
            CHECK(close_range(3, ~0u, 0) == 0);
            break;
        case 2:
            for (int fd = 3; fd < 2000; fd++)
                close(fd);
            break;
        case 3:
            // Another file has the number.
            for (int fd = 990; fd < 1010; fd++)
                CHECK(dup2(0, fd) == fd);
            opens_again();
            closefrom(3);
            break;
        case 4:
            for (int fd = 990; fd < 1010; fd++)
                syscall(SYS_close, fd);
            break;
        default:
            child = vfork();
            if (child == 0) {
                closefrom(3);
                _exit(0);
            }
            ended_well(child);
        }
        opens_again();
        child = i % 7 ? 0 : fork();
        if (child == 0) {
            opens_again();
            if (i % 7 == 0)
                _exit(0);
        } else {
            ended_well(child);
        }
        CHECK(count_open() == count);
    }
}

static void copies_share_the_position(void) {
    char text[8];
    int fd = begin("f"), other = dup(fd);
    CHECK(other >= 0 && read(other, text, 2) == 2 && read(fd, text, 1) == 1 && text[0] == '4');
    // The kernel opens both at once.
    struct pollfd entry = {fd, POLLIN, 0};
    CHECK(poll(&entry, 1, 0) == 1 && fcntl(other, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(read(other, text, 1) == 1 && text[0] == '5' && close(fd) == 0);
    CHECK(read(other, text, 1) == 1 && text[0] == '6' && fcntl(other, F_GETFD) == FD_CLOEXEC);
    CHECK(dup2(other, 0) == 0 && close(other) == 0 && read(0, text, 1) == 1 && text[0] == '7');
}

static void children_have_the_file(void) {
    char text[8];
    int fd = begin("f"), closed = open("f", O_RDONLY | O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        CHECK(read(fd, text, 3) == 3 && memcmp(text, "234", 3) == 0 && write(fd, "x", 1) == 1);
        _exit(0);
    }
    ended_well(child);
    CHECK(read(fd, text, 2) == 2 && memcmp(text, "67", 2) == 0 && close(fd) == 0);
    fd = begin("g");
    CHECK(dup2(fd, 9) == 9 && closed >= 0 && fcntl(closed, F_GETFD) == FD_CLOEXEC);
    CHECK(system("EGERIA_PRELOAD=off sh -c 'test \"$(cat <&9)\" = 23456789'") == 0);
    CHECK(read(9, text, 1) == 0);
    fd = open("h", O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK(dup2(fd, 1) == 1 && system("echo one") == 0 && write(1, "two\n", 4) == 4);
    holds("h", "one\ntwo\n");
}

static void files_change_under_their_opens(void) {
    char text[8];
    struct stat facts;
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0);
    int fd = begin("d/e/f"), gone = begin("d/gone"), closed = open("d/closed", O_RDWR | O_CREAT, 0);
    CHECK(closed >= 0 && write(closed, "secret", 6) == 6);
    CHECK(rename("d/e", "d/moved") == 0 && rename("d/moved/f", "d/moved/g") == 0);
    CHECK(unlink("d/gone") == 0 && fchmod(fd, 0) == 0);
    struct pollfd entries[] = {{fd, POLLIN, 0}, {gone, POLLIN, 0}, {closed, POLLIN, 0}};
    CHECK(poll(entries, 3, 0) == 3);
    for (int i = 0; i < 3; i++)
        CHECK(entries[i].revents == POLLIN);
    CHECK(syscall(SYS_read, fd, text, 2) == 2 && memcmp(text, "23", 2) == 0);
    CHECK(syscall(SYS_read, gone, text, 2) == 2 && memcmp(text, "23", 2) == 0);
    CHECK(syscall(SYS_fstat, gone, &facts) == 0 && facts.st_nlink == 0);
    CHECK(syscall(SYS_pread64, closed, text, 6, 0) == 6 && memcmp(text, "secret", 6) == 0);
}

static void removed_files_stay_open(void) {
    char text[8], path[64], found[256] = {0};
    struct stat facts, other;
    for (int i = 0; i < 500; i++) {
        int fd = begin("f"), replaced = begin("g");
        CHECK(unlink("f") == 0 && access("f", F_OK) == -1 && fstat(fd, &facts) == 0 && facts.st_nlink == 0);
        CHECK(read(fd, text, 2) == 2 && memcmp(text, "23", 2) == 0 && pwrite(fd, "+", 1, 20) == 1);
        CHECK(close(begin("h")) == 0 && rename("h", "g") == 0 && fstat(replaced, &facts) == 0 && facts.st_nlink == 0);
        CHECK(stat("g", &other) == 0 && other.st_ino != facts.st_ino && other.st_nlink == 1);
        CHECK(pread(replaced, text, 2, 0) == 2 && memcmp(text, "01", 2) == 0);
        CHECK(close(fd) == 0 && close(replaced) == 0);
    }
    int fd = begin("f");
    CHECK(unlink("f") == 0 && close(begin("f")) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(readlink(path, found, sizeof found - 1) > 0 && strstr(found, " (deleted)"));
    CHECK(syscall(SYS_fstat, fd, &facts) == 0 && facts.st_nlink == 0 && stat("f", &other) == 0);
    CHECK(facts.st_ino != other.st_ino && unlink("f") == 0);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "0123456789", 10) == 0);
    memcpy(mapped, "ab", 2);
    CHECK(pread(fd, text, 3, 0) == 3 && memcmp(text, "ab2", 3) == 0 && munmap(mapped, 4096) == 0 && close(fd) == 0);
    fd = begin("f");
    CHECK(unlink("f") == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(read(fd, text, 2) == 2 && memcmp(text, "23", 2) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(read(fd, text, 2) == 2 && memcmp(text, "45", 2) == 0 && close(fd) == 0);
}

// Nobody may make names in the root, by which the kernel finds removed files.
static void removed_files_open_below_a_closed_root(void) {
    // Before the library asks for the rights of the process: without capabilities.
    struct { uint32_t version; int pid; } header = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } none[2] = {0};
    CHECK(syscall(SYS_mkdir, "d", 0777) == 0 && syscall(SYS_chmod, ".", 0555) == 0);
    CHECK(syscall(SYS_capset, &header, none) == 0);
    CHECK(open("f", O_WRONLY | O_CREAT, 0600) == -1 && errno == EACCES);
    int fd = begin("d/f"), replaced = begin("d/g");
    CHECK(unlink("d/f") == 0 && close(begin("d/h")) == 0 && rename("d/h", "d/g") == 0);
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "0123456789", 10) == 0);
    mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, replaced, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "0123456789", 10) == 0);
}

// Whether a child finds a byte of the file locked.
static int is_locked(const char *name, off_t at) {
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
        _exit(fcntl(open(name, O_RDWR), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void locks_go_with_any_descriptor(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    int fd = begin("f"), before = open("f", O_RDONLY), other = begin("g");
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && is_locked("f", 1) && !is_locked("f", 2));
    CHECK(close(other) == 0 && is_locked("f", 1) && close(before) == 0 && !is_locked("f", 1));
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && is_locked("f", 1));
    CHECK(close(open("f", O_RDONLY)) == 0 && !is_locked("f", 1));
    CHECK(lseek(fd, 2, SEEK_SET) == 2 && lockf(fd, F_LOCK, 1) == 0 && is_locked("f", 2) && link("f", "linked") == 0);
    FILE *stream = fopen("linked", "r");
    CHECK(stream && is_locked("f", 2) && fclose(stream) == 0 && !is_locked("f", 2) && close(fd) == 0);
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "l%d", i);
        fd = begin(name);
        CHECK(fcntl(fd, F_SETLK, &lock) == 0 && close(open(name, O_RDONLY)) == 0);
        CHECK(i % 33 || !is_locked(name, 1));
        CHECK(close(fd) == 0);
    }
}

// As a database with a lock on its file and journals beside it.
static void who_locks_one_file_opens_others_without_the_kernel(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int fd = begin("database");
    for (int i = 0; i < 500; i++) {
        lock.l_type = F_WRLCK;
        CHECK(fcntl(fd, F_SETLK, &lock) == 0);
        int journal = open("journal", O_RDWR | O_CREAT | O_EXCL, 0644);
        CHECK(journal >= 0 && write(journal, "old", 3) == 3 && fsync(journal) == 0);
        CHECK(pwrite(fd, "new", 3, i) == 3 && fsync(fd) == 0 && close(journal) == 0 && unlink("journal") == 0);
        lock.l_type = F_UNLCK;
        CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    }
}

static void limits_hold(void) {
    struct rlimit limit = {20, 20};
    int fds[32], count = 0;
    CHECK(close(begin("f")) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((fds[count] = open("f", O_RDONLY)) >= 0)
        count++;
    CHECK(errno == EMFILE && fds[count - 1] == 19);
    CHECK(open("new", O_RDWR | O_CREAT, 0600) == -1 && errno == EMFILE && access("new", F_OK) == -1);
    for (int i = 0; i < count; i++) {
        char text[4];
        CHECK(close(fds[i]) == 0 && open("f", O_RDONLY) == fds[i]);
        CHECK(read(fds[i], text, 4) == 4 && memcmp(text, "0123", 4) == 0);
        // The kernel opens it.
        CHECK(i % 2 || syscall(SYS_read, fds[i], text, 1) == 1);
    }
    CHECK(open("f", O_RDONLY) == -1 && errno == EMFILE);
}

static void *opens_once(void *unused) {
    (void)unused;
    CHECK(close(open("f", O_RDONLY)) == 0);
    return NULL;
}

static void limits_hold_for_threads(void) {
    struct rlimit limit = {40, 40};
    int fd;
    // What whoever started this left open.
    closefrom(3);
    CHECK(close(begin("f")) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, opens_once, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    // Every number is the program's.
    int count = 0;
    while ((fd = open("f", O_RDONLY)) >= 0) {
        char text[4];
        CHECK(fd >= 3 && fd < 40 && read(fd, text, 4) == 4 && memcmp(text, "0123", 4) == 0);
        count++;
    }
    CHECK(errno == EMFILE && count == 40 - 3);
    CHECK(close(30) == 0 && open("f", O_RDONLY) == 30);
}

static int send_fd(int socket, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static void sent_files_arrive(void) {
    int pair[2], received, fd = begin("f");
    char control[CMSG_SPACE(sizeof fd)], byte, text[4];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && send_fd(pair[0], fd) == 0);
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(pair[1], &message, 0) == 1);
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    CHECK(read(received, text, 2) == 2 && memcmp(text, "23", 2) == 0);
    CHECK(read(fd, text, 1) == 1 && text[0] == '4');
}

static void *reads_and_closes(void *argument) {
    char text[4];
    for (int i = 0; i < ROUNDS; i++) {
        int fd = begin(argument);
        int other = dup(fd);
        struct pollfd entry = {i % 3 ? other : -1, POLLIN, 0};
        CHECK(poll(&entry, 1, 0) == (i % 3 != 0) && read(other, text, 2) == 2);
        CHECK(close(fd) == 0 && read(other, text, 1) == 1 && text[0] == '4' && close(other) == 0);
    }
    return NULL;
}

static volatile int number, is_over;

// The file, or no such number.
static void *reads_the_number(void *argument) {
    char text[8];
    for (int i = 0; !is_over; i++) {
        if (i % 16 == 0)
            sched_yield();
        ssize_t bytes = pread(number, text, sizeof text, 0);
        CHECK(bytes == -1 ? errno == EBADF : bytes == 8 && memcmp(text, "01234567", 8) == 0);
    }
    return argument;
}

static void others_use_what_one_thread_opens(void) {
    pthread_t thread;
    number = begin("a");
    CHECK(pthread_create(&thread, NULL, reads_the_number, NULL) == 0);
    for (int i = 0; i < 20 * ROUNDS; i++) {
        int fd = open("a", O_RDONLY);
        char text[8];
        CHECK(fd >= 0 && read(fd, text, 5) == 5);
        number = fd;
        if (i % 7 == 0)
            sched_yield();
        CHECK(close(fd) == 0);
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}

static void threads_open_and_close(void) {
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, reads_and_closes, names[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

// A file of another file system, with 10 bytes.
static int elsewhere(int flags) {
    char path[] = "/tmp/egeria-opens-XXXXXX";
    int made = mkstemp(path);
    CHECK(made >= 0 && write(made, "ABCDEFGHIJ", 10) == 10 && close(made) == 0);
    int fd = open(path, flags);
    CHECK(fd >= 0 && unlink(path) == 0);
    return fd;
}

static void copies_cost_no_requests(void) {
    char text[16];
    for (int i = 0; i < ROUNDS; i++) {
        int from = elsewhere(O_RDONLY), to = open("f", O_WRONLY | O_CREAT | O_EXCL, 0600);
        CHECK(to >= 0 && ioctl(to, FICLONE, from) == -1 && errno == EXDEV);
        off_t source = 1, target = 0;
        CHECK(copy_file_range(from, &source, to, NULL, 3, 0) == 3 && source == 4 && lseek(to, 0, SEEK_CUR) == 3);
        CHECK(lseek(from, 0, SEEK_CUR) == 0 && copy_file_range(from, NULL, to, &target, 1, 0) == 1 && target == 1);
        CHECK(lseek(from, 0, SEEK_CUR) == 1 && copy_file_range(from, NULL, to, NULL, ~0UL >> 2, 0) == 9);
        CHECK(lseek(from, 0, SEEK_CUR) == 10 && lseek(to, 0, SEEK_CUR) == 12);
        CHECK(copy_file_range(from, NULL, to, NULL, 20, 0) == 0 && ftruncate(to, 0) == 0 && lseek(to, 0, SEEK_SET) == 0);
        CHECK(lseek(from, 0, SEEK_SET) == 0);
        CHECK(isatty(to) == 0 && errno == ENOTTY && ttyname(to) == NULL && errno == ENOTTY);
        CHECK(close(open("/dev/urandom", O_RDONLY)) == 0 && stat("/dev/shm", &(struct stat){0}) == 0);
        off_t at = 2;
        CHECK(sendfile(to, from, NULL, 3) == 3 && sendfile(to, from, &at, 20) == 8 && at == 10);
        CHECK(lseek(from, 0, SEEK_CUR) == 3 && lseek(to, 0, SEEK_CUR) == 11 && close(to) == 0);
        CHECK(close(from) == 0 && (to = elsewhere(O_RDWR)) >= 0);
        from = open("f", O_RDONLY);
        CHECK(from >= 0 && ioctl(to, FICLONE, from) == -1 && errno == EXDEV);
        CHECK(copy_file_range(from, NULL, to, NULL, 20, 0) == 11 && pread(to, text, 16, 0) == 11);
        CHECK(memcmp(text, "ABCCDEFGHIJ", 11) == 0 && lseek(to, 0, SEEK_CUR) == 11);
        CHECK(lseek(from, 0, SEEK_CUR) == 11 && lseek(from, 0, SEEK_SET) == 0);
        CHECK(ftruncate(to, 0) == 0 && lseek(to, 0, SEEK_SET) == 0);
        CHECK(sendfile(to, from, NULL, 20) == 11 && pread(to, text, 16, 0) == 11);
        CHECK(memcmp(text, "ABCCDEFGHIJ", 11) == 0 && close(from) == 0 && close(to) == 0);
        CHECK(unlink("f") == 0);
    }
}

enum { KINDS = 11 };

static int opened_as(int kind) {
    int pair[2];
    switch (kind) {
    case 0:
        return open("f", O_RDONLY);
    case 1:
        return open("f", O_WRONLY);
    case 2:
        return open("g", O_RDWR);
    case 3:
        return open("g", O_RDWR | O_APPEND);
    case 4:
        return elsewhere(O_RDONLY);
    case 5:
        return elsewhere(O_WRONLY);
    case 6:
        return elsewhere(O_RDWR | O_APPEND);
    case 7:
        return elsewhere(O_PATH);
    case 8:
        return open(".", O_RDONLY | O_DIRECTORY);
    case 9:
        return open("f", O_PATH);
    default:
        CHECK(pipe(pair) == 0 && write(pair[1], "pipe", 4) == 4 && close(pair[1]) == 0);
        return pair[0];
    }
}

// Prints what calls between all kinds of descriptors answer.
static void copies_answer_as_the_kernel(void) {
    off_t positions[] = {4, -1, 0x7fffffffffffffff};
    off_t *bad = (off_t *)8, *places[] = {NULL, &positions[0], &positions[1], &positions[2], bad};
    char text[64];
    for (int i = 0; i < KINDS * KINDS * 5 * 4; i++) {
        int from_kind = i / 20 % KINDS, to_kind = i / 20 / KINDS, call = i % 4;
        CHECK(close(begin("f")) == 0 && close(begin("g")) == 0);
        int from = opened_as(from_kind), to = opened_as(to_kind);
        off_t *place = places[i / 4 % 5];
        positions[0] = 4;
        errno = 0;
        long answer = call == 0   ? ioctl(to, FICLONE, from)
                      : call == 1 ? sendfile(to, from, place, 5)
                      : call == 2 ? copy_file_range(from, place, to, NULL, 5, 0)
                                  : copy_file_range(from, NULL, to, place, 5, i % 3 == 0);
        int error = answer < 0 ? errno : 0;
        printf("%d %d %d %d: %ld %d, at %ld %ld %ld,", from_kind, to_kind, call, i / 4 % 5, answer, error,
               positions[0], (long)lseek(from, 0, SEEK_CUR), (long)lseek(to, 0, SEEK_CUR));
        ssize_t bytes = pread(to, text, sizeof text, 0);
        printf(" %.*s\n", bytes < 0 ? 0 : (int)bytes, text);
        CHECK(close(from) == 0 && close(to) == 0);
    }
}

static pthread_barrier_t start;

static void *opens_first(void *number) {
    char name[16], moved[16];
    snprintf(name, sizeof name, "f%ld", (long)number);
    snprintf(moved, sizeof moved, "m%ld", (long)number);
    pthread_barrier_wait(&start);
    CHECK(close(make(name, 0)) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(rename(name, moved) == 0 && rename(moved, name) == 0);
    CHECK(unlink(name) == 0);
    return NULL;
}

static void first_opens_of_threads_cost_no_requests(void) {
    pthread_t threads[8];
    CHECK(pthread_barrier_init(&start, NULL, 8) == 0);
    for (long i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, opens_first, (void *)i) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

// Another process puts a pipe in the place of an open file, and takes it away.
static void pipes_in_the_place_of_files_are_not_waited_for(void) {
    int *exchanges = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(exchanges != MAP_FAILED && close(begin("f")) == 0 && mkfifo("p", 0600) == 0);
    pid_t child = fork();
    if (child == 0) {
        // 1: wanted. 0: the names are as they were.
        while (*(volatile int *)exchanges >= 0) {
            int wanted = *(volatile int *)exchanges;
            for (int i = 0; wanted && i < 40; i++)
                CHECK(syscall(SYS_renameat2, AT_FDCWD, "f", AT_FDCWD, "p", RENAME_EXCHANGE) == 0);
            if (wanted)
                __atomic_store_n(exchanges, 0, __ATOMIC_SEQ_CST);
            sched_yield();
        }
        _exit(0);
    }
    alarm(60);
    for (int round = 0; round < 100; round++) {
        char *mapped;
        int fd = open("f", O_RDONLY);
        CHECK(fd >= 0);
        __atomic_store_n(exchanges, 1, __ATOMIC_SEQ_CST);
        usleep(round * 10);
        mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(mapped != MAP_FAILED && memcmp(mapped, "0123456789", 10) == 0 && munmap(mapped, 4096) == 0);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 && close(fd) == 0);
        while (__atomic_load_n(exchanges, __ATOMIC_SEQ_CST) != 0)
            sched_yield();
    }
    __atomic_store_n(exchanges, -1, __ATOMIC_SEQ_CST);
    ended_well(child);
}

static const struct rule rules[] = {
    {"pipes_in_the_place_of_files_are_not_waited_for", pipes_in_the_place_of_files_are_not_waited_for},
    {"opens_cost_no_requests", opens_cost_no_requests},
    {"made_up_names_cost_no_requests", made_up_names_cost_no_requests},
    {"every_call_sees_the_file", every_call_sees_the_file},
    {"numbers_in_structures_count", numbers_in_structures_count},
    {"no_call_reaches_the_placeholder", no_call_reaches_the_placeholder},
    {"bare_calls_change_nothing", bare_calls_change_nothing},
    {"closing_all_numbers_is_survived", closing_all_numbers_is_survived},
    {"copies_share_the_position", copies_share_the_position},
    {"children_have_the_file", children_have_the_file},
    {"files_change_under_their_opens", files_change_under_their_opens},
    {"unnamed_files_cost_no_requests", unnamed_files_cost_no_requests},
    {"unnamed_files_by_the_path_of_the_mount", unnamed_files_by_the_path_of_the_mount},
    {"unnamed_files_are_named_once", unnamed_files_are_named_once},
    {"removed_files_stay_open", removed_files_stay_open},
    {"removed_files_open_below_a_closed_root", removed_files_open_below_a_closed_root},
    {"locks_go_with_any_descriptor", locks_go_with_any_descriptor},
    {"who_locks_one_file_opens_others_without_the_kernel", who_locks_one_file_opens_others_without_the_kernel},
    {"limits_hold", limits_hold},
    {"limits_hold_for_threads", limits_hold_for_threads},
    {"sent_files_arrive", sent_files_arrive},
    {"threads_open_and_close", threads_open_and_close},
    {"others_use_what_one_thread_opens", others_use_what_one_thread_opens},
    {"copies_cost_no_requests", copies_cost_no_requests},
    {"first_opens_of_threads_cost_no_requests", first_opens_of_threads_cost_no_requests},
    {"copies_answer_as_the_kernel", copies_answer_as_the_kernel},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
