// Each call of the data path, in all of its forms; streams; maps; copies.
#include "rules.h"
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);

static void vectors(void) {
    char a[4] = {0}, b[8] = {0}, big[3000];
    struct iovec out[3] = {{"one", 3}, {NULL, 0}, {"four5", 5}}, in[2] = {{a, 3}, {b, 7}};
    int fd = make("f", 0);
    CHECK(writev(fd, out, 3) == 8 && lseek(fd, 0, SEEK_CUR) == 8);
    holds("f", "onefour5");
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(readv(fd, in, 2) == 8 && strcmp(a, "one") == 0 && strcmp(b, "four5") == 0);
    CHECK(readv(fd, in, 2) == 0 && readv(fd, in, 0) == 0);
    CHECK(pwritev(fd, out, 3, 5) == 8 && pwritev64(fd, out + 2, 1, 20) == 5);
    memset(b, 0, sizeof b);
    CHECK(preadv(fd, in, 2, 5) == 10 && strcmp(a, "one") == 0 && memcmp(b, "four5\0\0", 7) == 0);
    CHECK(preadv64(fd, in, 1, 20) == 3 && strcmp(a, "fou") == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == 8);
    CHECK(preadv2(fd, in, 1, 0, 0) == 3 && strcmp(a, "one") == 0 && lseek(fd, 0, SEEK_CUR) == 8);
    CHECK(pwritev2(fd, out, 1, 1, RWF_DSYNC | RWF_SYNC) == 3);
    CHECK(lseek(fd, 2, SEEK_SET) == 2);
    CHECK(pwritev2(fd, out, 1, -1, 0) == 3 && lseek(fd, 0, SEEK_CUR) == 5);
    CHECK(preadv2(fd, in, 1, -1, 0) == 3 && lseek(fd, 0, SEEK_CUR) == 8);
    CHECK(pwritev2(fd, out, 1, 0, RWF_APPEND) == 3 && lseek(fd, 0, SEEK_END) == 28);
    CHECK(pwritev2(fd, out, 1, 0, 0x40000000) == -1 && errno == EOPNOTSUPP);
    CHECK(writev(fd, out, -1) == -1 && errno == EINVAL);
    CHECK(writev(fd, out, 1025) == -1 && errno == EINVAL);
    static struct iovec many[1000];
    for (int i = 0; i < 1000; i++)
        many[i] = (struct iovec){big, sizeof big};
    memset(big, 'b', sizeof big);
    CHECK(pwritev(fd, many, 1000, 0) == 3000000);
    CHECK(pread(fd, a, 1, 2999999) == 1 && a[0] == 'b');
}

