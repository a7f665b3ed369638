// Programs whose long accesses are made by delegates: threads of the program that it knows nothing of.
#include "rules.h"
#include <dirent.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/time.h>

enum { LONG = 512 * 1024 };

static char data[LONG], found[LONG];

static void fill(int seed) {
    for (int i = 0; i < LONG; i++)
        data[i] = (char)(i * 7 + i / 4093 + seed);
}

// Written and read again, each in one call.
static void keeps_data(int fd, int seed) {
    fill(seed);
    errno = 0;
    CHECK(pwrite(fd, data, LONG, 0) == LONG && errno == 0);
    memset(found, 0, LONG);
    CHECK(pread(fd, found, LONG, 0) == LONG && errno == 0);
    CHECK(memcmp(data, found, LONG) == 0);
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static int delegated(void) {
    int fd = make("f", 0);
    keeps_data(fd, 1);
    CHECK(threads() > 1);
    return fd;
}

static volatile int stop;

static void *keep_writing(void *argument) {
    char *own = malloc(LONG);
    int fd = (int)(intptr_t)argument;
    for (int round = 0; !stop; round++) {
        memset(own, round, LONG);
        CHECK(pwrite(fd, own, LONG, 0) == LONG);
        CHECK(pread(fd, own, LONG, 0) == LONG);
        for (int i = 0; i < LONG; i += 511)
            CHECK(own[i] == (char)round);
    }
    free(own);
    return NULL;
}

static void forks_among_busy_threads(void) {
    pthread_t writers[2];
    int fds[2] = {make("a", 0), make("b", 0)};
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&writers[t], NULL, keep_writing, (void *)(intptr_t)fds[t]) == 0);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            int own = make("c", 0);
            keeps_data(own, i);
            CHECK(threads() > 1);
            _exit(0);
        }
        ended_well(child);
    }
    stop = 1;
    for (int t = 0; t < 2; t++)
        CHECK(pthread_join(writers[t], NULL) == 0);
}

static void execs(void) {
    int fd = delegated();
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    ended_well(child);
    keeps_data(fd, 2);
    execl("/bin/sh", "sh", "-c", "test \"$(cmp f f && stat -c %s f)\" = 524288", (char *)NULL);
    _exit(127);
}

static void makes_a_user_namespace(void) {
    // Only a process of one thread may; whether this one may at all, a child without delegates tells.
    pid_t child = fork();
    if (child == 0)
        _exit(syscall(SYS_unshare, CLONE_NEWUSER) == 0 ? 0 : 77);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    int fd = delegated();
    int outcome = unshare(CLONE_NEWUSER);
    CHECK((outcome == 0) == (WEXITSTATUS(status) == 0));
    CHECK(threads() == 1);
    CHECK(pread(fd, found, LONG, 0) == LONG && memcmp(data, found, LONG) == 0);
}

static void gives_up_its_rights(void) {
    int fd = delegated();
    CHECK(geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0));
    CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    CHECK(threads() == 1);
    CHECK(pread(fd, found, LONG, 0) == LONG && memcmp(data, found, LONG) == 0);
    CHECK(pwrite(fd, data, LONG, LONG) == LONG);
}

// Who may make no threads: refused, and killed if it went on to try.
static void may_make_no_threads(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    int fd = make("f", 0);
    keeps_data(fd, 1);
    CHECK(threads() == 1);
}

static void has_no_memory_for_threads(void) {
    int fd = make("f", 0);
    put(fd, "short, so that all is attached");
    unsigned long pages;
    FILE *sizes = fopen("/proc/self/statm", "r");
    CHECK(sizes && fscanf(sizes, "%lu", &pages) == 1 && fclose(sizes) == 0);
    struct rlimit limit = {pages * 4096, pages * 4096};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    keeps_data(fd, 1);
}

static int handled_fd;
static volatile int handled;

static void on_signal(int signal) {
    (void)signal;
    CHECK(pwrite(handled_fd, data, LONG, LONG) == LONG);
    CHECK(pread(handled_fd, found, LONG, LONG) == LONG);
    handled++;
}

static void handlers_write(void) {
    handled_fd = make("f", 0);
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    fill(3);
    // The first long access of all: nothing may be started from here.
    raise(SIGUSR1);
    CHECK(handled == 1 && memcmp(data, found, LONG) == 0 && threads() == 1);
    keeps_data(handled_fd, 1);
    raise(SIGUSR1);
    CHECK(handled == 2 && threads() > 1);
}

static void on_alarm(int signal) {
    (void)signal;
    CHECK((pid_t)syscall(SYS_gettid) == getpid());
    handled++;
}

static void signals_meet_the_program_s_threads(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    int fd = delegated();
    struct itimerval often = {{0, 500}, {0, 500}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 200 || handled < 20; i++)
        keeps_data(fd, i);
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void *write_once(void *argument) {
    CHECK(pwrite((int)(intptr_t)argument, data, LONG, 0) == LONG);
    return NULL;
}

static void small_stacks(void) {
    int fd = make("f", 0);
    pthread_attr_t small;
    pthread_t thread;
    fill(5);
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, 64 * 1024) == 0);
    CHECK(pthread_create(&thread, &small, write_once, (void *)(intptr_t)fd) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pread(fd, found, LONG, 0) == LONG && memcmp(data, found, LONG) == 0);
}

static void bad_buffers(void) {
    int fd = delegated();
    char *half = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(half != MAP_FAILED && mprotect(half + LONG / 2, LONG / 2, PROT_NONE) == 0);
    errno = 0;
    CHECK(pread(fd, half + LONG / 2, LONG / 2, 0) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(pwrite(fd, half + LONG / 2, LONG / 2, 0) == -1 && errno == EFAULT);
    CHECK(pread(fd, found, LONG, 0) == LONG && memcmp(data, found, LONG) == 0);
    keeps_data(fd, 9);
}

static const struct rule rules[] = {
    {"forks_among_busy_threads", forks_among_busy_threads},
    {"execs", execs},
    {"makes_a_user_namespace", makes_a_user_namespace},
    {"gives_up_its_rights", gives_up_its_rights},
    {"may_make_no_threads", may_make_no_threads},
    {"has_no_memory_for_threads", has_no_memory_for_threads},
    {"handlers_write", handlers_write},
    {"signals_meet_the_program_s_threads", signals_meet_the_program_s_threads},
    {"small_stacks", small_stacks},
    {"bad_buffers", bad_buffers},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
