// A program that goes on while mounts come and go, and gives up rights on the way.
#include "rules.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#define NOBODY 65534

// Reads each file that it is told the path of, and says the first byte.
static void reads_what_it_is_told(void) {
    char path[PATH_MAX], block[4096];
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        for (int i = 0; i < 10; i++)
            CHECK(pread(fd, block, sizeof block, 0) > 0);
        CHECK(close(fd) == 0);
        printf("%c\n", block[0]);
        fflush(stdout);
    }
}

static void reads_a_file_of_its_user(void) {
    char text[4];
    int fd = make("f", 0);
    put(fd, "one");
    for (int i = 0; i < 20; i++)
        CHECK(pread(fd, text, 3, 0) == 3 && memcmp(text, "one", 3) == 0);
}

// What its user may not look into.
static void reads_a_file_in_secret(void) {
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    reads_a_file_of_its_user();
}

// Whether pools or a session are mapped here.
static bool has_pools(void) {
    char line[PATH_MAX + 200];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        found = found || (strstr(line, "rw-s") && strstr(line, "egeria"));
    CHECK(fclose(maps) == 0);
    return found;
}

static void empty_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    CHECK(capset(&header, none) == 0);
}

static void change_rights(int way) {
    gid_t group = NOBODY;
    switch (way) {
    case 0: CHECK(setuid(NOBODY) == 0); break;
    case 1: CHECK(setgid(NOBODY) == 0); break;
    case 2: CHECK(seteuid(NOBODY) == 0); break;
    case 3: CHECK(setegid(NOBODY) == 0); break;
    case 4: CHECK(setreuid(NOBODY, -1) == 0); break;
    case 5: CHECK(setregid(-1, NOBODY) == 0); break;
    case 6: CHECK(setresuid(-1, NOBODY, -1) == 0); break;
    case 7: CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0); break;
    case 8: CHECK(setfsuid(NOBODY) == 0); break;
    case 9: CHECK(setfsgid(NOBODY) == 0); break;
    case 10: CHECK(setgroups(1, &group) == 0); break;
    case 11: CHECK(initgroups("nobody", NOBODY) == 0); break;
    case 12: empty_capabilities(); break;
    case 13: CHECK(chroot(".") == 0); break;
    case 14: CHECK(unshare(CLONE_NEWNS) == 0); break;
    case 15: CHECK(setns(open("/proc/self/ns/mnt", O_RDONLY), 0) == 0); break;
    case 16: CHECK(syscall(SYS_setuid, NOBODY) == 0); break;
    case 17: CHECK(syscall(SYS_setresuid, -1, NOBODY, -1) == 0); break;
    case 18: CHECK(syscall(SYS_setresgid, NOBODY, -1, -1) == 0); break;
    case 19: CHECK(syscall(SYS_setgroups, 1, &group) == 0); break;
    case 20: CHECK(syscall(SYS_chroot, ".") == 0); break;
    case 21: CHECK(syscall(SYS_unshare, CLONE_NEWNS) == 0); break;
    default: _exit(99);
    }
}

