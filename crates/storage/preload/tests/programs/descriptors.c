// Numbers that are closed and used again, in every way libc closes them.
#include "rules.h"
#include <dirent.h>
#include <sys/file.h>

static const char *ways[] = {"close",  "fclose",      "dup2",   "dup3",   "close_range", "closefrom",
                             "freopen", "raw syscall", "syscall", "closedir", NULL};

// Make number `fd` (a file of ours, read already) mean the file "new", without a call of open.
static void replace(int fd, const char *way, int fresh) {
    if (strcmp(way, "dup2") == 0) {
        CHECK(dup2(fresh, fd) == fd);
        return;
    }
    if (strcmp(way, "dup3") == 0) {
        CHECK(dup3(fresh, fd, O_CLOEXEC) == fd);
        return;
    }
    if (strcmp(way, "freopen") == 0) {
        FILE *stream = fdopen(fd, "r+");
        CHECK(freopen("new", "r+", stream) == stream);
        CHECK(fileno(stream) == fd);
        return;
    }
    if (strcmp(way, "close") == 0)
        CHECK(close(fd) == 0);
    else if (strcmp(way, "fclose") == 0)
        CHECK(fclose(fdopen(fd, "r+")) == 0);
    else if (strcmp(way, "close_range") == 0)
        CHECK(close_range(fd, fd, 0) == 0);
    else if (strcmp(way, "closefrom") == 0)
        closefrom(fd);
    else if (strcmp(way, "closedir") == 0) {
        CHECK(close(fd) == 0);
        int directory = open(".", O_RDONLY | O_DIRECTORY);
        CHECK(directory == fd);
        CHECK(closedir(fdopendir(directory)) == 0);
    } else
        CHECK(syscall(SYS_close, fd) == 0);
    // The lowest free number, by a call inside libc that no hook sees.
    FILE *stream = fopen("new", "r+");
    CHECK(fileno(stream) == fd);
}

static void reused_numbers_meet_no_stale_entry(void) {
    for (int way = 0; ways[way]; way++) {
        pid_t child = fork();
        if (child == 0) {
            char text[4] = {0};
            int fresh = make("new", 0);
            put(fresh, "new");
            CHECK(lseek(fresh, 0, SEEK_SET) == 0);
            int moved = fcntl(fresh, F_DUPFD, 20);
            CHECK(close(fresh) == 0);
            int fd = make("old", 0);
            put(fd, "old");
            CHECK(pread(fd, text, 3, 0) == 3 && strcmp(text, "old") == 0);
            if (strcmp(ways[way], "closefrom") == 0)
                CHECK(close(moved) == 0);
            replace(fd, ways[way], moved);
            memset(text, 0, sizeof text);
            if (read(fd, text, 3) != 3 || strcmp(text, "new") != 0) {
                fprintf(stderr, "after %s: \"%s\"\n", ways[way], text);
                _exit(1);
            }
            CHECK(pwrite(fd, "NEW", 3, 0) == 3);
            holds("new", "NEW");
            holds("old", "old");
            _exit(0);
        }
        ended_well(child);
    }
}

static void ten_thousand_descriptors(void) {
    enum { MANY = 10000 };
    static int fds[MANY];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(limit.rlim_cur > MANY + 64);
    make("one", 0);
    for (int i = 0; i < MANY; i++) {
        CHECK((fds[i] = open("one", O_RDWR)) >= 0);
        CHECK(pwrite(fds[i], &i, sizeof i, (off_t)i * sizeof i) == sizeof i);
    }
    for (int i = 0; i < MANY; i++) {
        int found, at = MANY - 1 - i;
        CHECK(lseek(fds[i], (off_t)at * sizeof at, SEEK_SET) == (off_t)(at * sizeof at));
        CHECK(read(fds[i], &found, sizeof found) == sizeof found && found == at);
    }
    CHECK(close_range(fds[0], ~0U, 0) == 0);
    CHECK(pread(fds[5], &limit, 1, 0) == -1 && errno == EBADF);
}

static void access_modes_are_kept(void) {
    char byte = 'x';
    int fd = make("f", 0);
    put(fd, "f");
    int reader = open("f", O_RDONLY), writer = open("f", O_WRONLY), path = open("f", O_PATH);
    CHECK(write(reader, &byte, 1) == -1 && errno == EBADF);
    CHECK(pwrite(reader, &byte, 1, 0) == -1 && errno == EBADF);
    CHECK(read(writer, &byte, 1) == -1 && errno == EBADF);
    CHECK(pread(writer, &byte, 1, 0) == -1 && errno == EBADF);
    CHECK(read(path, &byte, 1) == -1 && errno == EBADF);
    CHECK(read(-1, &byte, 1) == -1 && errno == EBADF);
    CHECK(close(fd) == 0 && read(fd, &byte, 1) == -1 && errno == EBADF);
    CHECK(close(fd) == -1 && errno == EBADF);
    CHECK(pread(reader, &byte, 1, -1) == -1 && errno == EINVAL);
    CHECK(pwrite(writer, &byte, 1, -1) == -1 && errno == EINVAL);
    CHECK(dup2(reader, 1 << 30) == -1 && errno == EBADF);
    errno = 4711;
    CHECK(read(reader, &byte, 1) == 1 && write(writer, "f", 1) == 1 && fsync(writer) == 0);
    CHECK(errno == 4711);
}

// Passes a size that its memory does not have, on purpose.
static void excessive_sizes(void) {
    char byte = 'x';
    int fd = make("f", 0);
    volatile size_t excessive = (size_t)SSIZE_MAX + 1;
    CHECK(syscall(SYS_read, fd, &byte, excessive) == -1 && byte == 'x');
}

