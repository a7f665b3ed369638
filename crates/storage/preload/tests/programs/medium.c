// Media that fail under a program.
#include "rules.h"
#include <sys/sendfile.h>
#include <sys/xattr.h>

static volatile int faults;

static void count_fault(int signal) {
    faults++;
    _exit(100 + signal);
}

// The pools lose their end while their file is in use: every call says EIO, and no signal comes.
static void pool_cut_short_is_eio(void) {
    static char bytes[1 << 20], found[1 << 20];
    struct iovec parts[2] = {{found, 5000}, {found + 5000, 4000}};
    int fd = make("f", 0), other = make("other", 0);
    CHECK(signal(SIGBUS, count_fault) == SIG_DFL && signal(SIGSEGV, count_fault) == SIG_DFL);
    memset(bytes, 'x', sizeof bytes);
    CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
    put(other, "other");
    CHECK(pread(fd, found, sizeof found, 0) == sizeof found);
    CHECK(truncate(getenv("POOL0"), 8192) == 0 && truncate(getenv("POOL1"), 8192) == 0);
    for (int turn = 0; turn < 3; turn++) {
        CHECK(pread(fd, found, sizeof found, 0) == -1 && errno == EIO);
        CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, found, 10) == -1 && errno == EIO);
        CHECK(preadv(fd, parts, 2, 4096) == -1 && errno == EIO);
        CHECK(pwrite(fd, bytes, 10, 0) == -1 && errno == EIO);
        CHECK(write(fd, bytes, 4096) == -1 && errno == EIO);
        CHECK(pwrite(other, bytes, 4096, 1 << 20) == -1 && errno == EIO);
        CHECK(ftruncate(fd, 5) == -1 && errno == EIO);
    }
    CHECK(close(fd) == 0 && close(other) == 0);
    CHECK(open("new", O_RDWR | O_CREAT, 0644) == -1 && errno == EIO);
    CHECK(faults == 0);
}

static const char mark[] = "the only place in the pools where this is written";

// Flips a bit of the marked block where it is in the pools; again, and it is as before.
static void flip_mark(void) {
    static char block[4096];
    const char *pools[2] = {getenv("POOL0"), getenv("POOL1")};
    int found = 0;
    for (int at = 0; at < 2; at++) {
        int pool = open(pools[at], O_RDWR);
        CHECK(pool >= 0);
        for (off_t from = 0; (from = lseek(pool, from, SEEK_DATA)) >= 0; from += sizeof block) {
            CHECK(pread(pool, block, sizeof block, from) == sizeof block);
            if (memcmp(block + 5, mark, sizeof mark) == 0) {
                block[4095] ^= 1;
                CHECK(pwrite(pool, block + 4095, 1, from + 4095) == 1);
                found++;
            }
        }
        CHECK(close(pool) == 0);
    }
    CHECK(found == 1);
}

// A block of a file with checksums changes on the media: every call that needs it says EIO, others do not notice.
static void data_that_does_not_match_is_eio(void) {
    static char bytes[1 << 20], found[1 << 20];
    const off_t bad = 77 * 4096;
    struct iovec parts[2] = {{found, 5000}, {found + 5000, 4000}};
    CHECK(mkdir("checked", 0755) == 0);
    CHECK(setxattr("checked", "user.egeria.checksum", "crc32c", 6, 0) == 0);
    int fd = make("checked/f", 0), other = make("other", 0);
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes + bad + 5, mark, sizeof mark);
    CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
    CHECK(pread(fd, found, sizeof found, 0) == sizeof found && !memcmp(bytes, found, sizeof found));
    flip_mark();
    for (int turn = 0; turn < 3; turn++) {
        CHECK(pread(fd, found, 1, bad) == -1 && errno == EIO);
        CHECK(pread(fd, found, 4096, bad) == -1 && errno == EIO);
        CHECK(pread(fd, found, sizeof found, 0) == -1 && errno == EIO);
        CHECK(lseek(fd, bad, SEEK_SET) == bad && read(fd, found, 10) == -1 && errno == EIO);
        CHECK(lseek(fd, 0, SEEK_CUR) == bad);
        CHECK(preadv(fd, parts, 2, bad - 4096) == -1 && errno == EIO);
        CHECK(pwrite(fd, "x", 1, bad) == -1 && errno == EIO);
        CHECK(pread(fd, found, 4096, bad - 4096) == 4096 && pread(fd, found, 4096, bad + 4096) == 4096);
    }
    off_t from = bad;
    CHECK(copy_file_range(fd, &from, other, NULL, 4096, 0) == -1 && errno == EIO && from == bad);
    CHECK(sendfile(other, fd, &from, 4096) == -1 && errno == EIO && from == bad);
    flip_mark();
    CHECK(pread(fd, found, sizeof found, 0) == sizeof found && !memcmp(bytes, found, sizeof found));
    flip_mark();
    CHECK(pwrite(fd, bytes, 4096, bad) == 4096);
    CHECK(pread(fd, found, sizeof found, 0) == sizeof found && found[bad] == 'x');
    CHECK(close(fd) == 0 && close(other) == 0);
}

static const struct rule rules[] = {
    {"data_that_does_not_match_is_eio", data_that_does_not_match_is_eio},
    {"pool_cut_short_is_eio", pool_cut_short_is_eio},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
