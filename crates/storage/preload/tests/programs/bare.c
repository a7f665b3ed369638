// Descriptors that are closed and opened again where the library does not see it.
#include "rules.h"
#include <dlfcn.h>

// A number that cannot be read off the code.
__attribute__((noinline)) static long any(long number, long one, long two, long three) {
    return kernel(number, one, two, three, 0);
}

static void prepare(void) {
    close(make("f", 0));
    close(make("g", 0));
    int f = open("f", O_WRONLY), g = open("g", O_WRONLY);
    put(f, "text of f");
    put(g, "text of g");
    CHECK(close(f) == 0 && close(g) == 0);
}

// The number of f was given to g: every call is about g.
static void means_g(int fd) {
    char text[16] = {0};
    struct stat status, wanted;
    CHECK(pread(fd, text, 9, 0) == 9 && strcmp(text, "text of g") == 0);
    CHECK(read(fd, text, 4) == 4 && lseek(fd, 0, SEEK_CUR) == 4);
    CHECK(fstat(fd, &status) == 0 && stat("g", &wanted) == 0 && status.st_ino == wanted.st_ino);
    CHECK(pwrite(fd, "TEXT", 4, 0) == 4 && write(fd, "+", 1) == 1);
    CHECK(ftruncate(fd, 8) == 0 && fsync(fd) == 0);
    holds("f", "text of f");
    holds("g", "TEXT+of ");
    CHECK(close(fd) == 0 && read(fd, text, 1) == -1 && errno == EBADF);
}

// Open f, and use it, so that the library serves it.
static int used(void) {
    char text[4];
    prepare();
    int fd = open("f", O_RDWR);
    CHECK(fd >= 0 && read(fd, text, 4) == 4 && pread(fd, text, 4, 0) == 4);
    return fd;
}

static void closed_by_an_instruction(void) {
    int fd = used();
    CHECK(kernel(SYS_close, fd, 0, 0, 0) == 0);
    CHECK(kernel(SYS_openat, AT_FDCWD, (long)"g", O_RDWR, 0) == fd);
    means_g(fd);
}

static void closed_by_a_computed_number(void) {
    int fd = used();
    CHECK(any(SYS_close, fd, 0, 0) == 0 && any(SYS_openat, AT_FDCWD, (long)"g", O_RDWR) == fd);
    means_g(fd);
}

static void replaced_by_an_instruction(void) {
    int fd = used(), other = open("g", O_RDWR);
    CHECK(kernel(SYS_dup3, other, fd, 0, 0) == fd && close(other) == 0);
    means_g(fd);
}

static void closed_and_not_opened(void) {
    char text[4];
    int fd = used();
    CHECK(kernel(SYS_close_range, fd, fd, 0, 0) == 0);
    CHECK(read(fd, text, 4) == -1 && errno == EBADF && pwrite(fd, "x", 1, 0) == -1 && errno == EBADF);
    holds("f", "text of f");
}

static void directories_by_an_instruction(void) {
    CHECK(mkdir("a", 0777) == 0 && mkdir("b", 0777) == 0 && close(make("b/there", 0)) == 0);
    int fd = open("a", O_RDONLY | O_DIRECTORY);
    CHECK(faccessat(fd, "there", F_OK, 0) == -1 && errno == ENOENT);
    CHECK(kernel(SYS_close, fd, 0, 0, 0) == 0);
    CHECK(kernel(SYS_openat, AT_FDCWD, (long)"b", O_RDONLY | O_DIRECTORY, 0) == fd);
    CHECK(faccessat(fd, "there", F_OK, 0) == 0 && unlinkat(fd, "there", 0) == 0);
    CHECK(close(fd) == 0 && rmdir("b") == 0);
}

static void *closes_and_opens(void *number) {
    int fd = *(int *)number;
    CHECK(kernel(SYS_close, fd, 0, 0, 0) == 0);
    CHECK(kernel(SYS_openat, AT_FDCWD, (long)"g", O_RDWR, 0) == fd);
    return NULL;
}

static void closed_by_another_thread(void) {
    pthread_t thread;
    int fd = used();
    CHECK(pthread_create(&thread, NULL, closes_and_opens, &fd) == 0 && pthread_join(thread, NULL) == 0);
    means_g(fd);
}

static void all_numbers_closed(void) {
    for (int round = 0; round < 20; round++) {
        int fd = used();
        CHECK(kernel(SYS_close_range, 3, ~0U, 0, 0) == 0 && open("g", O_RDWR) == fd);
        means_g(fd);
    }
}

static void unnamed_files_are_made(void) {
    char text[8] = {0};
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0 && write(fd, "text", 4) == 4 && kernel(SYS_pread64, fd, (long)text, 8, 0) == 4);
    CHECK(strcmp(text, "text") == 0 && linkat(fd, "", AT_FDCWD, "named", AT_EMPTY_PATH) == 0);
    holds("named", "text");
}

// As programs do that show a title in lists of processes.
static void overwrite_environment(void) {
    extern char **environ;
    char **last = environ;
    while (last[1] != NULL)
        last++;
    char *first = environ[0];
    memset(first, ' ', *last + strlen(*last) - first);
    static char *none[1];
    environ = none;
}

static void titles_leave_writes_direct(void) {
    char block[4096] = "content", name[16];
    close(make("attached", 0));
    overwrite_environment();
    for (int file = 0; file < 5; file++) {
        snprintf(name, sizeof name, "file%d", file);
        // The kernel opens the files of such a program.
        int fd = make(name, 0);
        for (int turn = 0; turn < 100; turn++)
            CHECK(pwrite(fd, block, sizeof block, turn * sizeof block) == sizeof block);
        CHECK(close(fd) == 0);
    }
}

static const struct rule rules[] = {
    {"unnamed_files_are_made", unnamed_files_are_made},
    {"all_numbers_closed", all_numbers_closed},
    {"closed_by_an_instruction", closed_by_an_instruction},
    {"closed_by_a_computed_number", closed_by_a_computed_number},
    {"replaced_by_an_instruction", replaced_by_an_instruction},
    {"closed_and_not_opened", closed_and_not_opened},
    {"directories_by_an_instruction", directories_by_an_instruction},
    {"closed_by_another_thread", closed_by_another_thread},
    {"titles_leave_writes_direct", titles_leave_writes_direct},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