static void fortified_and_other_names(void) {
    char text[8] = {0};
    int fd = open64("f", O_RDWR | O_CREAT, 0644), status;
    CHECK(fd >= 0 && pwrite64(fd, "abcdef", 6, 0) == 6);
    CHECK(__read_chk(fd, text, 3, sizeof text) == 3 && strcmp(text, "abc") == 0);
    CHECK(__pread_chk(fd, text, 3, 3, sizeof text) == 3 && strcmp(text, "def") == 0);
    CHECK(__pread64_chk(fd, text, 3, 1, sizeof text) == 3 && strcmp(text, "bcd") == 0);
    CHECK(pread64(fd, text, 2, 4) == 2 && memcmp(text, "ef", 2) == 0);
    CHECK(lseek64(fd, 0, SEEK_CUR) == 3 && syscall(SYS_read, fd, text, 3) == 3);
    CHECK(syscall(SYS_pread64, fd, text, 3, 0) == 3 && memcmp(text, "abc", 3) == 0);
    CHECK(creat("g", 0644) == fd + 1 && write(fd + 1, "g", 1) == 1);
    pid_t child = fork();
    if (child == 0) {
        close(2);
        __read_chk(fd, text, 9, sizeof text);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void syncs_are_done_already(void) {
    int fd = make("f", 0);
    for (int i = 0; i < 100; i++) {
        CHECK(pwrite(fd, "x", 1, i) == 1);
        CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
        CHECK(sync_file_range(fd, 0, 1, SYNC_FILE_RANGE_WRITE) == 0);
    }
    CHECK(sync_file_range(fd, -1, 1, 0) == -1 && errno == EINVAL);
}

static void store_in_a_hole(const char *name) {
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    map[0] = 's';
    // The page is written back, which does not go well.
    CHECK(munmap(map, 4096) == 0);
    CHECK(close(fd) == -1 && errno == ENOSPC);
}

static void lost_stores_are_told_once(void) {
    static char data[1 << 20];
    int one = make("f", 0), two, filler = make("filler", 0);
    CHECK(ftruncate(one, 4096) == 0);
    while (write(filler, data, sizeof data) == sizeof data || write(filler, data, 4096) == 4096)
        ;
    CHECK(errno == ENOSPC);
    CHECK((two = open("f", O_RDONLY)) >= 0);
    store_in_a_hole("f");
    CHECK(fsync(one) == -1 && errno == ENOSPC && fsync(one) == 0);
    CHECK(fdatasync(two) == -1 && errno == ENOSPC && fdatasync(two) == 0 && fsync(two) == 0);
    CHECK(close(two) == 0);
    // Somebody knows.
    CHECK((two = open("f", O_RDONLY)) >= 0 && fsync(two) == 0 && close(two) == 0 && close(one) == 0);
    store_in_a_hole("f");
    // Nobody does.
    CHECK((two = open("f", O_RDONLY)) >= 0 && fsync(two) == -1 && errno == ENOSPC && fsync(two) == 0);
    CHECK((one = open("f", O_RDONLY)) >= 0 && fsync(one) == 0);
}

static void advice_keeps_calls_direct(void) {
    int fd = make("f", 0);
    char byte;
    CHECK(pwrite(fd, "x", 1, 100000) == 1);
    CHECK(readahead(fd, 0, 100000) == 0);
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) == 0);
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    CHECK(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL) == EINVAL);
    CHECK(posix_fadvise(fd, 0, 0, 77) == EINVAL);
    for (int i = 0; i < 100; i++)
        CHECK(pread(fd, &byte, 1, i) == 1 && byte == 0);
}

static void copies_between_files(void) {
    static char block[700000], again[700000];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 7 + i / 1000);
    int from = make("f", 0), to = make("g", 0), third = make("h", 0);
    CHECK(write(from, block, sizeof block) == sizeof block);
    CHECK(lseek(from, 0, SEEK_SET) == 0);
    put(to, "head");
    off_t at = 100, there = 0;
    CHECK(copy_file_range(from, NULL, to, NULL, 10, 0) == 10);
    CHECK(lseek(from, 0, SEEK_CUR) == 10 && lseek(to, 0, SEEK_CUR) == 14);
    CHECK(copy_file_range(from, &at, to, NULL, 1 << 20, 0) == sizeof block - 100);
    CHECK(at == sizeof block && lseek(from, 0, SEEK_CUR) == 10);
    CHECK(pread(to, again, sizeof again, 14) == sizeof block - 100);
    CHECK(memcmp(again, block + 100, sizeof block - 100) == 0);
    CHECK(copy_file_range(from, &at, to, &there, 10, 0) == 0);
    CHECK(copy_file_range(from, NULL, to, NULL, 1, 77) == -1 && errno == EINVAL);
    at = 0;
    CHECK(sendfile(third, from, &at, sizeof block) == sizeof block && at == sizeof block);
    CHECK(lseek(third, 0, SEEK_CUR) == sizeof block && lseek(from, 0, SEEK_CUR) == 10);
    CHECK(pread(third, again, sizeof again, 0) == sizeof again);
    CHECK(memcmp(again, block, sizeof block) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0 && sendfile(ends[1], from, NULL, 5000) == 5000);
    CHECK(lseek(from, 0, SEEK_CUR) == 5010);
    CHECK(read(ends[0], again, 5000) == 5000 && memcmp(again, block + 10, 5000) == 0);
    int left;
    CHECK(ioctl(from, FIONREAD, &left) == 0 && left == sizeof block - 5010);
    CHECK(splice(from, NULL, ends[1], NULL, 100, 0) == 100 && lseek(from, 0, SEEK_CUR) == 5110);
    CHECK(read(ends[0], again, 100) == 100 && memcmp(again, block + 5010, 100) == 0);
}