// Each way in a child of its own, which goes on where it was in its file.
static void pools_go_with_the_rights(void) {
    char text[8] = {0};
    int ways = 0;
    for (int status = 0; status != 99; ways++) {
        int fd = make("f", 0), maps = open("/proc/self/maps", O_RDONLY);
        put(fd, "one two ");
        CHECK(lseek(fd, 0, SEEK_SET) == 0 && has_pools() && maps >= 0);
        pid_t child = fork();
        if (child == 0) {
            int own = open("f", O_RDWR);
            CHECK(read(fd, text, 4) == 4 && read(own, text, 4) == 4 && has_pools());
            change_rights(ways);
            // Where /proc is out of reach, the file that was open before tells.
            CHECK(strncmp(text, "one ", 4) == 0);
            if (ways != 13 && ways != 20)
                CHECK(!has_pools());
            CHECK(read(own, text, 4) == 4 && strncmp(text, "two ", 4) == 0);
            put(own, "three");
            CHECK(pread(own, text, 4, 8) == 4 && strncmp(text, "thre", 4) == 0);
            CHECK(close(own) == 0);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        status = WEXITSTATUS(status);
        if (status != 99)
            CHECK(status == 0);
        CHECK(close(maps) == 0 && close(fd) == 0);
    }
    CHECK(ways == 23);
}

static void rights_that_stay_keep_the_pools(void) {
    int fd = make("f", 0), status;
    put(fd, "x");
    CHECK(has_pools());
    CHECK(setuid(0) == 0 && seteuid(0) == 0 && setreuid(-1, 0) == 0 && setresuid(0, -1, 0) == 0);
    CHECK(setgid(0) == 0 && setegid(-1) == -1 && setresgid(-1, -1, -1) == 0 && setfsuid(0) == 0);
    CHECK(syscall(SYS_setresuid, 0, 0, 0) == 0 && unshare(CLONE_NEWUTS) == 0 && has_pools());
    // Asking whether there are filters is not installing one.
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    // A child in our memory is another process: its rights are not ours.
    pid_t child = vfork();
    if (child == 0)
        _exit(setgid(NOBODY) || setuid(NOBODY));
    CHECK(waitpid(child, &status, 0) == child && status == 0 && has_pools());
    for (int i = 0; i < 100; i++)
        put(fd, "y");
    CHECK(has_pools());
}

static volatile bool ends;

static void *read_and_write(void *argument) {
    char block[4096];
    long count = 0;
    for (int fd = (int)(intptr_t)argument; !ends || count < 100; count++) {
        memset(block, 'a' + count % 26, sizeof block);
        CHECK(write(fd, block, sizeof block) == sizeof block);
        CHECK(lseek(fd, -4096, SEEK_CUR) >= 0 && read(fd, block, 4096) == 4096);
        CHECK(block[0] == 'a' + count % 26 && block[4095] == block[0]);
        int other = open("shared", O_RDWR), copy = dup(other);
        CHECK(pwrite(copy, block, 100, 0) == 100 && close(copy) == 0 && close(other) == 0);
    }
    return (void *)count;
}

static void threads_in_calls_are_waited_for(void) {
    pthread_t threads[4];
    void *count;
    int files[4];
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        files[i] = make(name, 0);
    }
    CHECK(fchmod(make("shared", 0), 0666) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, read_and_write, (void *)(intptr_t)files[i]) == 0);
    usleep(50000);
    CHECK(has_pools() && setresuid(NOBODY, NOBODY, NOBODY) == 0 && !has_pools());
    usleep(50000);
    ends = true;
    for (int i = 0; i < 4; i++) {
        struct stat facts;
        CHECK(pthread_join(threads[i], &count) == 0 && fstat(files[i], &facts) == 0);
        CHECK(facts.st_size == (long)count * 4096);
    }
}

enum { FILES = 100 };
static int files[2 * FILES];
static pthread_barrier_t begun;

// Files that this thread has not used before.
static void *reads_the_upper_half(void *unused) {
    pthread_barrier_wait(&begun);
    usleep(500);
    for (int i = FILES; i < 2 * FILES; i++) {
        char byte = 0;
        CHECK(pread(files[i], &byte, 1, 0) == 1 && byte == 'x');
    }
    return unused;
}

// Downwards: the kernel gets the files from the lowest number on.
static void *replaces_the_lower_half(void *unused) {
    pthread_barrier_wait(&begun);
    usleep(500);
    for (int i = FILES - 1; i >= 0; i--) {
        CHECK(close(files[i]) == 0);
        CHECK((files[i] = open("/dev/null", O_RDONLY)) >= 0);
    }
    return unused;
}

// While one thread gives up rights, and the kernel gets to open what it has not opened so far.
static void numbers_mean_what_they_meant_while_rights_go(void) {
    for (int round = 0; round < 10; round++) {
        // A file of its own: what the kernel has open, it opens once more.
        char name[] = {'f', (char)('0' + round), 0};
        pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) {
            ended_well(child);
            continue;
        }
        pthread_t reader, closer;
        struct stat facts, null;
        int made = make(name, 0);
        put(made, "x");
        CHECK(close(made) == 0 && has_pools());
        for (int i = 0; i < 2 * FILES; i++)
            CHECK((files[i] = open(name, O_RDONLY)) >= 0);
        CHECK(pthread_barrier_init(&begun, NULL, 3) == 0 && stat("/dev/null", &null) == 0);
        CHECK(pthread_create(&reader, NULL, reads_the_upper_half, NULL) == 0);
        CHECK(pthread_create(&closer, NULL, replaces_the_lower_half, NULL) == 0);
        pthread_barrier_wait(&begun);
        CHECK(setegid(NOBODY) == 0 && !has_pools());
        CHECK(pthread_join(reader, NULL) == 0 && pthread_join(closer, NULL) == 0);
        for (int i = 0; i < FILES; i++)
            CHECK(fstat(files[i], &facts) == 0 && facts.st_rdev == null.st_rdev);
        _exit(0);
    }
}

