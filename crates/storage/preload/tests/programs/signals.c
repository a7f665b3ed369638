// Handlers, bad buffers, cancellation: what may interrupt the engine.
#include "rules.h"
#include <dirent.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/time.h>
#include <ucontext.h>

static int log_fd;
static volatile int handled;

static void append_line(int signal) {
    (void)signal;
    int error = errno;
    if (write(log_fd, "handler line 15\n", 16) != 16)
        _exit(9);
    handled++;
    errno = error;
}

static void tick(int microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

// Every line is whole, whoever wrote it, and none is lost.
static void check_lines(const char *name, int expected) {
    char line[17] = {0};
    int fd = open(name, O_RDONLY), lines = 0;
    for (; read(fd, line, 16) == 16; lines++)
        CHECK(strcmp(line, "handler line 15\n") == 0 || strcmp(line, "main's line  15\n") == 0);
    CHECK(lines == expected);
}

static void handler_writes_while_main_writes(void) {
    int lines = 0;
    log_fd = make("log", 0);
    CHECK(signal(SIGALRM, append_line) == SIG_DFL);
    put(log_fd, "main's line  15\n");
    lines++;
    tick(300);
    // A fast machine would fill the volume before the time is over.
    for (time_t end = time(NULL) + 2; time(NULL) < end && handled < 2000; lines++)
        put(log_fd, "main's line  15\n");
    tick(0);
    CHECK(handled > 100);
    check_lines("log", lines + handled);
}

static sigjmp_buf away;
static volatile int jumps;

static void jump(int signal) {
    (void)signal;
    jumps++;
    siglongjmp(away, 1);
}

static void handler_jumps_out_of_a_write(void) {
    char block[4096];
    memset(block, 'x', sizeof block);
    int fd = make("f", 0);
    CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
    CHECK(signal(SIGALRM, jump) == SIG_DFL);
    sigsetjmp(away, 1);
    if (jumps == 0)
        tick(500);
    while (jumps < 300)
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
    tick(0);
    CHECK(pread(fd, block, sizeof block, 0) == sizeof block && block[4095] == 'x');
    put(fd, "still here");
}

static volatile int value, sender;

static void take(int signal, siginfo_t *information, void *context) {
    sigset_t *mask = &((ucontext_t *)context)->uc_sigmask;
    CHECK(signal == SIGUSR1 || signal >= SIGRTMIN);
    CHECK(sigismember(mask, SIGUSR2) == 1);
    CHECK(sigismember(mask, SIGALRM) == 0);
    value += information->si_value.sival_int;
    sender = information->si_pid;
    handled++;
}

static void *send_signals(void *argument) {
    pthread_t target = *(pthread_t *)argument;
    for (int i = 0; i < 2000; i++) {
        union sigval one = {.sival_int = 1};
        while (pthread_sigqueue(target, SIGRTMIN + 1, one) != 0)
            usleep(100);
        if (i % 64 == 0)
            usleep(100);
    }
    return NULL;
}

// Signals that waited for the engine arrive all the same: each of them, with its facts and mask.
static void queued_signals_keep_their_facts(void) {
    char block[4096] = {0};
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO}, old;
    sigset_t blocked;
    int fd = make("f", 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    CHECK(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
    put(fd, "x");
    CHECK(sigaction(SIGRTMIN + 1, NULL, &old) == 0 && old.sa_sigaction == take);
    CHECK(pthread_create(&thread, NULL, send_signals, &self) == 0);
    for (int written = 0; handled < 2000 || written < 1000; written++)
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(handled == 2000 && value == 2000 && sender == getpid());
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    CHECK(sigismember(&blocked, SIGUSR2) == 1 && sigismember(&blocked, SIGRTMIN + 1) == 0);
}

static void nothing(int signal) { handled += signal; }

static void programs_see_their_own_actions(void) {
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART}, old;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    int fd = make("f", 0);
    put(fd, "attached now");
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(old.sa_handler == nothing && (old.sa_flags & SA_RESTART) && !(old.sa_flags & SA_SIGINFO));
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR2, nothing) == SIG_DFL && signal(SIGUSR2, SIG_IGN) == nothing);
    CHECK(raise(SIGUSR2) == 0 && handled == 0);
    action.sa_flags = SA_RESETHAND;
    CHECK(sigaction(SIGUSR2, &action, &old) == 0 && old.sa_handler == SIG_IGN);
    CHECK(raise(SIGUSR2) == 0 && handled == SIGUSR2);
    CHECK(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(raise(SIGUSR1) == 0 && handled == SIGUSR1 + SIGUSR2);
    CHECK(siginterrupt(SIGUSR1, 1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && !(old.sa_flags & SA_RESTART));
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(signal(SIGUSR1, SIG_DFL) == nothing);
    sigset_t segv, seen;
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    CHECK(sigprocmask(SIG_BLOCK, &segv, &seen) == 0 && !sigismember(&seen, SIGSEGV));
    CHECK(sigprocmask(SIG_UNBLOCK, &segv, &seen) == 0 && sigismember(&seen, SIGSEGV));
    pid_t child = fork();
    if (child == 0) {
        raise(SIGUSR1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

static void ignored_signals_look_ignored(void) {
    struct sigaction old;
    // Under nohup it is ignored already.
    CHECK(signal(SIGHUP, SIG_DFL) != SIG_ERR);
    CHECK(signal(SIGHUP, SIG_IGN) == SIG_DFL);
    put(make("f", 0), "attached now");
    CHECK(sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN);
    CHECK(signal(SIGHUP, nothing) == SIG_IGN && signal(SIGTERM, nothing) == SIG_DFL);
}

static void jump_from_fault(int signal, siginfo_t *information, void *context) {
    (void)context;
    value = signal;
    CHECK(information->si_addr == (void *)64);
    siglongjmp(away, 1);
}

static void faults_of_the_program_stay_its_own(void) {
    int fd = make("f", 0), status;
    struct sigaction action = {.sa_sigaction = jump_from_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    put(fd, "attached");
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    if (sigsetjmp(away, 1) == 0)
        *(volatile int *)64 = 1;
    CHECK(value == SIGSEGV);
    CHECK(pwrite(fd, (void *)64, 8, 0) == -1 && errno == EFAULT);
    CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
    pid_t child = fork();
    if (child == 0) {
        put(fd, "child");
        *(volatile int *)64 = 1;
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    child = fork();
    if (child == 0) {
        put(fd, "child");
        raise(SIGSEGV);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void bad_buffers_are_errors(void) {
    char block[8192];
    memset(block, 'b', sizeof block);
    int fd = make("f", 0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
    volatile uintptr_t nowhere = 16;
    struct iovec part = {(void *)nowhere, 100}, parts[2] = {{block, 100}, {(void *)nowhere, 100}};
    CHECK(lseek(fd, 0, SEEK_END) == 8192 && read(fd, block, 100) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(read(fd, (void *)nowhere, 100) == -1 && errno == EFAULT);
    CHECK(write(fd, (void *)nowhere, 100) == -1 && errno == EFAULT);
    CHECK(pread(fd, (void *)nowhere, 8192, 0) == -1 && errno == EFAULT);
    CHECK(pwrite(fd, (void *)nowhere, 8192, 0) == -1 && errno == EFAULT);
    CHECK(preadv(fd, &part, 1, 0) == -1 && errno == EFAULT);
    ssize_t part_done = pwritev(fd, parts, 2, 0);
    CHECK(part_done == 100 || (part_done == -1 && errno == EFAULT));
    CHECK(preadv(fd, (struct iovec *)nowhere, 2, 0) == -1 && errno == EFAULT);
    ssize_t half = pwrite(fd, page + 96, 8000, 0);
    CHECK((half == -1 && errno == EFAULT) || (half > 0 && half <= 4000));
    CHECK(pread(fd, block, 1, 8191) == 1 && block[0] == 'b');
    CHECK(read(fd, (void *)(uintptr_t)0x8000000000000000, 16) == -1 && errno == EFAULT);
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    CHECK(pwrite(fd, (void *)nowhere, 4096, 0) == -1 && errno == EFAULT);
}

// Every bad address that a message can hold is the kernel's to refuse.
static void refuse_bad_messages(int *pair) {
    void *volatile nowhere = (void *)16;
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x', *page;
    struct iovec part = {&byte, 1};
    struct msghdr good = {.msg_iov = &part, .msg_iovlen = 1}, bad = good;
    bad.msg_control = nowhere;
    bad.msg_controllen = sizeof space;
    struct mmsghdr messages[2] = {{.msg_hdr = good}, {.msg_hdr = bad}};
    CHECK(sendmsg(pair[0], nowhere, 0) == -1 && errno == EFAULT);
    CHECK(sendmsg(pair[0], NULL, 0) == -1 && errno == EFAULT);
    CHECK(sendmsg(pair[0], &bad, 0) == -1 && errno == EFAULT);
    CHECK(sendmmsg(pair[0], nowhere, 2, 0) == -1 && errno == EFAULT);
    CHECK(sendmmsg(pair[0], messages, 2, 0) == 1);
    CHECK(recvmsg(pair[1], nowhere, MSG_DONTWAIT) == -1 && errno == EFAULT);
    CHECK(recvmmsg(pair[1], nowhere, 2, MSG_DONTWAIT, NULL) == -1 && errno == EFAULT);
    // A message at the end of its memory, with control data that says it is longer than it is.
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    struct cmsghdr *header = (void *)(page + 4096 - sizeof *header);
    *header = (struct cmsghdr){1 << 20, SOL_SOCKET, SCM_RIGHTS};
    bad.msg_control = header;
    bad.msg_controllen = 2 << 20;
    CHECK(sendmsg(pair[0], &bad, 0) == -1 && (errno == EFAULT || errno == ENOBUFS));
    header->cmsg_len = 0;
    bad.msg_controllen = sizeof *header;
    CHECK(sendmsg(pair[0], &bad, 0) == -1 && errno == EINVAL);
    CHECK(recvmsg(pair[1], &good, MSG_DONTWAIT) == 1);
    CHECK(recvmsg(pair[1], &good, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    // Descriptors that arrive where nothing can be stored.
    good.msg_control = space;
    good.msg_controllen = sizeof space;
    *CMSG_FIRSTHDR(&good) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&good)), &pair[0], sizeof(int));
    CHECK(sendmsg(pair[0], &good, 0) == 1);
    bad.msg_control = nowhere;
    bad.msg_controllen = sizeof space;
    ssize_t answer = recvmsg(pair[1], &bad, MSG_DONTWAIT);
    CHECK(answer == 1 || (answer == -1 && errno == EFAULT));
}

static void *refuse_bad_messages_masked(void *pair) {
    refuse_bad_messages(pair);
    return NULL;
}

static void bad_messages_are_errors(void) {
    int pair[2];
    pthread_t thread;
    sigset_t all;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    refuse_bad_messages(pair);
    put(make("f", 0), "attached");
    refuse_bad_messages(pair);
    // Past the library, so the new thread begins with faults blocked, and never uses a file.
    sigfillset(&all);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, 8) == 0);
    CHECK(pthread_create(&thread, NULL, refuse_bad_messages_masked, pair) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *block_all_and_write(void *argument) {
    volatile uintptr_t nowhere = 16;
    CHECK(pwrite((int)(intptr_t)argument, (void *)nowhere, 4096, 0) == -1 && errno == EFAULT);
    return NULL;
}

static void bad_buffer_with_signals_blocked(void) {
    sigset_t all;
    pthread_t thread;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    int fd = make("f", 0);
    put(fd, "attached");
    block_all_and_write((void *)(intptr_t)fd);
    CHECK(pthread_create(&thread, NULL, block_all_and_write, (void *)(intptr_t)fd) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &all) == 0 && sigismember(&all, SIGSEGV));
}

static void *wait_for_ever(void *argument) {
    char byte;
    for (;;)
        if (read((int)(intptr_t)argument, &byte, 1) < 0)
            abort();
}

static void *read_for_ever(void *argument) {
    char block[4096];
    for (;;)
        if (pread((int)(intptr_t)argument, block, sizeof block, 0) < 0)
            abort();
}

static void cancelled_threads_end(void) {
    int fd = make("f", 0), ends[2];
    char block[4096] = {0};
    CHECK(write(fd, block, sizeof block) == sizeof block && pipe(ends) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t waiter, reader;
        void *result;
        CHECK(pthread_create(&waiter, NULL, wait_for_ever, (void *)(intptr_t)ends[0]) == 0);
        CHECK(pthread_create(&reader, NULL, read_for_ever, (void *)(intptr_t)fd) == 0);
        usleep(2000);
        CHECK(pthread_cancel(waiter) == 0 && pthread_cancel(reader) == 0);
        CHECK(pthread_join(waiter, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(pthread_join(reader, &result) == 0 && result == PTHREAD_CANCELED);
    }
    put(fd, "and the file goes on");
}

static sem_t is_cancelled;
static int came_here;

// Of calls that libc does not end, one; of those that it ends, another.
static void *is_cancelled_in(void *argument) {
    char template[] = "XXXXXX";
    struct stat facts;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0 && sem_wait(&is_cancelled) == 0);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    came_here = 0;
    CHECK(mkdir("d", 0755) == 0 && stat("d", &facts) == 0 && rename("d", "e") == 0);
    DIR *stream = opendir("e");
    CHECK(stream && readdir(stream) && closedir(stream) == 0 && rmdir("e") == 0 && access("e", F_OK) == -1);
    came_here = 1;
    switch ((intptr_t)argument) {
    case 0:
        open("f", O_RDWR | O_CREAT, 0644);
        break;
    case 1:
        openat(AT_FDCWD, "f", O_RDWR | O_CREAT, 0644);
        break;
    case 2:
        creat("f", 0644);
        break;
    case 3:
        fopen("f", "w");
        break;
    default:
        mkstemp(template);
    }
    came_here = 2;
    return NULL;
}

static void cancellation_ends_what_libc_ends(void) {
    CHECK(sem_init(&is_cancelled, 0, 0) == 0);
    for (intptr_t i = 0; i < 5; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, is_cancelled_in, (void *)i) == 0);
        CHECK(pthread_cancel(thread) == 0 && sem_post(&is_cancelled) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && came_here == 1);
        CHECK(access("f", F_OK) == -1 && errno == ENOENT);
    }
    put(make("f", 0), "and the others go on");
}

static void file_size_limit_is_the_kernels(void) {
    char block[4096] = {0};
    int fd = make("f", 0), status;
    CHECK(write(fd, block, sizeof block) == sizeof block);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {8192, 8192};
        CHECK(pwrite(fd, block, sizeof block, 0) == sizeof block);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK(pwrite(fd, block, sizeof block, 6000) == 2192);
        signal(SIGXFSZ, SIG_IGN);
        CHECK(pwrite(fd, block, sizeof block, 8192) == -1 && errno == EFBIG);
        signal(SIGXFSZ, SIG_DFL);
        CHECK(lseek(fd, 8192, SEEK_SET) == 8192);
        write(fd, block, 1);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    CHECK(pwrite(fd, block, sizeof block, 8192) == sizeof block);
}

static volatile int interruptions;

static void interrupt(int signal) { interruptions += signal == SIGALRM; }

static void all_calls_once(int fd, int appended, int turn) {
    char bytes[9000], found[9000];
    struct iovec parts[2] = {{bytes, 5000}, {bytes + 5000, 4000}};
    struct stat facts;
    loff_t from = 0, to = 20000;
    memset(bytes, 'a' + turn % 26, sizeof bytes);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    CHECK(pwrite(fd, bytes, sizeof bytes, 9000) == sizeof bytes);
    CHECK(lseek(fd, 9000, SEEK_SET) == 9000);
    CHECK(writev(fd, parts, 2) == sizeof bytes);
    CHECK(pwritev(fd, parts, 2, 0) == sizeof bytes);
    CHECK(write(appended, bytes, 100) == 100);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(read(fd, found, sizeof found) == sizeof found && memcmp(found, bytes, sizeof found) == 0);
    parts[0].iov_base = found, parts[1].iov_base = found + 5000;
    CHECK(readv(fd, parts, 2) == sizeof found && memcmp(found, bytes, sizeof found) == 0);
    CHECK(preadv(fd, parts, 2, 1) == sizeof found && memcmp(found, bytes, sizeof found) == 0);
    CHECK(pread(fd, found, sizeof found, 7) == sizeof found);
    CHECK(copy_file_range(fd, &from, fd, &to, 5000, 0) == 5000);
    CHECK(pread(fd, found, 5000, 20000) == 5000 && memcmp(found, bytes, 5000) == 0);
    CHECK(ftruncate(fd, 30000) == 0 && fstat(fd, &facts) == 0 && facts.st_size == 30000);
    CHECK(posix_fallocate(fd, 0, 40000) == 0);
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
    int other = open("other", O_RDWR | O_CREAT, 0644);
    CHECK(other >= 0 && pwrite(other, bytes, 10, 0) == 10);
    int copy = dup(other);
    CHECK(copy >= 0 && pread(copy, found, 10, 0) == 10 && close(copy) == 0 && close(other) == 0);
    CHECK(rename("other", "another") == 0 && unlink("another") == 0);
}

// Signals between any two instructions: no call is cut short, repeated or refused with EINTR.
static void interrupted(int flags) {
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = flags};
    struct stat facts;
    int turns = 0, fd = make("f", 0), appended = make("appended", O_APPEND);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    tick(150);
    for (time_t end = time(NULL) + 2; time(NULL) < end || interruptions < 1000; turns++)
        all_calls_once(fd, appended, turns);
    tick(0);
    CHECK(fstat(appended, &facts) == 0 && facts.st_size == (off_t)turns * 100);
}

static void signals_in_every_call(void) { interrupted(0); }

static void signals_in_every_call_that_restarts(void) { interrupted(SA_RESTART); }

static const struct rule rules[] = {
    {"signals_in_every_call", signals_in_every_call},
    {"signals_in_every_call_that_restarts", signals_in_every_call_that_restarts},
    {"handler_writes_while_main_writes", handler_writes_while_main_writes},
    {"handler_jumps_out_of_a_write", handler_jumps_out_of_a_write},
    {"queued_signals_keep_their_facts", queued_signals_keep_their_facts},
    {"programs_see_their_own_actions", programs_see_their_own_actions},
    {"ignored_signals_look_ignored", ignored_signals_look_ignored},
    {"faults_of_the_program_stay_its_own", faults_of_the_program_stay_its_own},
    {"bad_buffers_are_errors", bad_buffers_are_errors},
    {"bad_messages_are_errors", bad_messages_are_errors},
    {"bad_buffer_with_signals_blocked", bad_buffer_with_signals_blocked},
    {"cancelled_threads_end", cancelled_threads_end},
    {"cancellation_ends_what_libc_ends", cancellation_ends_what_libc_ends},
    {"file_size_limit_is_the_kernels", file_size_limit_is_the_kernels},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
