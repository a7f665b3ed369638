/* Says, for the placement suite, from where to where the programs of a control group access memory, and what moves.
 * usage: guest-watch SOURCE GROUP BEGIN_MS END_MS PERIOD_MS [LATEST_MS]
 *   SOURCE: the counters of guest-access; "anon": all memory that the processes have in their page tables, but files;
 *     else a directory or file, whose cached pages are used. For these two a process uses all of it alike while it runs.
 *   GROUP: directory of the control group       BEGIN_MS: what the clock begins with, perhaps less than 0
 *   LATEST_MS: goes on until then, at most, while something changed in the last REST_MS: pages or masks moved, or the local share differs
 * Each period it prints a line of JSON: t (s), migrated, hinted (of the kernel, since the machine started), masks (of threads, changed
 * by anything), wandered (threads that run on another node than before), busy (CPUs in use), flows (node of CPU, node of memory, amount).
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 16, CPUS = 64, THREADS = 4096, PAGE = 4096, SAMPLES = 512, REST_MS = 10000, MOVED_PAGES = 64 };

struct seen {
    int id, node, times, period;
    unsigned long long ran_ns;
    cpu_set_t mask;
};

static struct seen threads[THREADS];
static int thread_count, period_number;
static int node_of_cpu[CPUS];
static long masks_changed, wandered;
static double flows[NODES][NODES];

static void find_nodes(void)
{
    for (int cpu = 0; cpu < CPUS; cpu++)
        for (int node = 0; node < NODES; node++) {
            char path[96];
            snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%d", node, cpu);
            if (access(path, F_OK) == 0)
                node_of_cpu[cpu] = node;
        }
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static long long vmstat(const char *name)
{
    char line[128], found[64];
    long long value, sum = 0;
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %lld", found, &value) == 2 && strcmp(found, name) == 0)
            sum = value;
    if (file)
        fclose(file);
    return sum;
}

static struct seen *find(int id)
{
    for (int each = 0; each < thread_count; each++)
        if (threads[each].id == id)
            return &threads[each];
    if (thread_count == THREADS)
        return NULL;
    threads[thread_count] = (struct seen){.id = id};
    return &threads[thread_count++];
}

/* How long the thread ran since the last period, ns; where it is and may run is compared. */
static double look_at_thread(int process, int id, int *node)
{
    char path[96], text[512];
    unsigned long long ran_ns = 0;
    int cpu = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, id);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &ran_ns) != 1)
        ran_ns = 0;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, id);
    file = fopen(path, "r");
    char *field = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    for (int number = 2; field && number < 39; number++)
        field = strchr(field + 1, ' ');
    if (field)
        cpu = atoi(field);
    if (file)
        fclose(file);
    struct seen *thread = find(id);
    cpu_set_t mask;
    if (!thread || cpu < 0 || cpu >= CPUS || sched_getaffinity(id, sizeof mask, &mask) < 0)
        return 0;
    *node = node_of_cpu[cpu];
    double ran = thread->times ? (double)(ran_ns - thread->ran_ns) : 0;
    /* A thread that begins sets its own mask. */
    masks_changed += thread->times > 1 && !CPU_EQUAL(&mask, &thread->mask);
    wandered += thread->times > 1 && thread->node != *node && ran > 0;
    thread->mask = mask, thread->node = *node, thread->ran_ns = ran_ns, thread->period = period_number;
    thread->times++;
    return ran;
}

/* What a process has in its page tables, by node. */
static void mapped_memory(int process, double *pages)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/numa_maps", process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        int is_shared = strstr(line, "/dev/zero") || strstr(line, "/SYSV") || strstr(line, "/dev/shm");
        if (strstr(line, " file=") && !is_shared)
            continue;
        for (char *at = line; (at = strstr(at, " N")); at++) {
            int node;
            double count;
            if (isdigit((unsigned char)at[2]) && sscanf(at, " N%d=%lf", &node, &count) == 2 && node >= 0 && node < NODES)
                pages[node] += count;
        }
    }
    if (file)
        fclose(file);
}

static double cached[NODES];

/* The cached pages of a file, by samples. */
static int look_at_file(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)place;
    int file = type == FTW_F && status->st_size >= PAGE ? open(path, O_RDONLY) : -1;
    if (file < 0)
        return 0;
    size_t pages = (size_t)status->st_size / PAGE, step = pages / SAMPLES + 1;
    char *memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return 0;
    madvise(memory, pages * PAGE, MADV_RANDOM);
    for (size_t page = 0; page < pages; page += step) {
        unsigned char is_here = 0;
        char *at = memory + page * PAGE;
        if (mincore(at, PAGE, &is_here) < 0 || !(is_here & 1))
            continue;
        (void)*(volatile char *)at;
        void *address = at;
        int node = -1;
        if (syscall(SYS_move_pages, 0, 1ul, &address, NULL, &node, 0) == 0 && node >= 0 && node < NODES)
            cached[node] += (double)step;
    }
    munmap(memory, pages * PAGE);
    return 0;
}

