/* A program that accesses what its arguments say, and counts from where and to where, for the placement suite.
 * usage: guest-access COUNTERS READY GROUP...
 *   COUNTERS: a file with a count of bytes for each pair (node of the CPU, node of the page)      READY: made once the threads run
 *   GROUP: settings of a group of threads, with commas between them:
 *     threads=N      how many (1); 0: only its memory
 *     mib=M          memory of the group (16); each thread uses a part of its own, or all of it with shared=1
 *     kind=K         anon (default), huge, map:PATH (a mapped file), read:PATH (a file that is read); both files exist
 *     at=NODE        a thread there touches it first; at=each: each thread its own part; at=all: interleaved by the program
 *     from=NODE      a policy places it there and then ends: for nodes without CPUs
 *     bind=NODE      bound there for good      lock=1: locked in memory
 *     on=NODE        where the threads begin; on=each: on the nodes with CPUs in turn      pinned=1: where they stay
 *     period=MS      after so long the threads change to the next group's memory, and then back
 *     busy=N         threads that work at a time; they hand over after each MiB
 *     use=none       no access; use=compute: only computing
 *     seconds=S      it ends after so long
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 16, CPUS = 64, GROUPS = 16, PAGE = 4096, CHUNK = 1 << 20 };
enum { NOWHERE = -1, EACH = -2, ALL = -3 };
enum use { ACCESS, NOTHING, COMPUTE };
enum kind { ANON, HUGE, MAPPED, READ };

struct group {
    int threads, at, from, bind, lock, on, pinned, period_ms, busy, shared, seconds;
    enum use use;
    enum kind kind;
    const char *path;
    size_t bytes;
    char *memory;
    int file;
    sem_t turns;
};

static struct group groups[GROUPS];
static int group_count;
static int node_of_cpu[CPUS], cpu_nodes[NODES], cpu_node_count;
static cpu_set_t anywhere;
static atomic_ullong (*counts)[NODES];
static pthread_barrier_t touched;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* By going there: a container may have no /sys. */
static void find_nodes(void)
{
    sched_getaffinity(0, sizeof anywhere, &anywhere);
    unsigned seen = 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        cpu_set_t one;
        unsigned node;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        node_of_cpu[cpu] = NOWHERE;
        if (!CPU_ISSET(cpu, &anywhere) || sched_setaffinity(0, sizeof one, &one) < 0 || getcpu(NULL, &node) < 0 || node >= NODES)
            continue;
        node_of_cpu[cpu] = (int)node;
        if (!(seen >> node & 1))
            cpu_nodes[cpu_node_count++] = (int)node;
        seen |= 1u << node;
    }
    sched_setaffinity(0, sizeof anywhere, &anywhere);
}

static void run_on(int node)
{
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPUS; cpu++)
        if (node_of_cpu[cpu] == node)
            CPU_SET(cpu, &some);
    if (node >= 0 && CPU_COUNT(&some) > 0 && sched_setaffinity(0, sizeof some, &some) < 0)
        fail("sched_setaffinity");
}

static int number(const char *text)
{
    return strcmp(text, "each") == 0 ? EACH : strcmp(text, "all") == 0 ? ALL : atoi(text);
}

static void set(struct group *group, const char *name, char *value)
{
    static const struct { const char *name; size_t at; } settings[] = {
        {"threads", offsetof(struct group, threads)}, {"at", offsetof(struct group, at)}, {"from", offsetof(struct group, from)},
        {"bind", offsetof(struct group, bind)}, {"lock", offsetof(struct group, lock)}, {"on", offsetof(struct group, on)},
        {"pinned", offsetof(struct group, pinned)}, {"period", offsetof(struct group, period_ms)}, {"busy", offsetof(struct group, busy)},
        {"shared", offsetof(struct group, shared)}, {"seconds", offsetof(struct group, seconds)},
    };
    char *path = strchr(value, ':');
    for (size_t each = 0; each < sizeof settings / sizeof *settings; each++)
        if (strcmp(name, settings[each].name) == 0) {
            *(int *)((char *)group + settings[each].at) = number(value);
            return;
        }
    if (strcmp(name, "mib") == 0)
        group->bytes = strtoul(value, NULL, 10) << 20;
    else if (strcmp(name, "use") == 0)
        group->use = strcmp(value, "none") == 0 ? NOTHING : COMPUTE;
    else if (strcmp(name, "kind") == 0) {
        group->kind = *value == 'h' ? HUGE : *value == 'm' ? MAPPED : *value == 'r' ? READ : ANON;
        group->path = path ? path + 1 : NULL;
    } else {
        fprintf(stderr, "guest-access: %s is no setting\n", name);
        exit(2);
    }
}

