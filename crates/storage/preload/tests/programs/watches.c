// What watchers hear of calls of their own process and of others: the same on every file system.
#include "rules.h"
#include <sys/fanotify.h>
#include <sys/inotify.h>

static int watch;

static const char *names_of(uint32_t mask) {
    static char text[200];
    static const struct {
        uint32_t bit;
        const char *name;
    } all[] = {{IN_ACCESS, " ACCESS"}, {IN_MODIFY, " MODIFY"}, {IN_ATTRIB, " ATTRIB"}, {IN_CLOSE_WRITE, " CLOSE_WRITE"},
               {IN_CLOSE_NOWRITE, " CLOSE_NOWRITE"}, {IN_OPEN, " OPEN"}, {IN_MOVED_FROM, " MOVED_FROM"},
               {IN_MOVED_TO, " MOVED_TO"}, {IN_CREATE, " CREATE"}, {IN_DELETE, " DELETE"}, {IN_DELETE_SELF, " DELETE_SELF"},
               {IN_MOVE_SELF, " MOVE_SELF"}, {IN_IGNORED, " IGNORED"}, {IN_ISDIR, " (directory)"}};
    *text = 0;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (mask & all[at].bit)
            strcat(text, all[at].name);
    return text;
}

// Prints what came since the last time.
static void show(const char *of) {
    char room[16384] __attribute__((aligned(8)));
    ssize_t bytes = read(watch, room, sizeof room);
    printf("%s:\n", of);
    for (ssize_t at = 0; at < bytes;) {
        struct inotify_event *event = (struct inotify_event *)(room + at);
        printf("  %d %s%s\n", event->wd, event->len ? event->name : "-", names_of(event->mask));
        at += sizeof *event + event->len;
    }
}

static void works_with(const char *name, const char *other) {
    char text[100] = "some text";
    struct iovec part = {text, 9};
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0);
    show("open or create");
    CHECK(write(fd, text, 9) == 9 && pwrite(fd, text, 9, 100) == 9 && writev(fd, &part, 1) == 9);
    show("writes");
    CHECK(pread(fd, text, 9, 0) == 9 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, 9) == 9 && readv(fd, &part, 1) == 9);
    show("reads");
    CHECK(ftruncate(fd, 5) == 0);
    show("ftruncate");
    CHECK(fchmod(fd, 0600) == 0 && chmod(name, 0640) == 0);
    show("modes");
    CHECK(futimens(fd, NULL) == 0);
    show("times");
    CHECK(close(fd) == 0);
    show("close");
    CHECK((fd = open(name, O_RDONLY)) >= 0 && read(fd, text, 5) == 5 && close(fd) == 0);
    show("reading");
    CHECK((fd = open(name, O_WRONLY | O_TRUNC)) >= 0 && close(fd) == 0);
    show("emptying");
    FILE *stream = fopen(name, "a+");
    CHECK(stream && fputs("more", stream) >= 0 && fclose(stream) == 0);
    show("stream");
    CHECK(truncate(name, 2) == 0);
    show("truncate");
    CHECK(rename(name, other) == 0 && link(other, name) == 0 && unlink(other) == 0);
    show("names");
}

static void directories_and_files(void) {
    uint32_t mask = IN_ALL_EVENTS;
    CHECK((watch = inotify_init1(IN_NONBLOCK)) >= 0 && mkdir("d", 0755) == 0);
    CHECK(close(make("d/old", 0)) == 0 && close(make("alone", 0)) == 0);
    CHECK(inotify_add_watch(watch, "d", mask) == 1 && inotify_add_watch(watch, "alone", mask) == 2);
    works_with("d/new", "d/newer");
    works_with("d/old", "d/older");
    works_with("alone", "d/from");
    CHECK(mkdir("d/sub", 0755) == 0 && rename("d/sub", "d/sub2") == 0 && rmdir("d/sub2") == 0);
    show("directories");
    pid_t child = fork();
    if (child == 0) {
        char text[4];
        int fd = open("d/new", O_RDWR);
        CHECK(fd >= 0 && pread(fd, text, 2, 0) == 2 && pwrite(fd, text, 2, 1) == 2 && close(fd) == 0);
        _exit(0);
    }
    ended_well(child);
    show("of a child");
    CHECK(unlink("alone") == 0 && unlink("d/new") == 0 && unlink("d/old") == 0);
    show("unlink");
    CHECK(rename("d", "e") == 0);
    show("rename of the directory");
    CHECK(rmdir("e") == 0);
    show("rmdir");
}

