// How much of the caller's stack the calls need.
#include "rules.h"
#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

enum { ROOM = 256 << 10, PAINT = 0xa5, OWN = 512 };

static char buffer[16 << 10];
static struct stat facts;
static int file, directory;
static DIR *entries;
static struct iovec parts[2] = {{buffer, 4096}, {buffer + 4096, 4096}};
static off_t place;
static char *text;

static void fd_of_a_new_file(void) { CHECK(close(open("new", O_RDWR | O_CREAT, 0600)) == 0); }
static void fd_without_a_name(void) { close(open(".", O_RDWR | O_TMPFILE, 0600)); }
static void names_of_a_directory(void) {
    DIR *all = opendir(".");
    while (readdir(all)) {
    }
    closedir(all);
}
static void waits(void) {
    struct pollfd one = {file, POLLIN, 0};
    poll(&one, 1, 0);
}
static void selects(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(file, &set);
    struct timeval none = {0, 0};
    select(file + 1, &set, NULL, NULL, &none);
}
static void locks(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = 1};
    fcntl(file, F_SETLK, &lock);
}
static void maps(void) {
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED && munmap(at, 4096) == 0);
}
static void actions(void) {
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    sigaction(SIGUSR1, &action, NULL);
}
static void copies(void) {
    int copy = dup(file);
    dup2(file, copy);
    close(copy);
}
static void children(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(pread(file, buffer, 16, 0) == 16 ? 0 : 1);
    ended_well(child);
}
static void short_copy(void) {
    off_t from = 0;
    int to = open("copy", O_RDWR | O_CREAT, 0600);
    copy_file_range(file, &from, to, NULL, 4096, 0);
    from = 0;
    sendfile(to, file, &from, 4096);
    close(to);
}

struct one {
    const char *name;
    void (*make)(void);
};

#define CALL(name, body)                                                                    \
    static void call_##name(void) { body; }
#define CALLS                                                                               \
    X(first_stat, stat("file", &facts))                                                     \
    X(stat, stat("file", &facts))                                                           \
    X(lstat, lstat("link", &facts))                                                         \
    X(fstat, fstat(file, &facts))                                                           \
    X(fstatat, fstatat(directory, "file", &facts, 0))                                       \
    X(statx, statx(directory, "file", 0, STATX_ALL, (struct statx *)buffer))                \
    X(missing, stat("missing", &facts))                                                     \
    X(access, access("file", R_OK))                                                         \
    X(readlink, readlink("link", buffer, 100))                                              \
    X(open, fd_of_a_new_file())                                                             \
    X(openat, close(openat(directory, "file", O_RDONLY)))                                   \
    X(open_directory, close(open(".", O_RDONLY | O_DIRECTORY)))                             \
    X(creat, close(creat("created", 0600)))                                                 \
    X(unnamed, fd_without_a_name())                                                         \
    X(mkdir, mkdir("sub", 0700))                                                            \
    X(rmdir, rmdir("sub"))                                                                  \
    X(rename, rename("new", "newer"))                                                       \
    X(link, link("newer", "linked"))                                                        \
    X(symlink, symlink("newer", "symbolic"))                                                \
    X(unlink, unlink("linked"))                                                             \
    X(remove, remove("symbolic"))                                                           \
    X(chmod, chmod("file", 0640))                                                           \
    X(fchmod, fchmod(file, 0640))                                                           \
    X(chown, chown("file", getuid(), getgid()))                                             \
    X(truncate, truncate("newer", 5000))                                                    \
    X(ftruncate, ftruncate(file, 100000))                                                   \
    X(utimensat, utimensat(AT_FDCWD, "file", NULL, 0))                                      \
    X(utime, utime("file", NULL))                                                           \
    X(setxattr, setxattr("file", "user.a", "b", 1, 0))                                      \
    X(getxattr, getxattr("file", "user.a", buffer, 10))                                     \
    X(listxattr, listxattr("file", buffer, 100))                                            \
    X(removexattr, removexattr("file", "user.a"))                                           \
    X(statfs, statfs(".", (struct statfs *)buffer))                                         \
    X(fstatvfs, fstatvfs(file, (struct statvfs *)buffer))                                   \
    X(opendir, names_of_a_directory())                                                      \
    X(read, read(file, buffer, 4096))                                                       \
    X(pread, pread(file, buffer, 4096, 0))                                                  \
    X(pread_hole, pread(file, buffer, 8192, 50000))                                         \
    X(pread_many, pread(file, buffer, 16384, 100))                                          \
    X(write, write(file, buffer, 4096))                                                     \
    X(pwrite, pwrite(file, buffer, 4096, 0))                                                \
    X(pwrite_part, pwrite(file, buffer, 100, 70001))                                        \
    X(pwrite_many, pwrite(file, buffer, 16384, 300))                                        \
    X(readv, readv(file, parts, 2))                                                         \
    X(writev, writev(file, parts, 2))                                                       \
    X(preadv, preadv(file, parts, 2, 10))                                                   \
    X(pwritev, pwritev(file, parts, 2, 10))                                                 \
    X(lseek, lseek(file, 0, SEEK_SET))                                                      \
    X(lseek_data, lseek(file, 0, SEEK_DATA))                                                \
    X(fsync, fsync(file))                                                                   \
    X(fallocate, fallocate(file, 0, 0, 200000))                                             \
    X(punch, fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096))       \
    X(copy, short_copy())                                                                   \
    X(dup, copies())                                                                        \
    X(status, fcntl(file, F_GETFL))                                                         \
    X(chdir, chdir("."))                                                                    \
    X(umask, umask(022))                                                                    \
    X(sigaction, actions())                                                                 \
    X(bad_buffer, pread(file, (void *)64, 100, 1))                                          \
    X(bad_path, stat((void *)64, &facts))                                                   \
    X(select, selects())                                                                    \
    X(poll, waits())                                                                        \
    X(lock, locks())                                                                        \
    X(map, maps())                                                                          \
    X(ioctl, ioctl(file, FIONREAD, buffer))                                                 \
    X(fork, children())                                                                     \
    X(bare_number, syscall(SYS_fdatasync, file))                                            \
    X(close_range, close_range(500, 600, 0))                                                \
    X(close, close(dup(file)))