static void unlinked_file_lives(void) {
    char text[8] = {0};
    int fd = make("f", 0);
    put(fd, "alive");
    CHECK(unlink("f") == 0);
    CHECK(pread(fd, text, 8, 0) == 5 && strcmp(text, "alive") == 0);
    put(fd, "!");
    struct stat facts;
    CHECK(fstat(fd, &facts) == 0 && facts.st_size == 6 && facts.st_nlink == 0);
}

static volatile int stop;

// Opens, reads and closes: the file must be the one that was opened.
static void *churn(void *argument) {
    char name[16], text[16];
    for (int i = 0; !stop; i++) {
        int which = (i + (int)(intptr_t)argument) % 8;
        snprintf(name, sizeof name, "f%d", which);
        int fd = open(name, O_RDONLY);
        CHECK(fd >= 0);
        memset(text, 0, sizeof text);
        CHECK(read(fd, text, sizeof text - 1) == 2 && strcmp(text, name) == 0);
        int copy = dup(fd);
        CHECK(close(fd) == 0);
        CHECK(pread(copy, text, 2, 0) == 2 && strcmp(text, name) == 0);
        CHECK(close(copy) == 0);
    }
    return NULL;
}

static void threads_open_and_close(void) {
    pthread_t threads[4];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        int fd = make(name, 0);
        put(fd, name);
        CHECK(close(fd) == 0);
    }
    for (intptr_t t = 0; t < 4; t++)
        CHECK(pthread_create(&threads[t], NULL, churn, (void *)t) == 0);
    usleep(1500 * 1000);
    stop = 1;
    for (int t = 0; t < 4; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
}

static int log_fd;

static void *write_log(void *argument) {
    (void)argument;
    for (int i = 0; i < 20000; i++)
        put(log_fd, "0123456789abcde\n");
    stop = 1;
    return NULL;
}

// A log is replaced under its writer: no line is lost, none is torn, none lands elsewhere.
static void dup2_over_a_file_in_use(void) {
    pthread_t thread;
    off_t total = 0;
    int logs = 0;
    log_fd = make("log0", 0);
    CHECK(pthread_create(&thread, NULL, write_log, NULL) == 0);
    while (!stop && logs < 200) {
        char name[16];
        snprintf(name, sizeof name, "log%d", ++logs);
        int fresh = make(name, 0);
        CHECK(dup2(fresh, log_fd) == log_fd && close(fresh) == 0);
        usleep(200);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i <= logs; i++) {
        char name[16], line[17] = {0};
        struct stat facts;
        snprintf(name, sizeof name, "log%d", i);
        int fd = open(name, O_RDONLY);
        CHECK(fstat(fd, &facts) == 0 && facts.st_size % 16 == 0);
        total += facts.st_size;
        for (off_t at = 0; at < facts.st_size; at += 16)
            CHECK(pread(fd, line, 16, at) == 16 && strcmp(line, "0123456789abcde\n") == 0);
        close(fd);
    }
    CHECK(total == 20000 * 16);
}

static void openat_relative(void) {
    CHECK(mkdir("sub", 0755) == 0);
    int directory = open("sub", O_RDONLY | O_DIRECTORY);
    int fd = openat(directory, "f", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0);
    put(fd, "in sub");
    CHECK(access("f", F_OK) == -1 && errno == ENOENT);
    holds("sub/f", "in sub");
    CHECK(chdir("/") == 0);
    char text[8] = {0};
    int again = openat(directory, "f", O_RDONLY);
    CHECK(read(again, text, 8) == 6 && strcmp(text, "in sub") == 0);
}

static void ftruncate_under_preload(void) {
    char text[8192];
    struct stat facts;
    int fd = make("f", 0);
    memset(text, 'x', sizeof text);
    CHECK(write(fd, text, sizeof text) == sizeof text);
    CHECK(ftruncate(fd, 5) == 0 && lseek(fd, 0, SEEK_CUR) == sizeof text);
    CHECK(fstat(fd, &facts) == 0 && facts.st_size == 5);
    CHECK(pread(fd, text, sizeof text, 0) == 5);
    CHECK(ftruncate(fd, 6000) == 0 && lseek(fd, 0, SEEK_END) == 6000);
    CHECK(pread(fd, text, sizeof text, 0) == 6000);
    for (int i = 0; i < 6000; i++)
        CHECK(text[i] == (i < 5 ? 'x' : 0));
    CHECK(lseek(fd, 10, SEEK_SET) == 10);
    put(fd, "tail");
    CHECK(truncate("f", 12) == 0 && pread(fd, text, sizeof text, 10) == 2);
    CHECK(posix_fallocate(fd, 0, 20000) == 0 && fstat(fd, &facts) == 0 && facts.st_size == 20000);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    CHECK(pread(fd, text, 4, 0) == 4 && text[0] == 0);
}

static const struct rule rules[] = {
    {"reused_numbers_meet_no_stale_entry", reused_numbers_meet_no_stale_entry},
    {"ten_thousand_descriptors", ten_thousand_descriptors},
    {"access_modes_are_kept", access_modes_are_kept},
    {"excessive_sizes", excessive_sizes},
    {"unlinked_file_lives", unlinked_file_lives},
    {"threads_open_and_close", threads_open_and_close},
    {"dup2_over_a_file_in_use", dup2_over_a_file_in_use},
    {"openat_relative", openat_relative},
    {"ftruncate_under_preload", ftruncate_under_preload},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