// A watch of a file that is open, and of its directory, by two instances.
static void open_files(void) {
    int fd = make("open", 0), other = inotify_init1(IN_NONBLOCK);
    char text[16] = "text";
    put(fd, "some text");
    CHECK((watch = inotify_init1(IN_NONBLOCK)) >= 0);
    CHECK(inotify_add_watch(watch, ".", IN_ALL_EVENTS) == 1 && inotify_add_watch(other, "open", IN_MODIFY) == 1);
    CHECK(pread(fd, text, 4, 0) == 4 && write(fd, text, 4) == 4 && ftruncate(fd, 3) == 0);
    show("data");
    CHECK(unlink("open") == 0);
    show("unlink while it is open");
    CHECK(write(fd, text, 4) == 4 && close(fd) == 0);
    show("after unlink");
    watch = other;
    show("of the file");
}

// Of files, and of all in a directory.
static void marks(void) {
    char room[8192] __attribute__((aligned(8))), text[8] = "text";
    int group = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
    uint64_t mask = FAN_ACCESS | FAN_MODIFY | FAN_OPEN | FAN_CLOSE | FAN_EVENT_ON_CHILD;
    CHECK(group >= 0 && mkdir("marked", 0755) == 0);
    CHECK(fanotify_mark(group, FAN_MARK_ADD, mask, AT_FDCWD, "marked") == 0);
    int fd = open("marked/f", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, text, 4) == 4 && pread(fd, text, 4, 0) == 4 && close(fd) == 0);
    ssize_t bytes = read(group, room, sizeof room);
    struct fanotify_event_metadata *event = (void *)room;
    for (; FAN_EVENT_OK(event, bytes); event = FAN_EVENT_NEXT(event, bytes)) {
        struct stat facts;
        CHECK(fstat(event->fd, &facts) == 0 && close(event->fd) == 0);
        printf("%llx of %ld bytes\n", (unsigned long long)event->mask, (long)facts.st_size);
    }
}

static int other_waits[2], other_goes[2];

// Another process, whose reads are asked for. (Of files that were open before, kernels of today do not ask.)
static void reads_when_marked(void) {
    char text[8];
    CHECK(write(other_waits[1], "w", 1) == 1 && read(other_goes[0], text, 1) == 1);
    int fd = open("asked/f", O_RDWR);
    ssize_t first = pread(fd, text, 4, 0);
    int error = errno;
    ssize_t second = pread(fd, text, 4, 0);
    printf("%ld %s, %ld\n", (long)first, first < 0 ? strerror(error) : "", (long)second);
    fflush(stdout);
    _exit(fd >= 0 ? 0 : 1);
}

static void answers(int group, int count) {
    char room[4096] __attribute__((aligned(8)));
    while (count > 0) {
        ssize_t bytes = read(group, room, sizeof room);
        struct fanotify_event_metadata *event = (void *)room;
        CHECK(bytes > 0);
        for (; FAN_EVENT_OK(event, bytes); event = FAN_EVENT_NEXT(event, bytes), count--) {
            static int accesses;
            int denied = event->mask & FAN_ACCESS_PERM && accesses++ % 2 == 0;
            struct fanotify_response response = {event->fd, denied ? FAN_DENY : FAN_ALLOW};
            CHECK(write(group, &response, sizeof response) == sizeof response && close(event->fd) == 0);
            printf("asked %llx\n", (unsigned long long)event->mask);
        }
    }
}

static void permissions(void) {
    char text[8];
    CHECK(pipe(other_waits) == 0 && pipe(other_goes) == 0 && mkdir("asked", 0755) == 0);
    put(make("asked/f", 0), "data");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        reads_when_marked();
    CHECK(read(other_waits[0], text, 1) == 1);
    int group = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
    CHECK(group >= 0 && fanotify_mark(group, FAN_MARK_ADD, FAN_ACCESS_PERM | FAN_OPEN_PERM, AT_FDCWD, "asked/f") == 0);
    CHECK(write(other_goes[1], "g", 1) == 1);
    answers(group, 3);
    ended_well(child);
}

// `F_NOTIFY`.
static void notices(void) {
    sigset_t set;
    struct timespec none = {0, 0};
    int directory, file, count = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && mkdir("noticed", 0755) == 0);
    CHECK((directory = open("noticed", O_RDONLY | O_DIRECTORY)) >= 0 && fcntl(directory, F_SETSIG, SIGRTMIN) == 0);
    CHECK(fcntl(directory, F_NOTIFY, DN_CREATE | DN_MODIFY | DN_RENAME | DN_DELETE | DN_MULTISHOT) == 0);
    CHECK((file = open("noticed/f", O_RDWR | O_CREAT, 0600)) >= 0 && write(file, "data", 4) == 4 && close(file) == 0);
    CHECK(rename("noticed/f", "noticed/g") == 0 && unlink("noticed/g") == 0);
    while (sigtimedwait(&set, NULL, &none) == SIGRTMIN)
        count++;
    printf("%d signals\n", count);
}

int main(int count, char **arguments) {
    const struct rule rules[] = {
        {"directories_and_files", directories_and_files},
        {"open_files", open_files},
        {"marks", marks},
        {"permissions", permissions},
        {"notices", notices},
        {0},
    };
    return run_rule(count, arguments, rules);
}
