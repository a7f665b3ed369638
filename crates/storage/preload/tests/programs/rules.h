// What every test program shares: checks that name their line, and rules chosen by name.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition,   \
                    errno, strerror(errno));                                                \
            _exit(1);                                                                       \
        }                                                                                   \
    } while (0)

struct rule {
    const char *name;
    void (*run)(void);
};

// Past the library. Inlined, so that the number is plain: code that may close numbers so has each call checked.
__attribute__((always_inline)) static inline long kernel(long number, long one, long two, long three, long four) {
    long answer;
    register long fourth asm("r10") = four;
    asm volatile("syscall"
                 : "=a"(answer)
                 : "a"(number), "D"(one), "S"(two), "d"(three), "r"(fourth)
                 : "rcx", "r11", "memory");
    return answer;
}

// A new file to read and write, in the working directory, which is on the mount.
static inline int make(const char *name, int flags) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    CHECK(fd >= 0);
    return fd;
}

static inline void put(int fd, const char *text) {
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

// The file holds exactly this text: looked at through a descriptor of its own.
static inline void holds(const char *name, const char *text) {
    char found[4096];
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t bytes = pread(fd, found, sizeof found - 1, 0);
    CHECK(bytes >= 0);
    found[bytes] = 0;
    if (strcmp(found, text) != 0) {
        fprintf(stderr, "%s holds \"%s\", not \"%s\"\n", name, found, text);
        _exit(1);
    }
    CHECK(close(fd) == 0);
}

static inline void ended_well(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline int run_rule(int count, char **arguments, const struct rule *rules) {
    for (; count == 2 && rules->name; rules++) {
        if (strcmp(rules->name, arguments[1]) == 0) {
            rules->run();
            return 0;
        }
    }
    fprintf(stderr, "no such rule: %s\n", count == 2 ? arguments[1] : "(none)");
    return 2;
}
