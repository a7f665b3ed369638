// Directories read without the kernel, and what the kernel must see of them.
#include "rules.h"
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <poll.h>

#define ROUNDS 200
#define NAMES 1000

static void file(const char *name) { CHECK(close(make(name, 0)) == 0); }

static void fill(const char *directory, int count) {
    char name[64];
    CHECK(mkdir(directory, 0755) == 0);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/n%04d", directory, i);
        file(name);
    }
}

// How many entries are left.
static int rest(DIR *stream) {
    int count = 0;
    errno = 0;
    while (readdir(stream))
        count++;
    CHECK(errno == 0);
    return count;
}

// As find does it, with every call that it makes.
static void walk(int at, const char *name, int *files) {
    struct stat facts;
    int fd = openat(at, name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode));
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    CHECK(copy >= 0);
    DIR *stream = fdopendir(copy);
    CHECK(stream && dirfd(stream) == copy);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") == 0) {
            CHECK(entry->d_ino == facts.st_ino && entry->d_type == DT_DIR);
            continue;
        }
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        CHECK(fstatat(fd, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && facts.st_ino == entry->d_ino);
        if (entry->d_type == DT_DIR)
            walk(fd, entry->d_name, files);
        else
            *files += 1;
        CHECK(fstat(fd, &facts) == 0);
    }
    CHECK(closedir(stream) == 0 && close(fd) == 0);
}

static void listing_costs_no_requests(void) {
    int files = 0, found = 0;
    struct dirent **list;
    fill("d", NAMES);
    fill("d/e", 10);
    for (int i = 0; i < ROUNDS; i++) {
        walk(AT_FDCWD, ".", &files);
        DIR *stream = opendir("d");
        CHECK(stream && rest(stream) == NAMES + 3);
        rewinddir(stream);
        CHECK(rest(stream) == NAMES + 3 && closedir(stream) == 0);
        CHECK(scandir("d/e", &list, NULL, alphasort) == 12 && strcmp(list[11]->d_name, "n0009") == 0);
        for (int at = 0; at < 12; at++)
            free(list[at]);
        free(list);
        CHECK(opendir("none") == NULL && errno == ENOENT);
        found++;
    }
    CHECK(found == ROUNDS && files == ROUNDS * (NAMES + 10));
}

static int begins_with_n(const struct dirent *entry) { return entry->d_name[0] == 'n'; }

static int backwards(const struct dirent **one, const struct dirent **other) {
    return strcmp((*other)->d_name, (*one)->d_name);
}

