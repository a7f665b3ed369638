/* Memory of the guest's programs: it has so much of a kind, says so by making a file, and waits.
 * usage: guest-memory KIND MIB READY
 *   small    pages of 4 KiB          huge    huge pages of the kernel's making
 *   pinned   small ones, of which io_uring pins the first MiB
 *   shared   small ones that a child has, too
 *   bound    small ones bound to node 0
 *   sharing  small ones, half of them from node 0 and half from node 1, that a thread on each reads all the time
 *   sparse   a TiB of addresses, of which MIB pieces have a page each
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void pin(char *memory)
{
    struct io_uring_params parameters;
    struct iovec first = {memory, 1 << 20};
    memset(&parameters, 0, sizeof parameters);
    int ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &first, 1) < 0)
        fail("io_uring");
}

/* Two threads on CPU 0 and 1 touch a half each; then both may run anywhere, and read all of it. */
static char *shared;
static size_t shared_bytes;
static pthread_barrier_t touched;
static cpu_set_t anywhere;

static void *share(void *number)
{
    size_t own = (size_t)number, half = shared_bytes / 2;
    volatile char sum = 0;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(own, &here);
    if (sched_setaffinity(0, sizeof here, &here) < 0)
        fail("sched_setaffinity");
    for (size_t at = own * half; at < (own + 1) * half; at += 4096)
        shared[at] = 1;
    pthread_barrier_wait(&touched);
    sched_setaffinity(0, sizeof anywhere, &anywhere);
    for (;;)
        for (size_t at = 0; at < shared_bytes; at += 64)
            sum += shared[at];
    return NULL;
}

static void start_sharing(char *memory, size_t bytes)
{
    shared = memory, shared_bytes = bytes;
    sched_getaffinity(0, sizeof anywhere, &anywhere);
    pthread_barrier_init(&touched, NULL, 3);
    for (size_t number = 0; number < 2; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, share, (void *)number) != 0)
            fail("pthread_create");
    }
    pthread_barrier_wait(&touched);
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    const char *kind = arguments[1];
    size_t bytes = strtoul(arguments[2], NULL, 10) << 20;
    size_t huge = 2 << 20, step = 4096, all = bytes;
    if (strcmp(kind, "sparse") == 0) {
        all = (size_t)1 << 40;
        step = all / (bytes >> 20);
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *memory = mmap(NULL, all + huge, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    memory = (char *)(((size_t)memory + huge - 1) & ~(huge - 1));
    madvise(memory, all, strcmp(kind, "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    unsigned long first_node = 1;
    if (strcmp(kind, "bound") == 0 && syscall(SYS_mbind, memory, all, MPOL_BIND, &first_node, 8, 0) < 0)
        fail("mbind");
    if (strcmp(kind, "sharing") == 0)
        start_sharing(memory, all);
    for (size_t at = 0; strcmp(kind, "sharing") != 0 && at < all; at += step)
        memory[at] = (char)(at >> 12) | 1;
    if (strcmp(kind, "pinned") == 0)
        pin(memory);
    if (strcmp(kind, "shared") == 0 && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    if (creat(arguments[3], 0600) < 0)
        fail("creat");
    for (;;)
        pause();
}
