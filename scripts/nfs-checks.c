// Checks of a directory that an NFS server exports, in four groups as the Connectathon tests have them, and checks of two views
// of one directory. Everything that they make is below DIR, and removed again.
// usage: nfs-checks basic|general|special|lock|downgrade DIR
//        nfs-checks two DIR OTHER       one directory by two clients, or by a client and on the server
//        nfs-checks keep DIR GO         keeps files open until GO exists, then uses them
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void give_up(int line, const char *what) {
    fprintf(stderr, "nfs-checks: line %d: %s: %s\n", line, what, errno ? strerror(errno) : "no");
    exit(1);
}
#define holds(condition)                                                                                                           \
    do {                                                                                                                           \
        errno = 0;                                                                                                                 \
        if (!(condition)) give_up(__LINE__, #condition);                                                                           \
    } while (0)
#define does(call) holds((call) >= 0)
#define fails(error, call) holds((call) < 0 && errno == (error))

static char *path(const char *directory, const char *name) {
    static char room[8][512];
    static int next;
    char *at = room[next++ % 8];
    snprintf(at, sizeof room[0], "%s/%s", directory, name);
    return at;
}

static int opened(const char *at, int flags) {
    int fd = open(at, flags | O_CLOEXEC, 0644);
    if (fd < 0) give_up(__LINE__, at);
    return fd;
}

static void put(const char *at, const char *text) {
    int fd = opened(at, O_WRONLY | O_CREAT | O_TRUNC);
    holds(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    does(close(fd));
}

static void has(int fd, const char *text) {
    char found[256] = "";
    ssize_t bytes = pread(fd, found, sizeof found - 1, 0);
    if (bytes < 0 || strcmp(found, text)) {
        fprintf(stderr, "nfs-checks: \"%s\" instead of \"%s\"\n", found, text);
        give_up(__LINE__, "content");
    }
}

static void contains(const char *at, const char *text) {
    int fd = opened(at, O_RDONLY);
    has(fd, text);
    close(fd);
}

static struct stat status(const char *at) {
    struct stat found;
    if (lstat(at, &found)) give_up(__LINE__, at);
    return found;
}

// The number of names; with `removes`, each is removed when it is read.
static int list(const char *directory, int removes) {
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int count = 0;
    holds(stream);
    while ((entry = readdir(stream))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        count++;
        if (removes) does(unlink(path(directory, entry->d_name)));
    }
    closedir(stream);
    return count;
}

// --- basic: files, directories, attributes, data, links ---

static void make_tree(const char *directory, int levels) {
    char here[512], name[32];
    snprintf(here, sizeof here, "%s", directory);
    for (int number = 0; number < 5; number++) {
        snprintf(name, sizeof name, "file%d", number);
        put(path(here, name), name);
    }
    for (int number = 0; levels > 0 && number < 2; number++) {
        snprintf(name, sizeof name, "/dir%d", number);
        char below[600];
        snprintf(below, sizeof below, "%s%s", here, name);
        does(mkdir(below, 0755));
        make_tree(below, levels - 1);
    }
}

static int remove_tree(const char *directory) {
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int files = 0;
    holds(stream);
    while ((entry = readdir(stream))) {
        char at[800];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(at, sizeof at, "%s/%s", directory, entry->d_name);
        struct stat found = status(at);
        if (S_ISDIR(found.st_mode)) {
            files += remove_tree(at);
        } else {
            does(unlink(at));
            files++;
        }
    }
    closedir(stream);
    does(rmdir(directory));
    return files;
}

static void attributes(const char *directory) {
    char *at = path(directory, "attributes");
    put(at, "0123456789");
    does(chmod(at, 0));
    holds((status(at).st_mode & 07777) == 0);
    does(chmod(at, 0640));
    holds((status(at).st_mode & 07777) == 0640);
    does(truncate(at, 4));
    contains(at, "0123");
    does(truncate(at, 100000));
    holds(status(at).st_size == 100000);
    does(chown(at, 1000, 1001));
    holds(status(at).st_uid == 1000 && status(at).st_gid == 1001);
    struct timespec times[2] = {{1000000000, 5000}, {1234567890, 7000}};
    does(utimensat(AT_FDCWD, at, times, 0));
    holds(status(at).st_mtim.tv_sec == 1234567890 && status(at).st_mtim.tv_nsec == 7000);
    does(unlink(at));
    fails(ENOENT, chmod(at, 0600));
}

static void data(const char *directory) {
    enum { BLOCK = 8192, BLOCKS = 128 };
    static unsigned char block[BLOCK], found[BLOCK];
    char *at = path(directory, "data");
    for (int round = 0; round < 3; round++) {
        int fd = opened(at, O_RDWR | O_CREAT | O_TRUNC);
        for (int number = 0; number < BLOCKS; number++) {
            memset(block, number + round, BLOCK);
            holds(write(fd, block, BLOCK) == BLOCK);
        }
        does(fsync(fd));
        does(close(fd));
        fd = opened(at, O_RDONLY);
        for (int number = BLOCKS - 1; number >= 0; number--) {
            memset(block, number + round, BLOCK);
            holds(pread(fd, found, BLOCK, (off_t)number * BLOCK) == BLOCK);
            holds(!memcmp(block, found, BLOCK));
        }
        does(close(fd));
    }
    does(unlink(at));
}

static void links(const char *directory) {
    char *file = path(directory, "file"), *other = path(directory, "other"), *soft = path(directory, "soft"), target[64] = "";
    put(file, "linked");
    does(link(file, other));
    holds(status(file).st_nlink == 2 && status(file).st_ino == status(other).st_ino);
    does(rename(other, path(directory, "renamed")));
    fails(ENOENT, access(other, F_OK));
    does(unlink(path(directory, "renamed")));
    holds(status(file).st_nlink == 1);
    does(symlink("a/target/of/a/link", soft));
    holds(readlink(soft, target, sizeof target - 1) == 18 && !strcmp(target, "a/target/of/a/link"));
    fails(EEXIST, symlink("x", soft));
    does(unlink(soft));
    does(unlink(file));
}

static void basic(const char *directory) {
    char *tree = path(directory, "tree");
    does(mkdir(tree, 0755));
    make_tree(tree, 3);
    holds(remove_tree(path(directory, "tree")) == 75);
    attributes(directory);
    data(directory);
    links(directory);
    char name[32];
    does(mkdir(path(directory, "many"), 0755));
    char many[512];
    snprintf(many, sizeof many, "%s/many", directory);
    for (int number = 0; number < 500; number++) {
        snprintf(name, sizeof name, "a-name-of-some-length-%d", number);
        put(path(many, name), "");
    }
    holds(list(many, 0) == 500);
    fails(ENOTEMPTY, rmdir(many));
    holds(list(many, 1) == 500 && list(many, 0) == 0);
    does(rmdir(many));
    struct statvfs space;
    does(statvfs(directory, &space));
    holds(space.f_blocks > 0 && space.f_bfree <= space.f_blocks);
}

// --- general: several processes at once, as tools and compilers use a directory ---

static void work(const char *directory, int worker) {
    char own[512], name[64], text[64];
    snprintf(own, sizeof own, "%s/worker%d", directory, worker);
    does(mkdir(own, 0755));
    for (int round = 0; round < 20; round++) {
        snprintf(name, sizeof name, "object%d.part", round);
        snprintf(text, sizeof text, "worker %d, round %d", worker, round);
        put(path(own, name), text);
        char to[64];
        snprintf(to, sizeof to, "object%d", round);
        does(rename(path(own, name), path(own, to)));
        contains(path(own, to), text);
        int log = opened(path(own, "log"), O_WRONLY | O_CREAT | O_APPEND);
        holds(write(log, "line\n", 5) == 5);
        does(close(log));
        holds(status(path(own, "log")).st_size == (round + 1) * 5);
    }
    holds(remove_tree(own) == 21);
}

static void general(const char *directory) {
    enum { WORKERS = 4 };
    for (int worker = 0; worker < WORKERS; worker++) {
        pid_t child = fork();
        does(child);
        if (!child) {
            work(directory, worker);
            _exit(0);
        }
    }
    for (int worker = 0; worker < WORKERS; worker++) {
        int how;
        does(wait(&how));
        holds(how == 0);
    }
}

// --- special: what is hard for clients without state ---

static void special(const char *directory) {
    char *at = path(directory, "special"), *to = path(directory, "renamed");
    put(at, "open");
    int fd = opened(at, O_RDWR);
    does(unlink(at));
    has(fd, "open");
    holds(pwrite(fd, "shut", 4, 0) == 4);
    has(fd, "shut");
    does(close(fd));
    put(at, "open");
    fd = opened(at, O_RDWR);
    does(rename(at, to));
    holds(pwrite(fd, "move", 4, 0) == 4);
    does(close(fd));
    contains(to, "move");
    fd = opened(to, O_RDWR);
    does(chmod(to, 0));
    holds(pwrite(fd, "MODE", 4, 0) == 4);
    does(fsync(fd));
    does(close(fd));
    does(chmod(to, 0644));
    put(at, "replaced");
    does(rename(to, at));
    contains(at, "MODE");
    fails(EEXIST, open(at, O_CREAT | O_EXCL | O_RDWR, 0644));
    fails(EINVAL, lseek(fd = opened(at, O_RDWR), -1, SEEK_SET));
    // Holes, and offsets of more than 32 bits.
    does(ftruncate(fd, 0));
    off_t far = (off_t)5 << 30;
    holds(pwrite(fd, "far", 3, far) == 3);
    does(fsync(fd));
    char found[8] = "";
    holds(pread(fd, found, 3, far) == 3 && !strcmp(found, "far"));
    holds(pread(fd, found, 3, 1 << 20) == 3 && !found[0] && !found[2]);
    holds(status(at).st_size == far + 3);
    does(ftruncate(fd, 8192));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    holds(map != MAP_FAILED);
    strcpy(map, "mapped");
    does(msync(map, 8192, MS_SYNC));
    does(munmap(map, 8192));
    does(close(fd));
    contains(at, "mapped");
    does(unlink(at));
    does(mkfifo(at, 0600));
    holds(S_ISFIFO(status(at).st_mode));
    does(unlink(at));
    does(mkdir(at, 0755));
    fails(ENOTDIR, rename(at, (put(to, "file"), to)));
    does(unlink(to));
    does(rmdir(at));
}

// --- lock: ranges, between processes ---

static int lock(int fd, int command, int kind, off_t start, off_t length) {
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, command, &range);
}

// Run in a child, and wait for its end.
#define in_child(...)                                                                                                              \
    do {                                                                                                                           \
        pid_t child = fork();                                                                                                      \
        int how;                                                                                                                   \
        does(child);                                                                                                               \
        if (!child) {                                                                                                              \
            __VA_ARGS__;                                                                                                             \
            _exit(0);                                                                                                              \
        }                                                                                                                          \
        holds(waitpid(child, &how, 0) == child && how == 0);                                                                       \
    } while (0)

// A process that opens the file may read what is locked for reading.
static void shares(const char *at) {
    in_child({
        int own = opened(at, O_RDWR);
        does(lock(own, F_SETLK, F_RDLCK, 0, 0));
        fails(EAGAIN, lock(own, F_SETLK, F_WRLCK, 100, 1));
    });
}

// A lock for writing becomes one for reading.
static void downgrade(const char *at) {
    put(at, "locked");
    int fd = opened(at, O_RDWR);
    does(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    does(lock(fd, F_SETLK, F_RDLCK, 0, 0));
    shares(at);
    does(close(fd));
    does(unlink(at));
}

// Locks by a file in one view, seen by processes that open it in another (or the same).
static void locks(const char *at, const char *other) {
    put(at, "locked by ranges");
    int fd = opened(at, O_RDWR);
    does(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    in_child({
        int own = opened(other, O_RDWR);
        fails(EAGAIN, lock(own, F_SETLK, F_WRLCK, 5, 10));
        fails(EAGAIN, lock(own, F_SETLK, F_RDLCK, 0, 1));
        does(lock(own, F_SETLK, F_WRLCK, 10, 0));
        struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        does(fcntl(own, F_GETLK, &range));
        holds(range.l_type == F_WRLCK && range.l_start == 0 && range.l_len == 10);
    });
    // What the child had is free again.
    does(lock(fd, F_SETLK, F_WRLCK, 10, 0));
    does(lock(fd, F_SETLK, F_UNLCK, 4, 2));
    in_child({
        int own = opened(other, O_RDWR);
        does(lock(own, F_SETLK, F_WRLCK, 4, 2));
        fails(EAGAIN, lock(own, F_SETLK, F_WRLCK, 3, 2));
        fails(EAGAIN, lock(own, F_SETLK, F_WRLCK, 5, 2));
    });
    does(lock(fd, F_SETLK, F_UNLCK, 0, 0));
    does(lock(fd, F_SETLK, F_RDLCK, 0, 0));
    shares(other);
    // A process that waits gets the lock when it is released, and then sees what was written under it.
    does(lock(fd, F_SETLK, F_WRLCK, 0, 0));
    int ready[2], how;
    char byte;
    does(pipe(ready));
    pid_t waiter = fork();
    does(waiter);
    if (!waiter) {
        int own = opened(other, O_RDWR);
        has(own, "locked by ranges");
        holds(write(ready[1], "r", 1) == 1);
        does(lock(own, F_SETLKW, F_WRLCK, 0, 0));
        has(own, "LOCKED by ranges");
        _exit(0);
    }
    holds(read(ready[0], &byte, 1) == 1);
    holds(pwrite(fd, "LOCKED", 6, 0) == 6);
    does(lock(fd, F_SETLK, F_UNLCK, 0, 0));
    holds(waitpid(waiter, &how, 0) == waiter && how == 0);
    // Locks end with their process.
    pid_t victim = fork();
    does(victim);
    if (!victim) {
        does(lock(opened(other, O_RDWR), F_SETLK, F_WRLCK, 0, 0));
        holds(write(ready[1], "r", 1) == 1);
        pause();
    }
    holds(read(ready[0], &byte, 1) == 1);
    fails(EAGAIN, lock(fd, F_SETLK, F_WRLCK, 0, 0));
    does(kill(victim, SIGKILL));
    does(waitpid(victim, &how, 0));
    does(lock(fd, F_SETLKW, F_WRLCK, 0, 0));
    does(close(fd));
    does(unlink(at));
}

// --- two views of one directory: what is closed in one is seen by what is opened in the other ---

// A client may remember for a while that a name is missing. So no name is used twice.
static const char *name_of(const char *kind, int round) {
    static char room[2][64];
    static int next;
    char *at = room[next++ % 2];
    snprintf(at, sizeof room[0], "%s%d-%d", kind, round, getpid());
    return at;
}

static void race(const char *one, const char *other, const char *name) {
    int won[2];
    pid_t children[2];
    for (int child = 0; child < 2; child++) {
        children[child] = fork();
        does(children[child]);
        if (!children[child]) {
            int fd = open(path(child ? one : other, name), O_CREAT | O_EXCL | O_WRONLY, 0644);
            _exit(fd >= 0 ? 1 : errno == EEXIST ? 0 : 2);
        }
    }
    for (int child = 0; child < 2; child++) {
        does(waitpid(children[child], &won[child], 0));
        won[child] = WEXITSTATUS(won[child]);
    }
    holds(won[0] + won[1] == 1);
    does(unlink(path(won[1] ? one : other, name)));
}

static void two(const char *one, const char *other) {
    char text[64];
    for (int round = 0; round < 20; round++) {
        const char *from = round % 2 ? one : other, *to = round % 2 ? other : one;
        const char *name = name_of("file", round), *renamed = name_of("renamed", round);
        snprintf(text, sizeof text, "written in round %d", round);
        put(path(from, name), text);
        contains(path(to, name), text);
        int fd = opened(path(to, name), O_WRONLY | O_APPEND);
        holds(write(fd, ", appended", 10) == 10);
        does(close(fd));
        strcat(text, ", appended");
        contains(path(from, name), text);
        does(rename(path(from, name), path(from, renamed)));
        contains(path(to, renamed), text);
        put(path(to, renamed), "short");
        contains(path(from, renamed), "short");
        does(unlink(path(to, renamed)));
        fails(ENOENT, open(path(from, renamed), O_RDONLY));
        race(one, other, name_of("exclusive", round));
    }
    char at[512], there[512];
    for (int round = 0; round < 2; round++) {
        const char *name = name_of("locked", round);
        snprintf(at, sizeof at, "%s/%s", round ? one : other, name);
        snprintf(there, sizeof there, "%s/%s", round ? other : one, name);
        locks(at, there);
    }
}

// --- keep: files that are open while the server, its mount and its volume restart ---

static void keep(const char *directory, const char *go) {
    put(path(directory, "kept"), "kept");
    put(path(directory, "kept-removed"), "removed");
    put(path(directory, "kept-locked"), "locked");
    int kept = opened(path(directory, "kept"), O_RDWR), removed = opened(path(directory, "kept-removed"), O_RDWR);
    int locked = opened(path(directory, "kept-locked"), O_RDWR), below = opened(directory, O_RDONLY | O_DIRECTORY);
    does(lock(locked, F_SETLK, F_WRLCK, 0, 0));
    has(kept, "kept");
    printf("ready\n");
    fflush(stdout);
    while (access(go, F_OK)) usleep(50000);
    char found[8];
    holds(pwrite(kept, "KEPT", 4, 0) == 4);
    does(fsync(kept));
    has(kept, "KEPT");
    contains(path(directory, "kept"), "KEPT");
    int again = openat(below, "kept", O_RDONLY);
    does(again);
    has(again, "KEPT");
    // Removed on the server: whatever the client remembers, the server does not have it.
    posix_fadvise(removed, 0, 0, POSIX_FADV_DONTNEED);
    holds(pread(removed, found, 1, 0) < 0 && (errno == ESTALE || errno == EIO));
    fails(ENOENT, open(path(directory, "kept-removed"), O_RDONLY));
    in_child(fails(EAGAIN, lock(opened(path(directory, "kept-locked"), O_RDWR), F_SETLK, F_WRLCK, 0, 0)));
    does(lock(locked, F_SETLK, F_UNLCK, 0, 0));
    does(unlink(path(directory, "kept")));
    does(unlink(path(directory, "kept-locked")));
}

int main(int count, char **words) {
    const char *part = count > 2 ? words[1] : "";
    setvbuf(stderr, NULL, _IOLBF, 0);
    if (count == 3 && !strcmp(part, "basic")) basic(words[2]);
    else if (count == 3 && !strcmp(part, "general")) general(words[2]);
    else if (count == 3 && !strcmp(part, "special")) special(words[2]);
    else if (count == 3 && !strcmp(part, "lock")) locks(path(words[2], "locked"), path(words[2], "locked"));
    else if (count == 3 && !strcmp(part, "downgrade")) downgrade(path(words[2], "locked"));
    else if (count == 4 && !strcmp(part, "two")) two(words[2], words[3]);
    else if (count == 4 && !strcmp(part, "keep")) keep(words[2], words[3]);
    else {
        fprintf(stderr, "usage: nfs-checks basic|general|special|lock|downgrade DIR, two DIR OTHER, keep DIR GO\n");
        return 2;
    }
    printf("nfs-checks: %s: passed\n", part);
    return 0;
}