// A call that is not among these ends the process.
static void allow_few_calls(bool by_prctl) {
#define ALLOW(name)                                       \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read), ALLOW(pread64), ALLOW(write), ALLOW(mmap), ALLOW(lseek), ALLOW(close),
        ALLOW(dup), ALLOW(dup2), ALLOW(openat), ALLOW(rt_sigreturn), ALLOW(rt_sigaction),
        ALLOW(rt_sigprocmask), ALLOW(sendmsg), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_prctl)
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void ignore_signal(int signal) { (void)signal; }

// What the library forbids itself as well: not one call more than the program's own.
static void go_on_confined(int fd, int pipe_end, int high) {
    char byte, block[4096];
    struct sigaction action = {.sa_handler = ignore_signal}, old;
    sigset_t set;
    CHECK(read(fd, &byte, 1) == 1 && byte == 'w');
    CHECK(read(pipe_end, &byte, 1) == 1 && byte == 'p');
    CHECK(read(high, &byte, 1) == 1 && byte == 'o');
    CHECK(pread(fd, block, 3, 0) == 3 && memcmp(block, "one", 3) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    int other = open("f", O_RDWR);
    CHECK(other > 0 && read(other, &byte, 1) == 1 && byte == 'o' && dup2(other, high) == high);
    CHECK(close(dup(other)) == 0 && lseek(other, 0, SEEK_SET) == 0 && close(other) == 0);
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && sigaction(SIGSEGV, NULL, &old) == 0);
    CHECK(old.sa_handler == SIG_DFL && sigemptyset(&set) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    _exit(0);
}

// By each call that confines, before any file of a volume was used and after.
static void confined_programs_go_on(void) {
    for (int way = 0; way < 4; way++) {
        char text[4] = {0};
        int ends[2], status, fd = make("f", 0);
        put(fd, "one two");
        CHECK(pipe(ends) == 0 && write(ends[1], "p", 1) == 1);
        CHECK(lseek(fd, 5, SEEK_SET) == 5);
        pid_t child = fork();
        if (child == 0) {
            char *arguments[] = {"trust", way & 1 ? "confined_by_prctl" : "confined_by_number",
                                 way & 2 ? "used" : "unused", NULL};
            CHECK(dup2(fd, 40) == 40 && dup2(ends[0], 41) == 41);
            execv("/proc/self/exe", arguments);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0 && close(fd) == 0);
    }
}

static void become_confined(bool by_prctl, bool used) {
    char text[3];
    struct rlimit limit = {4096, 4096};
    int high = -1;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int own = open("f", O_RDONLY);
    high = fcntl(own, F_DUPFD, 3000);
    CHECK(own > 0 && high >= 3000);
    if (used) {
        CHECK(pread(own, text, 3, 0) == 3 && has_pools());
        CHECK(signal(SIGUSR2, ignore_signal) == SIG_DFL);
    }
    allow_few_calls(by_prctl);
    go_on_confined(40, 41, high);
}

static void strictly_confined(void) {
    char text[4] = {0};
    int fd = make("f", 0), status;
    put(fd, "one two");
    pid_t child = fork();
    if (child == 0) {
        int own = open("f", O_RDWR);
        CHECK(read(own, text, 4) == 4 && has_pools() && lseek(fd, 0, SEEK_SET) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        char first = 0;
        bool right = read(own, text, 3) == 3 && memcmp(text, "two", 3) == 0;
        right = right && write(own, "!", 1) == 1 && read(fd, &first, 1) == 1 && first == 'o';
        syscall(SYS_exit, !right);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    holds("f", "one two!");
}

static const struct rule rules[] = {
    {"reads_what_it_is_told", reads_what_it_is_told},
    {"reads_a_file_of_its_user", reads_a_file_of_its_user},
    {"reads_a_file_in_secret", reads_a_file_in_secret},
    {"pools_go_with_the_rights", pools_go_with_the_rights},
    {"rights_that_stay_keep_the_pools", rights_that_stay_keep_the_pools},
    {"threads_in_calls_are_waited_for", threads_in_calls_are_waited_for},
    {"numbers_mean_what_they_meant_while_rights_go", numbers_mean_what_they_meant_while_rights_go},
    {"confined_programs_go_on", confined_programs_go_on},
    {"strictly_confined", strictly_confined},
    {NULL, NULL},
};

int main(int count, char **arguments) {
    if (count == 3)
        become_confined(strcmp(arguments[1], "confined_by_prctl") == 0,
                        strcmp(arguments[2], "used") == 0);
    return run_rule(count, arguments, rules);
}
