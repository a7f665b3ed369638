// Media that fail under a program.
#include "rules.h"

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

static const struct rule rules[] = {
    {"pool_cut_short_is_eio", pool_cut_short_is_eio},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
