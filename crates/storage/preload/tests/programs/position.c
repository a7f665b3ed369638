// Where read, write and lseek are, alone and shared.
#include "rules.h"

static void follows_read_write_and_seek(void) {
    char text[16] = {0};
    int fd = make("f", 0);
    put(fd, "hello world");
    CHECK(lseek(fd, 0, SEEK_CUR) == 11);
    CHECK(lseek(fd, 6, SEEK_SET) == 6);
    CHECK(read(fd, text, 3) == 3 && memcmp(text, "wor", 3) == 0);
    CHECK(lseek(fd, -2, SEEK_CUR) == 7);
    CHECK(read(fd, text, 16) == 4 && memcmp(text, "orld", 4) == 0);
    CHECK(read(fd, text, 16) == 0);
    CHECK(lseek(fd, -1, SEEK_END) == 10);
    put(fd, "D!");
    CHECK(lseek(fd, 0, SEEK_CUR) == 12);
    CHECK(pread(fd, text, 5, 0) == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == 12);
    errno = 0;
    CHECK(lseek(fd, -13, SEEK_CUR) == -1 && errno == EINVAL);
    CHECK(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
    CHECK(lseek(fd, 0, 77) == -1 && errno == EINVAL);
    CHECK(lseek(fd, 0, SEEK_CUR) == 12);
    CHECK(lseek(fd, 100, SEEK_SET) == 100);
    put(fd, "x");
    CHECK(lseek(fd, 0, SEEK_END) == 101);
    CHECK(lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 0, SEEK_CUR) == 0);
    CHECK(lseek(fd, 0, SEEK_HOLE) == 101 && lseek(fd, 0, SEEK_CUR) == 101);
    CHECK(pread(fd, text, 2, 99) == 2 && text[0] == 0 && text[1] == 'x');
}

static void appends_at_the_end(void) {
    int fd = make("f", O_APPEND), other = open("f", O_RDWR);
    put(fd, "one");
    CHECK(lseek(fd, 0, SEEK_CUR) == 3);
    CHECK(pwrite(other, "two", 3, 3) == 3);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    put(fd, "three");
    CHECK(lseek(fd, 0, SEEK_CUR) == 11);
    CHECK(pwrite(fd, "four", 4, 0) == 4);
    holds("f", "onetwothreefour");
    CHECK(lseek(fd, 0, SEEK_CUR) == 11);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    CHECK(pwrite(fd, "O", 1, 0) == 1);
    holds("f", "Onetwothreefour");
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
    put(fd, "!");
    holds("f", "Onetwothreefour!");
}

static void append_flag_set_by_another_process(void) {
    int fd = make("f", 0);
    put(fd, "start");
    pid_t child = fork();
    if (child == 0) {
        CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
        _exit(0);
    }
    ended_well(child);
    CHECK(pwrite(fd, "end", 3, 0) == 3);
    holds("f", "startend");
}

static void dup_shares_the_offset(void) {
    char text[8] = {0};
    int fd = make("f", 0);
    put(fd, "ab");
    int copy = dup(fd), high = fcntl(fd, F_DUPFD, 50), over = make("g", 0);
    CHECK(copy >= 0 && high >= 50);
    CHECK(dup2(fd, over) == over);
    put(copy, "cd");
    put(high, "ef");
    put(over, "gh");
    put(fd, "ij");
    CHECK(close(fd) == 0);
    CHECK(lseek(copy, 0, SEEK_CUR) == 10 && lseek(over, 0, SEEK_CUR) == 10);
    holds("f", "abcdefghij");
    CHECK(lseek(high, 4, SEEK_SET) == 4);
    CHECK(read(over, text, 4) == 4 && strcmp(text, "efgh") == 0);
    int fresh = make("h", 0), twin = dup(fresh);
    put(fresh, "12");
    put(twin, "34");
    holds("h", "1234");
    CHECK(dup3(copy, fresh, O_CLOEXEC) == fresh && close(copy) == 0);
    put(fresh, "k");
    put(twin, "56");
    holds("h", "123456");
    CHECK(lseek(high, 0, SEEK_CUR) == 9);
}

