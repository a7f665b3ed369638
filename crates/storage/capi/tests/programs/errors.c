/* Wrong arguments give an errno and a line, and no call crosses into memory that is not there. */
#include <egeria.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define expect(what)                                                                                              \
    do {                                                                                                          \
        errno = 0;                                                                                                \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "errors.c:%d: %s: errno %d: %s\n", __LINE__, #what, errno, egeria_message());         \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)
#define fails(call, number) expect((long)(call) == -1 && errno == (number) && *egeria_message())
#define gives_null(call, number) expect((call) == NULL && errno == (number) && *egeria_message())

int main(int count, char **words) {
    (void)count;
    const char *pool = words[1];
    struct stat status;
    egeria_entry entry;
    egeria_part part;
    egeria_space_report space;
    char letter;
    expect(*egeria_message() == 0);
    gives_null(egeria_attach(NULL, 0), EINVAL);
    gives_null(egeria_attach("/nonexistent/pool", 0), ENOENT);
    gives_null(egeria_attach("/etc/passwd", 0), errno == EINVAL ? EINVAL : EPERM);
    gives_null(egeria_attach(pool, 8), EINVAL);
    egeria_volume *volume = egeria_attach(pool, 0);
    expect(volume);

    gives_null(egeria_open(NULL, "/a", O_RDONLY, 0), EINVAL);
    gives_null(egeria_open(volume, NULL, O_RDONLY, 0), EINVAL);
    gives_null(egeria_open(volume, "", O_RDONLY, 0), ENOENT);
    gives_null(egeria_open(volume, "/a", O_RDONLY, 0), ENOENT);
    gives_null(egeria_open(volume, "/", O_RDONLY, 0), EISDIR);
    gives_null(egeria_open(volume, "/../a", O_RDONLY, 0), EXDEV);
    gives_null(egeria_open(volume, "/a", O_RDWR | O_CREAT | O_APPEND, 0600), EINVAL);
    gives_null(egeria_open(volume, "/a", O_RDONLY | O_TRUNC, 0600), EINVAL);
    gives_null(egeria_open(volume, "/a", O_ACCMODE, 0600), EINVAL);
    static char name[6000];
    memset(name, 'n', 300);
    gives_null(egeria_open(volume, name, O_RDWR | O_CREAT, 0600), ENAMETOOLONG);
    memset(name, '/', 5000);
    fails(egeria_stat(volume, name, &status), ENAMETOOLONG);

    egeria_file *file = egeria_open(volume, "/a", O_RDWR | O_CREAT, 0640);
    expect(file && egeria_pwrite(file, "abc", 3, 0) == 3);
    gives_null(egeria_open(volume, "/a", O_RDWR | O_CREAT | O_EXCL, 0640), EEXIST);
    gives_null(egeria_open(volume, "/a/", O_RDONLY, 0), ENOTDIR);
    gives_null(egeria_open(volume, "/a/b", O_RDWR | O_CREAT, 0640), ENOTDIR);
    fails(egeria_pread(NULL, &letter, 1, 0), EINVAL);
    fails(egeria_pread((egeria_file *)volume, &letter, 1, 0), EBADF);
    fails(egeria_pread((egeria_file *)((char *)file + 1), &letter, 1, 0), EINVAL);
    fails(egeria_pread(file, &letter, 1, -1), EINVAL);
    fails(egeria_pread(file, &letter, SIZE_MAX, 0), EINVAL);
    fails(egeria_pwrite(file, "x", 1, LLONG_MAX), EINVAL);
    fails(egeria_pread(file, NULL, 3, 0), EFAULT);
    fails(egeria_pwrite(file, NULL, 3, 0), EFAULT);
    fails(egeria_append(file, (void *)8, 3, NULL), EFAULT);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(munmap(page + 4096, 4096) == 0);
    fails(egeria_pwrite(file, page + 4095, 2, 0), EFAULT);
    expect(egeria_pread(file, page + 4093, 3, 0) == 3 && memcmp(page + 4093, "abc", 3) == 0);
    fails(egeria_ftruncate(file, -1), EINVAL);
    fails(egeria_fstat(file, NULL), EINVAL);
    fails(egeria_fsync(NULL), EINVAL);
    fails(egeria_fwhere(file, NULL, 1), EINVAL);
    expect(egeria_fwhere(file, NULL, 0) == 1);
    expect(egeria_where(volume, "/a", &part, 1) == 1 && part.offset_bytes == 0 && part.length_bytes >= 3);
    struct iovec buffers[3] = {{"12", 2}, {"", 0}, {"345", 3}};
    fails(egeria_pwritev(file, buffers, -1, 0), EINVAL);
    fails(egeria_pwritev(file, NULL, 1, 0), EINVAL);
    fails(egeria_pwritev(file, buffers, 1025, 0), EINVAL);
    expect(egeria_pwritev(file, buffers, 0, 0) == 0 && egeria_pwritev(file, buffers, 3, 0) == 5);
    char halves[2][3];
    struct iovec places[2] = {{halves[0], 3}, {halves[1], 3}};
    expect(egeria_preadv(file, places, 2, 0) == 5 && memcmp(halves, "12345", 5) == 0);
    struct iovec torn[2] = {{halves[0], 3}, {NULL, 3}};
    expect(egeria_preadv(file, torn, 2, 0) == 3);
    egeria_file *reader = egeria_open(volume, "/a", O_RDONLY, 0);
    fails(egeria_pwrite(reader, "x", 1, 0), EBADF);
    fails(egeria_ftruncate(reader, 0), EBADF);
    expect(egeria_close(reader) == 0);
    egeria_file *writer = egeria_open(volume, "/a", O_WRONLY, 0);
    fails(egeria_pread(writer, &letter, 1, 0), EBADF);
    expect(egeria_close(writer) == 0);

    fails(egeria_stat(volume, "/a", NULL), EINVAL);
    fails(egeria_mkdir(volume, "/", 0755), EEXIST);
    fails(egeria_mkdir(volume, "/a", 0755), EEXIST);
    fails(egeria_mkdir(volume, "/b/c", 0755), ENOENT);
    expect(egeria_mkdir(volume, "/b/", 0751) == 0 && egeria_stat(volume, "b", &status) == 0);
    expect(S_ISDIR(status.st_mode) && (status.st_mode & 07777) == 0751 && status.st_uid == geteuid());
    fails(egeria_rename(volume, "/b", "/b/below"), EINVAL);
    fails(egeria_rename(volume, "/a", NULL), EINVAL);
    fails(egeria_rename(volume, "/", "/c"), EBUSY);
    fails(egeria_rename(volume, "/a", "/b"), EISDIR);
    expect(egeria_rename(volume, "/a", "/b/a") == 0);
    fails(egeria_rmdir(volume, "/b"), ENOTEMPTY);
    fails(egeria_rmdir(volume, "/"), EBUSY);
    fails(egeria_unlink(volume, "/b"), EISDIR);
    fails(egeria_unlink(volume, "/a"), ENOENT);
    gives_null(egeria_opendir(volume, "/b/a"), ENOTDIR);
    egeria_directory *directory = egeria_opendir(volume, "/b");
    fails(egeria_readdir(directory, NULL), EINVAL);
    expect(egeria_readdir(directory, &entry) == 1 && strcmp(entry.name, "a") == 0);
    expect(egeria_readdir(directory, &entry) == 0 && egeria_closedir(directory) == 0);
    fails(egeria_space(volume, NULL), EINVAL);
    expect(egeria_space(volume, &space) == 0 && space.free_bytes > 0 && space.free_bytes < space.total_bytes);

    egeria_volume *looking = egeria_attach(pool, EGERIA_READ_ONLY);
    expect(looking);
    gives_null(egeria_open(looking, "/b/a", O_RDWR, 0), EROFS);
    gives_null(egeria_open(looking, "/new", O_RDWR | O_CREAT, 0600), EROFS);
    fails(egeria_mkdir(looking, "/new", 0700), EROFS);
    expect(egeria_stat(looking, "/b/a", &status) == 0 && status.st_size == 5 && egeria_detach(looking) == 0);

    /* A child that no handler of fork ran in is known all the same. */
    pid_t child = syscall(SYS_fork);
    if (child == 0) {
        int refused = egeria_pread(file, &letter, 1, 0) == -1 && errno == ENOTCONN;
        _exit(refused && egeria_close(file) == 0 && egeria_detach(volume) == 0 ? 0 : 1);
    }
    int ended;
    expect(waitpid(child, &ended, 0) == child && ended == 0);
    expect(egeria_pread(file, &letter, 1, 0) == 1);

    fails(egeria_close(NULL), EINVAL);
    fails(egeria_close((egeria_file *)volume), EBADF);
    fails(egeria_detach(NULL), EINVAL);
    /* Files outlive the handle that they were opened by. */
    expect(egeria_detach(volume) == 0 && egeria_pread(file, &letter, 1, 0) == 1 && egeria_close(file) == 0);
    printf("all refused\n");
    return 0;
}