static void parse(struct group *group, char *text)
{
    *group = (struct group){.threads = 1, .at = NOWHERE, .from = NOWHERE, .bind = NOWHERE, .on = NOWHERE, .bytes = 16 << 20, .file = -1};
    for (char *setting = strtok(text, ","); setting; setting = strtok(NULL, ",")) {
        char *value = strchr(setting, '=');
        if (!value)
            exit(2);
        *value++ = 0;
        set(group, setting, value);
    }
    sem_init(&group->turns, 0, (unsigned)group->busy);
}

static void policy(const struct group *group, int mode, unsigned long nodes)
{
    if (syscall(SYS_mbind, group->memory, group->bytes, mode, nodes ? &nodes : NULL, nodes ? 64 : 0, 0) < 0)
        fail("mbind");
}

static void touch(const struct group *group, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at += PAGE)
        ((volatile char *)group->memory)[at] = (char)(at >> 12) | 1;
}

/* Memory, and its first touch unless each thread does it. */
static void prepare(struct group *group)
{
    size_t huge = 2 << 20;
    if (group->kind == READ || group->kind == MAPPED) {
        group->file = open(group->path, group->kind == READ ? O_RDONLY : O_RDWR);
        if (group->file < 0)
            fail(group->path);
    }
    if (group->kind == READ)
        return;
    char *memory = group->kind == MAPPED ? mmap(NULL, group->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, group->file, 0)
                                         : mmap(NULL, group->bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    if (group->kind == ANON || group->kind == HUGE) {
        memory = (char *)(((size_t)memory + huge - 1) & ~(huge - 1));
        madvise(memory, group->bytes, group->kind == HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
    group->memory = memory;
    unsigned long all = 0;
    syscall(SYS_get_mempolicy, NULL, &all, 64, NULL, MPOL_F_MEMS_ALLOWED);
    if (group->from >= 0)
        policy(group, MPOL_BIND, 1ul << group->from);
    if (group->bind >= 0)
        policy(group, MPOL_BIND, 1ul << group->bind);
    if (group->at == ALL)
        policy(group, MPOL_INTERLEAVE, all);
    if (group->kind != MAPPED && group->at != EACH) {
        run_on(group->at);
        touch(group, 0, group->bytes);
        sched_setaffinity(0, sizeof anywhere, &anywhere);
    }
    if (group->from >= 0)
        policy(group, MPOL_DEFAULT, 0);
    if (group->lock && mlock(group->memory, group->bytes) < 0)
        fail("mlock");
}

static int node_of_page(void *page)
{
    int node = NOWHERE;
    return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0) < 0 ? NOWHERE : node;
}

/* The node of a page of a file that is not mapped: maps it for a moment. */
static int node_of_file_page(int file, size_t at)
{
    volatile char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, (off_t)at);
    if (page == MAP_FAILED)
        return NOWHERE;
    (void)*page;
    int node = node_of_page((void *)page);
    munmap((void *)page, PAGE);
    return node;
}

/* Accesses a piece, and counts it by one page of all memory from first to last: a page that moves because it is accessed was far for that
 * access, and all others still are. */
static void access_piece(const struct group *group, size_t begin, size_t end, size_t first, size_t last, unsigned *random)
{
    static _Thread_local char buffer[64 << 10];
    volatile char sum = 0;
    unsigned cpu_node;
    *random = *random * 1664525 + 1013904223;
    size_t page = first + (*random >> 8) % ((last - first) / PAGE) * PAGE;
    int node = group->kind == READ ? node_of_file_page(group->file, page) : node_of_page(group->memory + page);
    if (group->kind == READ) {
        for (size_t at = begin; at < end; at += sizeof buffer)
            if (pread(group->file, buffer, sizeof buffer, (off_t)at) <= 0)
                fail("pread");
    } else {
        for (size_t at = begin; at < end; at += 64)
            sum += group->memory[at];
    }
    if (node >= 0 && node < NODES && getcpu(NULL, &cpu_node) == 0 && cpu_node < NODES)
        atomic_fetch_add_explicit(&counts[cpu_node][node], end - begin, memory_order_relaxed);
}

struct thread {
    struct group *group;
    int number;
};

static void part_of(const struct thread *thread, const struct group *of, size_t *begin, size_t *end)
{
    size_t each = thread->group->shared ? of->bytes : of->bytes / (size_t)thread->group->threads / CHUNK * CHUNK;
    *begin = thread->group->shared ? 0 : each * (size_t)thread->number;
    *end = *begin + each;
}

static void work(const struct thread *thread)
{
    struct group *own = thread->group;
    unsigned random = (unsigned)thread->number * 7919 + 1;
    long long start = now_ms();
    for (size_t count = 0;; count++) {
        struct group *of = own;
        if (own->period_ms && (now_ms() - start) / own->period_ms % 2)
            of = own + 1;
        size_t begin, end;
        part_of(thread, of, &begin, &end);
        size_t piece = begin + (count + (own->shared ? (size_t)thread->number * 5 : 0)) * CHUNK % (end - begin);
        if (own->busy)
            sem_wait(&own->turns);
        access_piece(of, piece, piece + CHUNK, begin, end, &random);
        if (own->busy) {
            sem_post(&own->turns);
            usleep(1000);
        }
    }
}

static void *run(void *argument)
{
    struct thread *thread = argument;
    struct group *group = thread->group;
    int node = group->on == EACH ? cpu_nodes[thread->number % cpu_node_count] : group->on;
    run_on(node);
    if (group->at == EACH && group->kind != READ) {
        size_t begin, end;
        part_of(thread, group, &begin, &end);
        touch(group, begin, end);
    }
    pthread_barrier_wait(&touched);
    if (!group->pinned)
        sched_setaffinity(0, sizeof anywhere, &anywhere);
    volatile unsigned long sum = 0;
    while (group->use == COMPUTE)
        sum = sum * 31 + 7;
    while (group->use == NOTHING)
        pause();
    work(thread);
    return NULL;
}

int main(int count, char **arguments)
{
    int file, threads = 0, seconds = 0;
    if (count < 4 || count - 3 > GROUPS)
        return 2;
    find_nodes();
    file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, PAGE) < 0)
        fail(arguments[1]);
    counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED)
        fail("mmap");
    for (group_count = 0; group_count < count - 3; group_count++) {
        parse(&groups[group_count], arguments[group_count + 3]);
        threads += groups[group_count].threads;
        seconds = groups[group_count].seconds > seconds ? groups[group_count].seconds : seconds;
    }
    pthread_barrier_init(&touched, NULL, (unsigned)threads + 1);
    for (struct group *group = groups; group < groups + group_count; group++) {
        prepare(group);
        for (int each = 0; each < group->threads; each++) {
            struct thread *thread = malloc(sizeof *thread);
            pthread_t id;
            *thread = (struct thread){group, each};
            if (pthread_create(&id, NULL, run, thread) != 0)
                fail("pthread_create");
        }
    }
    pthread_barrier_wait(&touched);
    if (strcmp(arguments[2], "-") != 0 && creat(arguments[2], 0600) < 0)
        fail("creat");
    if (seconds)
        sleep((unsigned)seconds);
    else
        pause();
    return 0;
}