static void streams_and_calls_together(void) {
    char text[32] = {0};
    FILE *stream = fopen("f", "w+");
    CHECK(stream && fputs("stream ", stream) >= 0 && fflush(stream) == 0);
    put(fileno(stream), "call ");
    CHECK(fseek(stream, 0, SEEK_END) == 0 && fputs("again", stream) >= 0 && fclose(stream) == 0);
    holds("f", "stream call again");
    int fd = make("g", 0);
    put(fd, "one ");
    CHECK(dprintf(fd, "%s %.1f %d ", "two", 2.5, 3) == 10);
    put(fd, "four ");
    stream = fdopen(fd, "r+");
    CHECK(fseek(stream, 0, SEEK_END) == 0 && fprintf(stream, "five ") == 5 && fflush(stream) == 0);
    put(fd, "six");
    CHECK(lseek(fd, 4, SEEK_SET) == 4 && read(fd, text, 3) == 3 && strcmp(text, "two") == 0);
    CHECK(fclose(stream) == 0);
    holds("g", "one two 2.5 3 four five six");
    stream = fopen("h", "w");
    CHECK(freopen("h", "a", stream) == stream && fputs("a", stream) >= 0 && fflush(stream) == 0);
    put(fileno(stream), "b");
    CHECK(fclose(stream) == 0);
    holds("h", "ab");
}

static void stderr_closed(void) {
    CHECK(close(2) == 0);
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    CHECK(fd == 2);
    put(fd, "only this");
    CHECK(pwrite(fd, "O", 1, 0) == 1 && lseek(fd, 0, SEEK_CUR) == 9);
    holds("f", "Only this");
}

static void mmap_of_hole(void) {
    int fd = make("f", 0);
    CHECK(pwrite(fd, "end", 3, 20000) == 3);
    char *map = mmap(NULL, 20003, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    for (int i = 0; i < 20000; i++)
        CHECK(map[i] == 0);
    CHECK(memcmp(map + 20000, "end", 3) == 0);
    strcpy(map + 4096, "by map");
    char text[8] = {0};
    CHECK(pread(fd, text, 6, 4096) == 6 && strcmp(text, "by map") == 0);
    CHECK(pwrite(fd, "by call", 7, 8192) == 7 && strcmp(map + 8192, "by call") == 0);
    CHECK(lseek(fd, 12288, SEEK_SET) == 12288);
    put(fd, "moving");
    CHECK(strcmp(map + 12288, "moving") == 0 && lseek(fd, 0, SEEK_CUR) == 12294);
    CHECK(msync(map, 20003, MS_SYNC) == 0 && fsync(fd) == 0);
    int other = open("f", O_RDONLY);
    CHECK(pread(other, text, 6, 4096) == 6 && strcmp(text, "by map") == 0);
    CHECK(munmap(map, 20003) == 0 && close(fd) == 0 && close(other) == 0);
    fd = open("f", O_RDWR);
    CHECK(pread(fd, text, 6, 4096) == 6 && strcmp(text, "by map") == 0);
    CHECK(pread(fd, text, 7, 8192) == 7 && strcmp(text, "by call") == 0);
}

// Says "written" for each block; the other side reads it at once, without this library.
static void writes_for_another_reader(void) {
    char block[4096], byte;
    int fd = make("shared", 0);
    for (int i = 0; i < 200; i++) {
        memset(block, 'a' + i % 26, sizeof block);
        CHECK(write(fd, block, sizeof block) == sizeof block);
        CHECK(write(1, "w", 1) == 1 && read(0, &byte, 1) == 1);
    }
}

static pthread_barrier_t barrier;

static void *begin(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "t%d", (int)(intptr_t)argument);
    int fd = make(name, 0);
    pthread_barrier_wait(&barrier);
    put(fd, name);
    holds(name, name);
    return NULL;
}