/* A process that ran on these nodes for so long used this memory alike. */
static void add(const double *ran, const double *pages)
{
    double all = 0;
    for (int node = 0; node < NODES; node++)
        all += pages[node];
    for (int from = 0; from < NODES && all > 0; from++)
        for (int to = 0; to < NODES; to++)
            flows[from][to] += ran[from] * pages[to] / all;
}

/* How long the group's threads ran, ns; flows, where nobody counts them. */
static double look_at_group(const char *group, const char *source, int is_counted)
{
    char path[512];
    double all = 0;
    int process;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *processes = fopen(path, "r");
    while (processes && fscanf(processes, "%d", &process) == 1) {
        double ran[NODES] = {0}, pages[NODES] = {0}, sum = 0;
        snprintf(path, sizeof path, "/proc/%d/task", process);
        DIR *tasks = opendir(path);
        for (struct dirent *task; tasks && (task = readdir(tasks));) {
            int node = 0, id = atoi(task->d_name);
            double of_thread = id ? look_at_thread(process, id, &node) : 0;
            ran[node] += of_thread;
            sum += of_thread;
        }
        if (tasks)
            closedir(tasks);
        all += sum;
        if (is_counted || sum == 0)
            continue;
        if (strcmp(source, "anon") == 0)
            mapped_memory(process, pages);
        add(ran, strcmp(source, "anon") == 0 ? pages : cached);
    }
    if (processes)
        fclose(processes);
    int kept = 0;
    for (int each = 0; each < thread_count; each++)
        if (threads[each].period == period_number)
            threads[kept++] = threads[each];
    thread_count = kept;
    return all;
}

/* Whether a run is over for good: since its reference, nothing moved for REST_MS. */
static int is_at_rest(long long now, long long migrated)
{
    static long long since, pages;
    static long masks;
    static double share;
    double near = 0, all = 0;
    for (int from = 0; from < NODES; from++)
        for (int to = 0; to < NODES; to++) {
            all += flows[from][to];
            near += from == to ? flows[from][to] : 0;
        }
    double local = all > 0 ? near / all : 0;
    double difference = local > share ? local - share : share - local;
    if (migrated - pages > MOVED_PAGES || masks != masks_changed || difference > 0.03) {
        since = now, pages = migrated, masks = masks_changed, share = local;
        return 0;
    }
    return now - since >= REST_MS;
}

int main(int count, char **arguments)
{
    if (count != 6 && count != 7)
        return 2;
    const char *source = arguments[1];
    long long begin = atoll(arguments[3]), end = atoll(arguments[4]), period = atoll(arguments[5]), start = now_ms() - begin;
    long long latest = count == 7 ? atoll(arguments[6]) : end;
    int rests = 0;
    struct stat status;
    int file = open(source, O_RDONLY);
    int is_counted = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == PAGE;
    unsigned long long (*counts)[NODES] = is_counted ? mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0) : NULL;
    static unsigned long long before[NODES][NODES];
    find_nodes();
    long long last = begin;
    for (long long at = begin; at <= end || (at <= latest && !rests); at += period) {
        long long now = now_ms() - start;
        if (now < at)
            usleep((unsigned)(at - now) * 1000);
        now = now_ms() - start;
        period_number++;
        memset(flows, 0, sizeof flows);
        memset(cached, 0, sizeof cached);
        if (!is_counted && strcmp(source, "anon") != 0)
            nftw(source, look_at_file, 16, FTW_PHYS);
        double ran = look_at_group(arguments[2], source, is_counted);
        long long migrated = vmstat("pgmigrate_success");
        printf("{\"t\":%.3f,\"migrated\":%lld,\"hinted\":%lld,\"masks\":%ld,\"wandered\":%ld,\"busy\":%.2f,\"flows\":[", (double)now / 1000,
               migrated, vmstat("numa_pages_migrated"), masks_changed, wandered,
               now > last ? ran / 1e6 / (double)(now - last) : 0.0);
        const char *comma = "";
        for (int from = 0; from < NODES; from++)
            for (int to = 0; to < NODES; to++) {
                if (is_counted) {
                    unsigned long long found = counts[from][to];
                    flows[from][to] = (double)(found - before[from][to]);
                    before[from][to] = found;
                }
                if (at == begin || flows[from][to] <= 0)
                    continue;
                printf("%s[%d,%d,%.0f]", comma, from, to, flows[from][to]);
                comma = ",";
            }
        printf("]}\n");
        fflush(stdout);
        rests = is_at_rest(now, migrated);
        last = now;
    }
    return 0;
}