static void libc_and_the_library_read_the_same(void) {
    struct dirent **list, entry, *next;
    char buffer[4096], name[300], *paths[] = {"d", NULL};
    fill("d", 300);
    memset(name, 'x', 255);
    name[255] = 0;
    CHECK(chdir("d") == 0);
    file(name);
    CHECK(chdir("..") == 0);
    CHECK(scandirat(AT_FDCWD, "d", &list, begins_with_n, backwards) == 300);
    CHECK(strcmp(list[0]->d_name, "n0299") == 0 && strcmp(list[299]->d_name, "n0000") == 0);
    // A stream of libc's own, made inside it.
    glob_t paths_found;
    CHECK(glob("d/n*", 0, NULL, &paths_found) == 0 && paths_found.gl_pathc == 300);
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int count = 0;
    for (FTSENT *found; (found = fts_read(tree));)
        count += found->fts_info == FTS_F;
    CHECK(count == 301 && fts_close(tree) == 0);
    DIR *stream = opendir("d");
    CHECK(stream);
    for (count = 0; readdir_r(stream, &entry, &next) == 0 && next; count++)
        CHECK(next == &entry && entry.d_reclen >= 24 && strlen(entry.d_name) < 256);
    CHECK(count == 303 && closedir(stream) == 0);
    int fd = open("d", O_RDONLY | O_DIRECTORY);
    ssize_t bytes = getdents64(fd, buffer, sizeof buffer), all = 0;
    CHECK(bytes > 4000 && syscall(SYS_getdents64, fd, (void *)8, 4096) == -1 && errno == EFAULT);
    for (all = bytes; (bytes = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0; all += bytes)
        ;
    CHECK(bytes == 0 && all == 24 + 24 + 300 * 32 + 280);
    CHECK(read(fd, buffer, 1) == -1 && errno == EISDIR && pread(fd, buffer, 1, 0) == -1 && errno == EISDIR);
    CHECK(write(fd, buffer, 1) == -1 && errno == EBADF && ftruncate(fd, 0) == -1 && errno == EINVAL);
    CHECK(close(fd) == 0 && open("d", O_WRONLY) == -1 && errno == EISDIR);
    CHECK(open("d", O_RDWR | O_CREAT, 0600) == -1 && errno == EISDIR);
    CHECK(open("d", O_RDONLY | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
    CHECK(open("d/n0000", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
    CHECK(symlink("d", "l") == 0 && open("l", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) == -1 && errno == ENOTDIR);
    CHECK(open("l", O_PATH | O_DIRECTORY | O_NOFOLLOW) == -1 && errno == ENOTDIR);
    CHECK(close(open("l", O_PATH | O_DIRECTORY)) == 0 && open("none", O_PATH | O_DIRECTORY) == -1 && errno == ENOENT);
    CHECK(opendir("d/n0000") == NULL && errno == ENOTDIR && opendir("") == NULL && errno == ENOENT);
    CHECK(scandir("d/none", &list, NULL, NULL) == -1 && errno == ENOENT);
    // Not a directory.
    CHECK(fdopendir(fd = open("d/n0000", O_RDONLY)) == NULL && errno == ENOTDIR && close(fd) == 0);
    CHECK(closedir(NULL) == -1 && errno == EINVAL);
}

static void positions_are_shared_with_the_kernel(void) {
    fill("d", 500);
    DIR *stream = opendir("d");
    CHECK(stream && telldir(stream) == 0 && readdir(stream));
    long second = telldir(stream);
    char name[256];
    struct dirent *entry = readdir(stream);
    strcpy(name, entry->d_name);
    for (int i = 0; i < 100; i++)
        CHECK(readdir(stream));
    long place = telldir(stream);
    entry = readdir(stream);
    char later[256];
    strcpy(later, entry->d_name);
    seekdir(stream, second);
    CHECK(strcmp(readdir(stream)->d_name, name) == 0);
    // The descriptor is the kernel's from here on.
    char buffer[1024];
    CHECK(syscall(SYS_lseek, dirfd(stream), place, SEEK_SET) == place);
    CHECK(syscall(SYS_getdents64, dirfd(stream), buffer, sizeof buffer) > 0);
    CHECK(strcmp(((struct dirent *)buffer)->d_name, later) == 0);
    seekdir(stream, place);
    CHECK(strcmp(readdir(stream)->d_name, later) == 0 && rest(stream) == 502 - 103);
    rewinddir(stream);
    CHECK(rest(stream) == 502 && closedir(stream) == 0);
    // A stream begins where its descriptor is.
    int fd = open("d", O_RDONLY);
    CHECK(lseek(fd, place, SEEK_SET) == place && lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
    CHECK((stream = fdopendir(fd)) && strcmp(readdir(stream)->d_name, later) == 0);
    CHECK(closedir(stream) == 0 && fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    // Copies share it.
    fd = open("d", O_RDONLY);
    int copy = dup(fd);
    CHECK(lseek(copy, place, SEEK_SET) == place && lseek(fd, 0, SEEK_CUR) == place);
    CHECK(getdents64(fd, buffer, sizeof buffer) > 0 && lseek(copy, 0, SEEK_CUR) > place);
    CHECK(close(copy) == 0 && close(fd) == 0);
}

static void every_call_sees_the_directory(void) {
    char path[64], found[4096] = {0};
    struct stat facts, same;
    fill("d", 3);
    CHECK(mkdir("d/e", 0755) == 0 && stat("d", &same) == 0);
    for (int i = 0; i < 11; i++) {
        int fd = open("d", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && fcntl(fd, F_GETFL) == 0100000 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        switch (i) {
        case 0:
            CHECK(fchdir(fd) == 0 && access("n0001", F_OK) == 0 && chdir("..") == 0);
            break;
        case 1:
            CHECK(chdir(path) == 0 && access("n0001", F_OK) == 0 && chdir("..") == 0);
            break;
        case 2:
            CHECK(readlink(path, found, sizeof found - 1) > 0 && strcmp(strrchr(found, '/'), "/d") == 0);
            break;
        case 3:
            CHECK(mknodat(fd, "node", S_IFREG | 0600, 0) == 0 && unlinkat(fd, "node", 0) == 0);
            CHECK(mkfifoat(fd, "fifo", 0600) == 0 && unlinkat(fd, "fifo", 0) == 0);
            break;
        case 4:
            CHECK(syscall(SYS_openat, fd, "n0000", O_RDONLY) >= 0);
            break;
        case 5:
            CHECK(renameat2(fd, "n0000", fd, "n0001", RENAME_EXCHANGE) == 0);
            break;
        case 6:
            CHECK(linkat(fd, "n0000", fd, "linked", 0) == 0 && unlinkat(fd, "linked", 0) == 0);
            CHECK(mkdirat(fd, "new", 0700) == 0 && unlinkat(fd, "new", AT_REMOVEDIR) == 0);
            CHECK(openat(fd, "e", O_RDONLY | O_PATH) >= 0 && faccessat(fd, "e", X_OK, 0) == 0);
            break;
        case 7:
            CHECK(fsync(fd) == 0 && fchmod(fd, 0700) == 0 && futimens(fd, NULL) == 0);
            CHECK(fstat(fd, &facts) == 0 && (facts.st_mode & 07777) == 0700 && fchmod(fd, 0755) == 0);
            break;
        case 8: {
            struct pollfd entry = {fd, POLLIN, 0};
            CHECK(poll(&entry, 1, 0) == 1);
            DIR *stream = opendir(path);
            CHECK(stream && rest(stream) == 6 && closedir(stream) == 0);
            break;
        }
        case 9:
            CHECK(openat(fd, "..", O_RDONLY | O_DIRECTORY) >= 0 && openat(fd, ".", O_RDONLY) >= 0);
            CHECK(rename("d", "moved") == 0 && mkdir("d", 0700) == 0);
            CHECK(fchdir(fd) == 0 && access("n0001", F_OK) == 0 && chdir("..") == 0);
            CHECK(rmdir("d") == 0 && rename("moved", "d") == 0);
            break;
        default:
            CHECK(openat(fd, "n0001/", O_RDONLY) == -1 && errno == ENOTDIR);
            CHECK(syscall(SYS_fchdir, fd) == 0 && chdir("..") == 0);
        }
        CHECK(syscall(SYS_fstat, fd, &facts) == 0 && facts.st_ino == same.st_ino && close(fd) == 0);
    }
}

// Places for paths alone.
static void paths_begin_at_places(void) {
    char buffer[64];
    struct stat facts, same;
    fill("d", 3);
    CHECK(mkdir("d/e", 0755) == 0 && mkdir("d/e/f", 0755) == 0 && stat("d", &same) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int d = openat(AT_FDCWD, "d", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), e = openat(d, "e", O_PATH | O_DIRECTORY);
        int f = openat(e, "f", O_PATH | O_DIRECTORY), up = openat(f, "..", O_PATH | O_DIRECTORY);
        CHECK(fcntl(d, F_GETFL) == (O_PATH | O_DIRECTORY | O_NOFOLLOW) && fcntl(d, F_GETFD) == FD_CLOEXEC);
        CHECK(fstat(d, &facts) == 0 && facts.st_ino == same.st_ino && openat(d, "n0000", O_PATH | O_DIRECTORY) == -1);
        int file = openat(d, "n0000", O_RDONLY | O_NOFOLLOW), copy = dup(d);
        CHECK(errno == ENOTDIR && file >= 0 && close(file) == 0 && fstatat(copy, "n0001", &facts, 0) == 0);
        CHECK(fstatat(up, "f", &facts, 0) == 0 && close(up) == 0 && close(f) == 0 && close(e) == 0);
        CHECK(close(d) == 0 && fstatat(copy, "e", &facts, 0) == 0 && close(copy) == 0);
    }
    for (int i = 0; i < 12; i++) {
        int d = open("d", O_PATH | O_DIRECTORY), answer = -1;
        errno = 0;
        switch (i) {
        case 0: answer = read(d, buffer, 1); break;
        case 1: answer = getdents64(d, buffer, sizeof buffer); break;
        case 2: answer = lseek(d, 0, SEEK_SET); break;
        case 3: answer = fsync(d); break;
        case 4: answer = fchmod(d, 0700); break;
        case 5: answer = fchown(d, 1, 1); break;
        case 6: answer = futimens(d, NULL); break;
        case 7: answer = fgetxattr(d, "user.a", buffer, 1); break;
        case 8: answer = flistxattr(d, buffer, 1); break;
        case 9: answer = fcntl(d, F_SETFL, O_NONBLOCK); break;
        case 10: answer = ftruncate(d, 0); break;
        default: answer = write(d, buffer, 1);
        }
        CHECK(answer == -1 && errno == EBADF && fchdir(d) == 0 && access("n0001", F_OK) == 0);
        CHECK(chdir("..") == 0 && fstat(d, &facts) == 0 && facts.st_ino == same.st_ino);
        CHECK((facts.st_mode & 07777) == 0755 && facts.st_uid == same.st_uid);
        CHECK(syscall(SYS_fstat, d, &facts) == 0 && facts.st_ino == same.st_ino && close(d) == 0);
    }
    int d = open("d", O_PATH | O_DIRECTORY);
    pid_t child = fork();
    if (child == 0) {
        CHECK(fstatat(d, "n0000", &facts, 0) == 0 && fcntl(d, F_GETFL) & O_PATH && fchdir(d) == 0);
        _exit(0);
    }
    ended_well(child);
    CHECK(rename("d", "moved") == 0 && openat(d, "n0000", O_RDONLY) >= 0);
}

static void children_go_on_reading(void) {
    fill("d", NAMES);
    DIR *stream = opendir("d"), *begun = opendir("d");
    for (int i = 0; i < 10; i++)
        CHECK(readdir(begun));
    pid_t child = fork();
    if (child == 0) {
        CHECK(rest(stream) == NAMES + 2 && rest(begun) == NAMES - 8);
        rewinddir(begun);
        CHECK(rest(begun) == NAMES + 2 && closedir(stream) == 0 && closedir(begun) == 0);
        _exit(0);
    }
    ended_well(child);
    CHECK(closedir(stream) == 0 && closedir(begun) == 0);
    // A program started in the middle does not make the stream longer.
    stream = opendir("d");
    int count = 0;
    char name[300], new[300];
    for (struct dirent *entry; (entry = readdir(stream)); count++) {
        CHECK(count <= NAMES + 2);
        if (count == 5)
            CHECK(system("EGERIA_PRELOAD=off true") == 0);
        if (entry->d_name[0] == 'n') {
            snprintf(name, sizeof name, "d/%s", entry->d_name);
            snprintf(new, sizeof new, "d/x%d", count);
            CHECK(rename(name, new) == 0);
        }
    }
    CHECK(count == NAMES + 2 && closedir(stream) == 0);
}

static void removed_ones_end(void) {
    struct stat facts;
    fill("d", 1);
    DIR *stream = opendir("d");
    int fd = open("d", O_RDONLY);
    CHECK(unlink("d/n0000") == 0 && rmdir("d") == 0 && mkdir("d", 0700) == 0);
    file("d/other");
    CHECK(rest(stream) == 0 && fstat(dirfd(stream), &facts) == 0 && facts.st_nlink == 0);
    rewinddir(stream);
    CHECK(rest(stream) == 0 && openat(fd, "new", O_CREAT | O_RDWR, 0600) == -1 && errno == ENOENT);
    CHECK(fstat(fd, &facts) == 0 && facts.st_nlink == 0 && fchdir(fd) == 0 && closedir(stream) == 0);
}

static void limits_hold(void) {
    struct rlimit limit = {20, 20};
    DIR *streams[32];
    int count = 0;
    CHECK(mkdir("d", 0700) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((streams[count] = opendir("d")))
        count++;
    CHECK(errno == EMFILE && count > 5 && dirfd(streams[count - 1]) == 19);
    CHECK(closedir(streams[0]) == 0 && (streams[0] = opendir("d")));
    for (int i = 0; i < count; i++)
        CHECK(rest(streams[i]) == 2 && closedir(streams[i]) == 0);
    // Used after it was closed: an error, and no harm.
    CHECK(readdir(streams[0]) == NULL && closedir(streams[0]) == -1 && errno == EBADF);
}

static DIR *shared;
static pthread_barrier_t both_are_here;
static long read_of_shared, begun;

static void *reads(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        DIR *stream = opendir("d");
        CHECK(stream && rest(stream) == 102 && closedir(stream) == 0);
    }
    // Each entry goes to one of two.
    for (int i = 0; argument && i < 40; i++) {
        long count = 0;
        // Who waits asleep would come too late.
        __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
        for (long spins = 0; __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 2 * (i + 1); spins++)
            if (spins > 10000)
                sched_yield();
        while (readdir(shared))
            count++;
        __atomic_fetch_add(&read_of_shared, count, __ATOMIC_RELAXED);
        if (pthread_barrier_wait(&both_are_here) == PTHREAD_BARRIER_SERIAL_THREAD) {
            CHECK(__atomic_exchange_n(&read_of_shared, 0, __ATOMIC_RELAXED) == 9 * NAMES + 2);
            rewinddir(shared);
        }
        pthread_barrier_wait(&both_are_here);
    }
    return NULL;
}

static void threads_read(void) {
    pthread_t threads[4];
    fill("d", 100);
    fill("e", 9 * NAMES);
    CHECK((shared = opendir("e")) && pthread_barrier_init(&both_are_here, NULL, 2) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, reads, i < 2 ? "shared" : NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(closedir(shared) == 0);
}

// Without the rights of root: reads what may be read, and no more.
static void rights_hold(void) {
    DIR *stream = opendir("open");
    CHECK(stream && rest(stream) == 2 && closedir(stream) == 0);
    CHECK(opendir("unreadable") == NULL && errno == EACCES);
    CHECK(open("unreadable", O_RDONLY | O_DIRECTORY) == -1 && errno == EACCES);
    CHECK(opendir("closed/inner") == NULL && errno == EACCES && access("unreadable/inner", F_OK) == 0);
    CHECK((stream = opendir("unreadable/inner")) && closedir(stream) == 0);
    int place = open("unreadable", O_PATH | O_DIRECTORY);
    CHECK(place >= 0 && openat(place, "inner", O_RDONLY | O_DIRECTORY) >= 0 && close(place) == 0);
    int fd = open("unsearchable", O_RDONLY | O_DIRECTORY);
    struct stat facts;
    CHECK(fd >= 0 && (stream = fdopendir(fd)) && rest(stream) == 3);
    CHECK(fstatat(fd, "inner", &facts, 0) == -1 && errno == EACCES);
    CHECK(openat(fd, "inner", O_RDONLY) == -1 && errno == EACCES);
}

// Of the volume nothing stays but what is open.
// Deeper than the kernel follows in one call.
static void deep_ones_are_seen(void) {
    enum { DEPTH = 60 };
    char name[101];
    int fds[DEPTH + 1] = {open(".", O_PATH | O_DIRECTORY)};
    memset(name, 'd', 100);
    name[100] = 0;
    for (int i = 0; i < DEPTH; i++) {
        CHECK(mkdirat(fds[i], name, 0755) == 0);
        fds[i + 1] = openat(fds[i], name, i % 2 ? O_RDONLY | O_DIRECTORY : O_PATH | O_DIRECTORY);
        CHECK(fds[i + 1] >= 0);
    }
    for (int i = DEPTH; i > 0; i--) {
        CHECK(mkfifoat(fds[i], "fifo", 0600) == 0 && unlinkat(fds[i], "fifo", 0) == 0);
        CHECK(fchmodat(fds[i - 1], name, 0700, 0) == 0);
    }
    CHECK(fchdir(fds[DEPTH]) == 0);
    file("f");
    CHECK(unlinkat(fds[DEPTH], "f", 0) == 0 && fchdir(fds[0]) == 0);
    for (int i = DEPTH; i > 0; i--)
        CHECK(unlinkat(fds[i - 1], name, AT_REMOVEDIR) == 0 && close(fds[i]) == 0);
}

static void rights_may_go(void) {
    struct stat facts, same;
    fill("d", NAMES);
    DIR *begun = opendir("d"), *stream = opendir("d");
    int fd = open("d", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 10; i++)
        CHECK(readdir(begun));
    CHECK(fstat(fd, &same) == 0 && setresuid(65534, 65534, 65534) == 0);
    CHECK(rest(begun) == NAMES - 8 && rest(stream) == NAMES + 2);
    CHECK(fstat(fd, &facts) == 0 && facts.st_ino == same.st_ino && fstat(dirfd(begun), &facts) == 0);
    rewinddir(begun);
    CHECK(rest(begun) == NAMES + 2 && closedir(begun) == 0 && closedir(stream) == 0 && close(fd) == 0);
}

static const struct rule rules[] = {
    {"listing_costs_no_requests", listing_costs_no_requests},
    {"libc_and_the_library_read_the_same", libc_and_the_library_read_the_same},
    {"positions_are_shared_with_the_kernel", positions_are_shared_with_the_kernel},
    {"every_call_sees_the_directory", every_call_sees_the_directory},
    {"paths_begin_at_places", paths_begin_at_places},
    {"children_go_on_reading", children_go_on_reading},
    {"removed_ones_end", removed_ones_end},
    {"limits_hold", limits_hold},
    {"threads_read", threads_read},
    {"rights_hold", rights_hold},
    {"deep_ones_are_seen", deep_ones_are_seen},
    {"rights_may_go", rights_may_go},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