static void threads_begin_at_once(void) {
    pthread_t threads[16];
    CHECK(pthread_barrier_init(&barrier, NULL, 16) == 0);
    for (intptr_t t = 0; t < 16; t++)
        CHECK(pthread_create(&threads[t], NULL, begin, (void *)t) == 0);
    for (int t = 0; t < 16; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
}

static void *one_call(void *argument) {
    CHECK(pwrite((int)(intptr_t)argument, "x", 1, 0) == 1);
    return NULL;
}

// More threads, one after the other, than there are pins.
static void threads_come_and_go(void) {
    int fd = make("f", 0);
    for (int i = 0; i < 5000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, one_call, (void *)(intptr_t)fd) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void writes_until_killed(void) {
    char block[4096] = {0};
    char name[32];
    snprintf(name, sizeof name, "p%d", getpid());
    int fd = make(name, 0);
    CHECK(write(1, "s", 1) == 1);
    for (;;)
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
}

static void writes_a_little(void) {
    int fd = make("little", 0);
    for (int i = 0; i < 100; i++)
        CHECK(pwrite(fd, "little", 6, i * 6) == 6);
    holds("little", "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittlelittle"
                    "littlelittlelittlelittlelittlelittlelittlelittlelittle");
}

static mode_t mode_of(const char *name) {
    struct stat status;
    CHECK(stat(name, &status) == 0);
    return status.st_mode & 07777;
}

// Each way to change a file's content, by a process without CAP_FSETID: the argument says which bits are left.
static void changes_leave(mode_t left) {
    const char capability[20] = {1, 0, 0, 2, 0, 0x20};
    char block[4096] = {0}, name[2] = "a";
    for (int way = 0; way < 6; way++, name[0]++) {
        int fd = open(name, O_RDWR | O_CREAT, 0777);
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
        CHECK(setxattr(name, "security.capability", capability, sizeof capability, 0) == 0);
        CHECK(chmod(name, 06777) == 0);
        switch (way) {
        case 0: CHECK(pwrite(fd, "x", 1, 10) == 1); break;
        case 1: CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block); break;
        case 2: CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && write(fd, "x", 1) == 1); break;
        case 3: CHECK(ftruncate(fd, 10) == 0); break;
        case 4: CHECK(truncate(name, 10) == 0); break;
        case 5: CHECK(close(open(name, O_WRONLY | O_TRUNC)) == 0); break;
        }
        CHECK(mode_of(name) == left);
        CHECK(getxattr(name, "security.capability", NULL, 0) == -1 && errno == ENODATA);
        CHECK(close(fd) == 0);
    }
}

static void set_ids_go_without_the_capability(void) { changes_leave(0777); }

static void set_ids_stay_with_the_capability(void) { changes_leave(06777); }

static const struct rule rules[] = {
    {"set_ids_go_without_the_capability", set_ids_go_without_the_capability},
    {"set_ids_stay_with_the_capability", set_ids_stay_with_the_capability},
    {"vectors", vectors},
    {"fortified_and_other_names", fortified_and_other_names},
    {"syncs_are_done_already", syncs_are_done_already},
    {"lost_stores_are_told_once", lost_stores_are_told_once},
    {"advice_keeps_calls_direct", advice_keeps_calls_direct},
    {"copies_between_files", copies_between_files},
    {"streams_and_calls_together", streams_and_calls_together},
    {"stderr_closed", stderr_closed},
    {"mmap_of_hole", mmap_of_hole},
    {"writes_for_another_reader", writes_for_another_reader},
    {"threads_begin_at_once", threads_begin_at_once},
    {"threads_come_and_go", threads_come_and_go},
    {"writes_until_killed", writes_until_killed},
    {"writes_a_little", writes_a_little},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
