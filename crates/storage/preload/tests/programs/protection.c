// Stores of the program past the library do not reach pools, where the CPU has protection keys.
#include "rules.h"

#include <sys/time.h>

#define ROUNDS 200

// The key of the pool's mapping; 0 without one.
static int key_of(const char *pool, char **start) {
    char line[4096];
    int is_pool = 0, key = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            size_t bytes = strlen(line), end = strlen(pool);
            is_pool = bytes > end && strcmp(line + bytes - end, pool) == 0;
            if (is_pool) {
                CHECK(strstr(line, " rw-s "));
                *start = (char *)from;
            }
        } else if (is_pool) {
            sscanf(line, "ProtectionKey: %d", &key);
        }
    }
    CHECK(fclose(maps) == 0 && *start);
    return key;
}

// Neither bit of the key but that against stores.
static int is_closed(int key) {
    unsigned rights, high;
    __asm__ volatile("rdpkru" : "=a"(rights), "=d"(high) : "c"(0));
    return (rights >> (2 * key) & 3) == 2;
}

static int key;
static pthread_barrier_t turn;

static void use(const char *name) {
    char data[8192];
    struct stat facts;
    int fd = make(name, 0);
    for (int i = 0; i < ROUNDS; i++) {
        memset(data, i, sizeof data);
        CHECK(pwrite(fd, data, sizeof data, i % 7) == sizeof data);
        memset(data, 0, sizeof data);
        CHECK(pread(fd, data, sizeof data, i % 7) == sizeof data && data[i] == (char)i);
        CHECK(stat(name, &facts) == 0 && ftruncate(fd, 9000 + i) == 0);
        CHECK(!key || is_closed(key));
    }
    CHECK(close(fd) == 0 && rename(name, "renamed") == 0 && unlink("renamed") == 0);
}

// Begun before there is a key: what it may do is what the CPU says at first, neither loads nor stores.
static void *is_older(void *stored) {
    (void)stored;
    pthread_barrier_wait(&turn);
    char byte;
    int fd = open("file", O_RDONLY);
    CHECK(fd >= 0 && pread(fd, &byte, 1, 0) == 1 && byte == 'a' && close(fd) == 0);
    use("of_older");
    return NULL;
}

static int shared;

static void on_signal(int signal) {
    char byte;
    CHECK(signal == SIGUSR1 && pread(shared, &byte, 1, 0) == 1 && byte == 'a');
    CHECK(pwrite(shared, "b", 1, 1) == 1);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
    CHECK(signal == SIGALRM && pwrite(shared, "b", 1, 1) == 1);
    alarms++;
}

// Also when a handler that writes comes at the very end of a write.
static void use_under_signals(void) {
    char data[16 * 4096] = {1};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    int fd = make("overwritten", 0);
    CHECK(pwrite(fd, data, sizeof data, 0) == sizeof data);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; alarms < 5000; i++) {
        CHECK(pwrite(fd, data, 4096, i % 16 * 4096) == 4096);
        CHECK(!key || is_closed(key));
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && close(fd) == 0 && unlink("overwritten") == 0);
}

static void stray_stores_fault(void) {
    pthread_t older;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0 && pthread_create(&older, NULL, is_older, NULL) == 0);
    shared = make("file", 0);
    put(shared, "a");
    char *pool = NULL;
    const char *path = getenv("POOL0");
    CHECK(path);
    key = key_of(path, &pool);
    FILE *facts = popen("grep -cw ospke /proc/cpuinfo", "r");
    int cpus = 0;
    CHECK(facts && fscanf(facts, "%d", &cpus) == 1 && pclose(facts) >= 0);
    const char *setting = getenv("EGERIA_PROTECTION_KEYS");
    CHECK((cpus > 0 && !setting) == (key > 0));
    pthread_barrier_wait(&turn);
    CHECK(pthread_join(older, NULL) == 0);
    use("own");
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        CHECK(raise(SIGUSR1) == 0 && pread(shared, &byte, 1, 1) == 1 && byte == 'b');
        CHECK(!key || is_closed(key));
    }
    use_under_signals();
    if (!key) {
        puts(setting ? "as asked: no key" : "SKIPPED, PROVES NOTHING: this CPU has no protection keys");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        use("of_child");
        *(volatile char *)pool = *(volatile char *)pool;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    use("after");
    printf("protected by key %d\n", key);
}

static const struct rule rules[] = {
    {"stray_stores_fault", stray_stores_fault},
    {0},
};

int main(int count, char **arguments) {
    return run_rule(count, arguments, rules);
}
