// Stopped and continued: nobody but the writer may notice.
#include "rules.h"
#include <poll.h>
#include <stdbool.h>
#include <sys/select.h>

static char block[4096];

static void write_pages(int fd, int pages) {
    for (int i = 0; i < pages; i++)
        CHECK(pwrite(fd, block, sizeof block, i % 64 * 4096) == sizeof block);
}

static void overwrites_for_ever(void) {
    int fd = make("f", 0);
    for (;;)
        write_pages(fd, 64);
}

// A child in a process group of its own, which is not an orphan's: stops stop it.
static pid_t start(void (*run)(int), int argument) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(setpgid(0, 0) == 0);
        run(argument);
        _exit(0);
    }
    CHECK(child > 0);
    return child;
}

static void is_stopped_by(pid_t child, int signal) {
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signal);
}

static void write_after_a_word(int fd) {
    struct sigaction old;
    write_pages(fd, 1000);
    for (int signal = SIGTSTP; signal <= SIGTTOU; signal++)
        CHECK(sigaction(signal, NULL, &old) == 0 && old.sa_handler == SIG_DFL && old.sa_flags >= 0);
    for (;;)
        write_pages(fd, 64);
}

static void each_stop_signal_stops_a_writer(void) {
    int status, fd = make("f", 0);
    pid_t child = start(write_after_a_word, fd);
    usleep(50000);
    for (int i = 0; i < 60; i++) {
        int signal = (int[]){SIGTSTP, SIGTTIN, SIGTTOU}[i % 3];
        CHECK(kill(child, signal) == 0);
        is_stopped_by(child, signal);
        CHECK(kill(child, SIGCONT) == 0);
        CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
        usleep(rand() % 3000);
    }
    CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void write_much(int fd) { write_pages(fd, 100000); }

// Who is told to stop and to go on at once goes on.
static void continued_at_once(void) {
    int status, fd = make("f", 0);
    pid_t child = start(write_much, fd);
    for (int i = 0; i < 300; i++) {
        CHECK(kill(child, SIGTSTP) == 0);
        for (volatile int wait = rand() % 2000; wait > 0; wait--)
            ;
        CHECK(kill(child, SIGCONT) == 0);
        usleep(rand() % 300);
    }
    while (waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status))
        // Told of a stop that is over, or of one that a SIGCONT came too early for.
        CHECK(kill(child, SIGCONT) == 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void sleep_in_one_way(int way) {
    struct timespec time = {0, 200000000};
    struct timeval short_time = {0, 200000};
    int fd = open("f", O_RDWR);
    write_pages(fd, 1000);
    switch (way) {
    case 0: CHECK(poll(NULL, 0, 200) == 0); break;
    case 1: CHECK(select(0, NULL, NULL, NULL, &short_time) == 0); break;
    case 2: CHECK(nanosleep(&time, NULL) == 0); break;
    case 3: CHECK(usleep(200000) == 0); break;
    case 4: CHECK(sleep(1) == 0); break;
    case 5: CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == 0); break;
    case 6: CHECK(pselect(0, NULL, NULL, NULL, &time, NULL) == 0); break;
    case 7: CHECK(ppoll(NULL, 0, &time, NULL) == 0); break;
    case 8: CHECK(syscall(SYS_poll, NULL, 0, 200) == 0); break;
    default: _exit(99);
    }
}

static void sleeps_go_on_after_a_stop(void) {
    int status, way = 0;
    CHECK(close(make("f", 0)) == 0);
    for (;; way++) {
        pid_t child = start(sleep_in_one_way, way);
        usleep(100000);
        CHECK(kill(child, SIGTSTP) == 0 && waitpid(child, &status, WUNTRACED) == child);
        if (WIFEXITED(status))
            break;
        CHECK(WIFSTOPPED(status) && kill(child, SIGCONT) == 0);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(WEXITSTATUS(status) == 99 && way == 9);
}

static volatile int handled;

static void count_signal(int signal) { handled += signal == SIGTSTP; }

// What the program wants of a stop signal is done, whatever it wrote before.
static void programs_have_their_own_way(void) {
    int status, fd = make("f", 0);
    write_pages(fd, 1000);
    CHECK(signal(SIGTSTP, SIG_IGN) == SIG_DFL && raise(SIGTSTP) == 0);
    write_pages(fd, 1000);
    CHECK(signal(SIGTSTP, count_signal) == SIG_IGN && raise(SIGTSTP) == 0 && handled == 1);
    CHECK(signal(SIGTSTP, SIG_DFL) == count_signal);
    write_pages(fd, 1000);
    // A child that becomes another program has nothing of ours.
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "grep -q 'SigCgt.*[2-7a-f].....$' /proc/self/status && exit 3; exit 0", NULL);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct rule rules[] = {
    {"overwrites_for_ever", overwrites_for_ever},
    {"each_stop_signal_stops_a_writer", each_stop_signal_stops_a_writer},
    {"continued_at_once", continued_at_once},
    {"sleeps_go_on_after_a_stop", sleeps_go_on_after_a_stop},
    {"programs_have_their_own_way", programs_have_their_own_way},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