static void dup_to_standard_stream(void) {
    int fd = make("f", 0);
    put(fd, "a");
    int saved = dup(1);
    CHECK(dup2(fd, 1) == 1);
    put(1, "b");
    CHECK(system("echo c") == 0);
    put(fd, "d");
    CHECK(printf("e") == 1 && fflush(stdout) == 0);
    put(fd, "f");
    CHECK(dup2(saved, 1) == 1);
    put(fd, "g");
    holds("f", "abc\ndefg");
}

static void fork_shares_the_offset(void) {
    int fd = make("f", 0), late = make("g", 0);
    put(fd, "parent ");
    pid_t child = fork();
    if (child == 0) {
        put(fd, "child ");
        put(late, "one ");
        _exit(0);
    }
    ended_well(child);
    put(fd, "parent");
    put(late, "two");
    holds("f", "parent child parent");
    holds("g", "one two");
    CHECK(lseek(fd, 0, SEEK_CUR) == 19);
}

static void fork_children_write_in_turn(void) {
    int fd = make("f", 0);
    put(fd, "|");
    pid_t children[4];
    for (int c = 0; c < 4; c++) {
        if ((children[c] = fork()) == 0) {
            for (int i = 0; i < 200; i++)
                put(fd, "0123456789abcdef");
            _exit(0);
        }
    }
    for (int c = 0; c < 4; c++)
        ended_well(children[c]);
    CHECK(lseek(fd, 0, SEEK_CUR) == 1 + 4 * 200 * 16);
    struct stat facts;
    CHECK(fstat(fd, &facts) == 0 && facts.st_size == 1 + 4 * 200 * 16);
    for (int i = 0; i < 800; i++) {
        char text[17] = {0};
        CHECK(pread(fd, text, 16, 1 + i * 16) == 16 && strcmp(text, "0123456789abcdef") == 0);
    }
}

struct reader {
    int fd;
    int *seen;
};

static void *read_records(void *argument) {
    struct reader *reader = argument;
    uint32_t record[16];
    while (read(reader->fd, record, sizeof record) == sizeof record)
        __atomic_add_fetch(&reader->seen[record[0]], 1, __ATOMIC_RELAXED);
    return NULL;
}

static void read_with_threads(int *seen, int fd, int threads) {
    pthread_t thread[8];
    struct reader reader = {fd, seen};
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    for (int t = 0; t < threads; t++)
        CHECK(pthread_create(&thread[t], NULL, read_records, &reader) == 0);
    for (int t = 0; t < threads; t++)
        CHECK(pthread_join(thread[t], NULL) == 0);
}

static void threads_share_the_offset(void) {
    enum { RECORDS = 4000 };
    static int seen[RECORDS];
    int fd = make("f", 0);
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint32_t record[16] = {i};
        CHECK(write(fd, record, sizeof record) == sizeof record);
    }
    read_with_threads(seen, fd, 3);
    int copy = open("f", O_RDONLY), dummy = dup(copy);
    read_with_threads(seen, dummy, 3);
    for (int i = 0; i < RECORDS; i++)
        CHECK(seen[i] == 2);
}

static void fd_passed_over_a_socket(void) {
    int pair[2], go[2];
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(recvmsg(pair[1], &message, 0) == 1);
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        put(fd, "two ");
        CHECK(lseek(fd, 0, SEEK_CUR) == 8);
        CHECK(pwrite(fd, "O", 1, 0) == 1);
        _exit(0);
    }
    int fd = make("f", 0);
    put(fd, "one ");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(pair[0], &message, 0) == 1);
    ended_well(child);
    put(fd, "three");
    holds("f", "One two three");
}

static int only_fd(struct msghdr *message) {
    int fd;
    CHECK(CMSG_FIRSTHDR(message) && CMSG_FIRSTHDR(message)->cmsg_type == SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof fd);
    return fd;
}