#define X(name, body) CALL(name, body)
CALLS
#undef X
static const struct one all[] = {
#define X(name, body) {#name, call_##name},
    CALLS
#undef X
};

// Bytes below the caller's frame that the call changed.
static __attribute__((noinline)) size_t depth_of(char *bottom, void (*make)(void)) {
    char *here = (char *)__builtin_frame_address(0) - OWN;
    for (volatile char *at = bottom; at < here; at++)
        *at = (char)PAINT;
    make();
    volatile char *at = bottom;
    while (at < here && *at == (char)PAINT)
        at++;
    return here + OWN - (char *)at;
}

static void *measure(void *stack) {
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        size_t bytes = depth_of((char *)stack + 4096, all[at].make);
        printf("%s %zu\n", all[at].name, bytes);
        if (at == 0) {
            // Not before: the first call is measured.
            file = open("file", O_RDWR | O_CREAT, 0644);
            directory = open(".", O_RDONLY | O_DIRECTORY);
            CHECK(file >= 0 && directory >= 0 && pwrite(file, buffer, 16384, 0) == 16384);
        }
    }
    return NULL;
}

static void on_stack_of(size_t bytes, void *(*run)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, bytes) == 0);
    CHECK(pthread_create(&thread, &attributes, run, stack) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void calls_are_measured(void) { on_stack_of(ROOM, measure); }

// A thread with as little as there is.
static void *makes_and_lists(void *stack) {
    int fd = open("small", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && pwrite(fd, "data", 4, 0) == 4 && pread(fd, buffer, 4, 0) == 4);
    CHECK(mkdir("below", 0755) == 0 && rename("small", "below/small") == 0);
    CHECK(stat("below/small", &facts) == 0 && facts.st_size == 4);
    CHECK(unlink("below/small") == 0 && rmdir("below") == 0 && close(fd) == 0);
    return NULL;
}

static void on_guarded_stack_of(size_t bytes) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, bytes) == 0);
    CHECK(pthread_create(&thread, &attributes, makes_and_lists, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void first_calls_on_16_kib(void) {
    for (int round = 0; round < 20; round++)
        on_guarded_stack_of(16 << 10);
}
static void first_calls_on_24_kib(void) { on_guarded_stack_of(24 << 10); }
static void first_calls_on_32_kib(void) { on_guarded_stack_of(32 << 10); }

static volatile int handled;

static void handler(int signal) {
    makes_and_lists(NULL);
    handled++;
}

static void handle_on_small_stack(void) {
    size_t bytes = sysconf(_SC_SIGSTKSZ);
    char *room = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && mprotect(room, 4096, PROT_NONE) == 0);
    stack_t stack = {.ss_sp = room + 4096, .ss_size = bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int round = 0; round < 20; round++)
        CHECK(raise(SIGUSR1) == 0);
    CHECK(handled == 20);
}

static void first_calls_in_handlers(void) { handle_on_small_stack(); }

static void later_calls_in_handlers(void) {
    makes_and_lists(NULL);
    handle_on_small_stack();
}

// A handler on an alternate stack is interrupted by others on the same stack, within the library's calls.
static volatile int is_over, interrupted;

static void count(int signal) { interrupted++; }

static void keeps_its_frame(int signal) {
    unsigned char mine[3000];
    memset(mine, 0x5a, sizeof mine);
    for (int round = 0; round < 500 || interrupted < 300; round++) {
        CHECK(stat("file", &facts) == 0 && pwrite(file, buffer, 6000, 1) == 6000);
        CHECK(pread(file, (void *)64, 100, 0) == -1 && errno == EFAULT);
        for (size_t at = 0; at < sizeof mine; at++)
            CHECK(mine[at] == 0x5a);
    }
    handled = 1;
}

static void *sends(void *to) {
    while (!is_over) {
        pthread_kill(*(pthread_t *)to, SIGUSR2);
        struct timespec time = {0, 20000};
        nanosleep(&time, NULL);
    }
    return NULL;
}

static void handlers_keep_their_frames(void) {
    static char room[64 << 10];
    file = make("file", 0);
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_handler = keeps_its_frame, .sa_flags = SA_ONSTACK};
    struct sigaction other = {.sa_handler = count, .sa_flags = SA_ONSTACK | SA_NODEFER};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(sigaction(SIGUSR2, &other, NULL) == 0);
    pthread_t self = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, sends, &self) == 0);
    CHECK(raise(SIGUSR1) == 0);
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0 && handled == 1 && interrupted > 0);
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == room && now.ss_flags == 0);
}

int main(int count, char **arguments) {
    const struct rule rules[] = {
        {"calls_are_measured", calls_are_measured},
        {"first_calls_on_16_kib", first_calls_on_16_kib},
        {"first_calls_on_24_kib", first_calls_on_24_kib},
        {"first_calls_on_32_kib", first_calls_on_32_kib},
        {"first_calls_in_handlers", first_calls_in_handlers},
        {"later_calls_in_handlers", later_calls_in_handlers},
        {"handlers_keep_their_frames", handlers_keep_their_frames},
        {0},
    };
    return run_rule(count, arguments, rules);
}
