/* Memory of the guest's programs: it has so much of a kind, says so by making a file, and waits.
 * usage: guest-memory KIND MIB READY
 *   small    pages of 4 KiB          huge    huge pages of the kernel's making
 *   pinned   small ones, of which io_uring pins the first MiB
 *   shared   small ones that a child has, too
 *   bound    small ones bound to node 0
 *   sparse   a TiB of addresses, of which MIB pieces have a page each
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
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
    for (size_t at = 0; at < all; at += step)
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
