// fork, vfork, exec, spawn, daemon: descriptors that become shared on the way.
#include "rules.h"
#include <spawn.h>

extern char **environ;

static void fork_then_exec(void) {
    char command[64];
    int fd = make("f", 0);
    put(fd, "1 ");
    snprintf(command, sizeof command, "printf '2 ' >&%d", fd);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    ended_well(child);
    put(fd, "3 ");
    child = vfork();
    if (child == 0) {
        execlp("sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    ended_well(child);
    put(fd, "4 ");
    holds("f", "1 2 3 2 4 ");
}

static void spawn_system_and_popen(void) {
    for (int way = 0; way < 3; way++) {
        char command[64];
        int fd = make("f", 0);
        put(fd, "a");
        snprintf(command, sizeof command, "printf b >&%d", fd);
        char *arguments[] = {"sh", "-c", command, NULL};
        pid_t child;
        if (way == 0) {
            CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
            ended_well(child);
        } else if (way == 1) {
            CHECK(system(command) == 0);
        } else {
            FILE *pipe = popen(command, "r");
            CHECK(pclose(pipe) == 0);
        }
        put(fd, "c");
        holds("f", "abc");
        CHECK(close(fd) == 0);
    }
}

static void exec_goes_on_at_the_offset(void) {
    char command[64];
    int fd = make("f", 0);
    put(fd, "before ");
    CHECK(fcntl(fd, F_SETFD, 0) == 0);
    snprintf(command, sizeof command, "printf after >&%d", fd);
    pid_t child = fork();
    if (child == 0) {
        int own = make("g", 0);
        put(own, "before ");
        snprintf(command, sizeof command, "printf after >&%d", own);
        char *arguments[] = {"sh", "-c", command, NULL};
        execve("/bin/sh", arguments, environ);
        _exit(127);
    }
    ended_well(child);
    holds("g", "before after");
    holds("f", "before ");
    char *arguments[] = {"sh", "-c", command, NULL};
    execv("/bin/sh", arguments);
    _exit(127);
}

static void vfork_child_leaves_the_table_alone(void) {
    char text[8] = {0};
    int fd = make("f", 0), other = make("g", 0);
    put(fd, "mine");
    put(other, "other");
    pid_t child = vfork();
    if (child == 0) {
        // In the parent's memory: neither may change what the parent knows.
        close(fd);
        dup2(other, 10);
        int again = open("g", O_RDWR);
        if (again != fd || pwrite(again, "OTHER", 5, 0) != 5)
            _exit(1);
        if (dup2(other, fd) != fd || write(fd, "!", 1) != 1)
            _exit(2);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    ended_well(child);
    CHECK(pread(fd, text, 4, 0) == 4 && strcmp(text, "mine") == 0);
    put(fd, "!");
    holds("f", "mine!");
    holds("g", "OTHER!");
}

static void daemon_goes_on_writing(void) {
    int fd = make("f", 0), done[2];
    char byte;
    put(fd, "before ");
    CHECK(pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(daemon(1, 0) == 0);
        put(fd, "after");
        int zero = open("/dev/null", O_RDONLY);
        CHECK(zero > 2 && read(0, &byte, 1) == 0);
        CHECK(write(done[1], "x", 1) == 1);
        _exit(0);
    }
    ended_well(child);
    close(done[1]);
    CHECK(read(done[0], &byte, 1) == 1);
    put(fd, "!");
    holds("f", "before after!");
}

static void unannounced_fork(void) {
    int fd = make("f", 0);
    put(fd, "parent ");
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        put(fd, "child ");
        CHECK(close(fd) == 0);
        syscall(SYS_exit_group, 0);
    }
    ended_well(child);
    child = _Fork();
    if (child == 0) {
        put(fd, "second ");
        _exit(0);
    }
    ended_well(child);
    put(fd, "end");
    holds("f", "parent child second end");
}

static void append_many_processes(void) {
    enum { WRITERS = 4, RECORDS = 500, BYTES = 37 };
    pid_t children[WRITERS];
    make("log", 0);
    for (int c = 0; c < WRITERS; c++) {
        if ((children[c] = fork()) == 0) {
            int fd = open("log", O_WRONLY | O_APPEND);
            for (int i = 0; i < RECORDS; i++) {
                char record[BYTES + 1];
                snprintf(record, sizeof record, "%d:%06d:%026d\n", c, i, i * 7 + c);
                CHECK(write(fd, record, BYTES) == BYTES);
            }
            _exit(0);
        }
    }
    for (int c = 0; c < WRITERS; c++)
        ended_well(children[c]);
    int fd = open("log", O_RDONLY), next[WRITERS] = {0};
    for (int i = 0; i < WRITERS * RECORDS; i++) {
        char record[BYTES + 1] = {0}, expected[BYTES + 1];
        CHECK(read(fd, record, BYTES) == BYTES);
        int c = record[0] - '0';
        CHECK(c >= 0 && c < WRITERS);
        snprintf(expected, sizeof expected, "%d:%06d:%026d\n", c, next[c], next[c] * 7 + c);
        CHECK(strcmp(record, expected) == 0);
        next[c]++;
    }
    CHECK(read(fd, next, 1) == 0);
}

static int handler_fd;

static void write_in_child(void) { put(handler_fd, "handler "); }

static void program_fork_handlers(void) {
    char text[64];
    handler_fd = make("f", 0);
    int closed = make("g", 0);
    put(handler_fd, "start ");
    put(closed, "g");
    CHECK(pthread_atfork(write_in_child, NULL, write_in_child) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(pread(closed, text, 1, 0) == 1);
        put(handler_fd, "child ");
        _exit(0);
    }
    ended_well(child);
    put(handler_fd, "end");
    holds("f", "start handler handler child end");
}

static volatile int stop;

static void *keep_writing(void *argument) {
    // Busy at first, then gently: how long the forks take must not fill the volume.
    for (long written = 0; !stop; written++) {
        put((int)(intptr_t)argument, "0123456789abcdef");
        if (written > 200000)
            usleep(1000);
    }
    return NULL;
}

// Threads write at private offsets while others fork: no child hangs, no byte is lost.
static void fork_among_busy_threads(void) {
    pthread_t threads[2];
    int fds[2] = {make("a", 0), make("b", 0)};
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&threads[t], NULL, keep_writing, (void *)(intptr_t)fds[t]) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            int own = make("c", 0);
            put(own, "child");
            holds("c", "child");
            _exit(0);
        }
        ended_well(child);
        int late = make("d", 0);
        put(late, "d");
        CHECK(close(late) == 0);
    }
    stop = 1;
    for (int t = 0; t < 2; t++) {
        struct stat facts;
        CHECK(pthread_join(threads[t], NULL) == 0);
        CHECK(fstat(fds[t], &facts) == 0 && facts.st_size == lseek(fds[t], 0, SEEK_CUR));
        CHECK(facts.st_size % 16 == 0 && facts.st_size > 0);
        for (off_t at = 0; at < facts.st_size; at += 16) {
            char text[17] = {0};
            CHECK(pread(fds[t], text, 16, at) == 16 && strcmp(text, "0123456789abcdef") == 0);
        }
    }
}

static const struct rule rules[] = {
    {"fork_then_exec", fork_then_exec},
    {"spawn_system_and_popen", spawn_system_and_popen},
    {"exec_goes_on_at_the_offset", exec_goes_on_at_the_offset},
    {"vfork_child_leaves_the_table_alone", vfork_child_leaves_the_table_alone},
    {"daemon_goes_on_writing", daemon_goes_on_writing},
    {"unannounced_fork", unannounced_fork},
    {"append_many_processes", append_many_processes},
    {"program_fork_handlers", program_fork_handlers},
    {"fork_among_busy_threads", fork_among_busy_threads},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