// Two files, sent before or after their sender wrote to them; in the first case the library does not yet
// know a file when they are sent.
static void pass_two_fds(int used_before) {
    int pair[2], fds[2];
    char space[2][CMSG_SPACE(sizeof(int))] = {{0}}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct mmsghdr messages[2] = {{{0}}};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    for (int i = 0; i < 2; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = space[i],
                                              .msg_controllen = sizeof space[i]};
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2; i++)
            CHECK(recvmmsg(pair[1], messages + i, 1, 0, NULL) == 1);
        CHECK(read(pair[1], &byte, 1) == 1);
        for (int i = 0; i < 2; i++)
            put(only_fd(&messages[i].msg_hdr), i == 0 ? "here " : "there ");
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = make(i == 0 ? "f" : "g", 0);
        if (used_before)
            put(fds[i], "first ");
        struct cmsghdr *header = CMSG_FIRSTHDR(&messages[i].msg_hdr);
        *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &fds[i], sizeof(int));
    }
    CHECK(sendmmsg(pair[0], messages, 2, 0) == 2);
    for (int i = 0; i < 2 && !used_before; i++)
        put(fds[i], "first ");
    CHECK(write(pair[0], &byte, 1) == 1);
    ended_well(child);
    put(fds[0], "end");
    put(fds[1], "end");
    holds("f", "first here end");
    holds("g", "first there end");
}

static void fds_passed_in_several_messages(void) {
    pass_two_fds(1);
}

static void fds_passed_before_their_first_use(void) {
    pass_two_fds(0);
}

enum { LINES = 3000 };

static void *write_lines(void *argument) {
    for (int i = 0; i < LINES; i++)
        put((int)(intptr_t)argument, "direct line  16\n");
    return NULL;
}

static void *print_lines(void *argument) {
    for (int i = 0; i < LINES; i++)
        CHECK(fputs("stream line  16\n", argument) >= 0 && fflush(argument) == 0);
    return NULL;
}

// One position for a thread and a process that write, and a stream that writes past the hooks.
static void streams_and_writers_share_the_position(void) {
    int fd = make("f", 0), direct = 0, stream = 0;
    FILE *file = fdopen(dup(fd), "w");
    pthread_t thread;
    pid_t child = fork();
    if (child == 0) {
        write_lines((void *)(intptr_t)fd);
        _exit(0);
    }
    CHECK(pthread_create(&thread, NULL, print_lines, file) == 0);
    write_lines((void *)(intptr_t)fd);
    CHECK(pthread_join(thread, NULL) == 0);
    ended_well(child);
    CHECK(lseek(fd, 0, SEEK_CUR) == 3 * LINES * 16);
    for (int i = 0; i < 3 * LINES; i++) {
        char line[17] = {0};
        CHECK(pread(fd, line, 16, i * 16) == 16);
        direct += strcmp(line, "direct line  16\n") == 0;
        stream += strcmp(line, "stream line  16\n") == 0;
    }
    CHECK(direct == 2 * LINES && stream == LINES);
}

static void lock_relative_to_the_position(void) {
    int fd = make("f", 0);
    put(fd, "0123456789");
    CHECK(lockf(fd, F_LOCK, 5) == 0);
    pid_t child = fork();
    if (child == 0) {
        int other = open("f", O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        CHECK(fcntl(other, F_GETLK, &lock) == 0);
        CHECK(lock.l_type == F_WRLCK && lock.l_start == 10 && lock.l_len == 5);
        _exit(0);
    }
    ended_well(child);
}

static const struct rule rules[] = {
    {"follows_read_write_and_seek", follows_read_write_and_seek},
    {"appends_at_the_end", appends_at_the_end},
    {"append_flag_set_by_another_process", append_flag_set_by_another_process},
    {"dup_shares_the_offset", dup_shares_the_offset},
    {"dup_to_standard_stream", dup_to_standard_stream},
    {"fork_shares_the_offset", fork_shares_the_offset},
    {"fork_children_write_in_turn", fork_children_write_in_turn},
    {"threads_share_the_offset", threads_share_the_offset},
    {"fds_passed_in_several_messages", fds_passed_in_several_messages},
    {"fds_passed_before_their_first_use", fds_passed_before_their_first_use},
    {"fd_passed_over_a_socket", fd_passed_over_a_socket},
    {"streams_and_writers_share_the_position", streams_and_writers_share_the_position},
    {"lock_relative_to_the_position", lock_relative_to_the_position},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
