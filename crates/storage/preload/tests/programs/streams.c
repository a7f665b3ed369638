// Streams of libc over files of a volume.
#include "rules.h"
#include <wchar.h>

static void keep(const char *name, const char *text) {
    FILE *stream = fopen(name, "w");
    CHECK(stream && fputs(text, stream) >= 0 && fclose(stream) == 0);
}

static void streams_cost_no_requests(void) {
    char text[64], *line = NULL;
    size_t room = 0;
    for (int i = 0; i < 500; i++) {
        keep("f", "one\ntwo\nthree\n");
        FILE *stream = fopen("f", "r");
        CHECK(stream && getline(&line, &room, stream) == 4 && strcmp(line, "one\n") == 0);
        CHECK(ftell(stream) == 4 && ungetc('x', stream) == 'x' && fgetc(stream) == 'x');
        CHECK(fseek(stream, -6, SEEK_END) == 0 && fgets(text, sizeof text, stream) && strcmp(text, "three\n") == 0);
        CHECK(fgetc(stream) == EOF && feof(stream) && !ferror(stream) && fclose(stream) == 0);
        stream = fopen("f", "r+e");
        CHECK(stream && fcntl(fileno(stream), F_GETFD) == FD_CLOEXEC);
        CHECK(fseek(stream, 4, SEEK_SET) == 0 && fputs("TWO", stream) >= 0 && fclose(stream) == 0);
        stream = fopen("f", "a+");
        CHECK(stream && fgetc(stream) == 'o' && fseek(stream, 0, SEEK_SET) == 0);
        CHECK(fprintf(stream, "%s %d", "four", 4) == 6 && fclose(stream) == 0);
        stream = fopen("f", "a");
        CHECK(stream && ftell(stream) == 20 && fputc('\n', stream) == '\n' && fclose(stream) == 0);
        CHECK(fopen("f", "wx") == NULL && errno == EEXIST && fopen("none", "r+") == NULL && errno == ENOENT);
        int fd = open("f", O_RDWR);
        CHECK(lseek(fd, 4, SEEK_SET) == 4 && (stream = fdopen(fd, "r+b")) && fileno(stream) == fd);
        CHECK(fread(text, 1, 3, stream) == 3 && memcmp(text, "TWO", 3) == 0 && fclose(stream) == 0);
        CHECK(close(fd) == -1 && errno == EBADF);
    }
    free(line);
}

static void what_is_under_a_stream_is_a_file_like_any_other(void) {
    char text[64] = {0}, path[64], found[256] = {0};
    keep("f", "0123456789");
    FILE *stream = fopen("f", "r+");
    CHECK(stream && fgetc(stream) == '0' && fflush(stream) == 0 && lseek(fileno(stream), 0, SEEK_CUR) == 1);
    CHECK(read(fileno(stream), text, 2) == 2 && memcmp(text, "12", 2) == 0);
    CHECK(fgetc(stream) == '3' && ftruncate(fileno(stream), 5) == 0 && fgetc(stream) != EOF);
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(stream), 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "01234", 5) == 0);
    CHECK(fseek(stream, 0, SEEK_SET) == 0 && fputs("abc", stream) >= 0 && fflush(stream) == 0);
    CHECK(memcmp(mapped, "abc34", 5) == 0 && munmap(mapped, 4096) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(stream));
    CHECK(readlink(path, found, sizeof found - 1) > 0 && strcmp(strrchr(found, '/'), "/f") == 0 && fclose(stream) == 0);
    // What is written at last, and in another order.
    stream = fopen("g", "w");
    FILE *other = fopen("g", "r");
    CHECK(stream && other && fputs("later", stream) >= 0 && fgetc(other) == EOF && fclose(stream) == 0);
    clearerr(other);
    CHECK(fgets(text, sizeof text, other) && strcmp(text, "later") == 0 && fclose(other) == 0);
    // A child has what the stream still holds, too, and the same position.
    stream = fopen("h", "w");
    CHECK(stream && fputs("twice ", stream) >= 0);
    fflush(stream);
    pid_t child = fork();
    if (child == 0) {
        fputs("child ", stream);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(fputs("parent", stream) >= 0 && fclose(stream) == 0);
    holds("h", "twice child parent");
    // A command writes to it.
    stream = fopen("h", "w");
    CHECK(stream && fputs("first ", stream) >= 0 && fflush(stream) == 0);
    child = fork();
    if (child == 0) {
        dup2(fileno(stream), 1);
        execlp("echo", "echo", "-n", "second", NULL);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(fputs(" third", stream) >= 0 && fclose(stream) == 0);
    holds("h", "first second third");
    // Closed behind its back: what it still has is lost, as anywhere.
    stream = fopen("h", "w");
    CHECK(stream && fputs("lost", stream) >= 0 && close(fileno(stream)) == 0);
    CHECK(fclose(stream) == EOF && errno == EBADF);
    // Another file under its number.
    stream = fopen("h", "w");
    int fd = open("g", O_WRONLY | O_TRUNC);
    CHECK(dup2(fd, fileno(stream)) == fileno(stream) && close(fd) == 0);
    CHECK(fputs("in g", stream) >= 0 && fclose(stream) == 0);
    holds("g", "in g");
    holds("h", "");
    // A directory.
    stream = fopen(".", "r");
    CHECK(stream && fgetc(stream) == EOF && errno == EISDIR && ferror(stream) && fclose(stream) == 0);
    CHECK(fopen(".", "w") == NULL && errno == EISDIR);
    // Wide characters, and a buffer of the program's.
    stream = fopen("h", "w+");
    CHECK(stream && setvbuf(stream, text, _IOFBF, sizeof text) == 0 && fwide(stream, 1) > 0);
    CHECK(fputwc(L'w', stream) == L'w' && fseek(stream, 0, SEEK_SET) == 0 && fgetwc(stream) == L'w' && fclose(stream) == 0);
    // Without a buffer.
    stream = fopen("h", "w");
    setvbuf(stream, NULL, _IONBF, 0);
    CHECK(fputs("at once", stream) >= 0);
    holds("h", "at once");
    CHECK(fclose(stream) == 0);
}

static void streams_begin_again(void) {
    keep("f", "of f");
    keep("g", "of g");
    char text[64] = {0};
    FILE *stream = fopen("f", "r+");
    int fd = fileno(stream);
    CHECK(stream && fgetc(stream) == 'o' && freopen("g", "r+", stream) == stream && fileno(stream) == fd);
    CHECK(fgets(text, sizeof text, stream) && strcmp(text, "of g") == 0);
    CHECK(freopen("f", "w", stream) == stream && fputs("new", stream) >= 0);
    CHECK(freopen("g", "a", stream) == stream && fputs(" and more", stream) >= 0 && fclose(stream) == 0);
    holds("f", "new");
    holds("g", "of g and more");
    stream = fopen("f", "w");
    CHECK(fputs("kept", stream) >= 0 && freopen(NULL, "r", stream) == stream);
    CHECK(fgets(text, sizeof text, stream) && strcmp(text, "kept") == 0 && fclose(stream) == 0);
    CHECK(freopen("out", "w", stdout) == stdout && printf("printed") == 7 && fflush(stdout) == 0);
    holds("out", "printed");
    CHECK(freopen("/dev/null", "w", stdout) == stdout);
}

static void all_is_written_at_exit(void) {
    FILE *stream = fopen("exit", "w");
    CHECK(stream && fputs("at exit", stream) >= 0);
    stream = fopen("exit2", "a");
    CHECK(stream && fputs("at exit", stream) >= 0 && fcloseall() == 0);
    holds("exit2", "at exit");
}

static volatile int is_over;
static volatile long rounds;
static pthread_mutex_t of_the_program = PTHREAD_MUTEX_INITIALIZER;

static void take(void) { pthread_mutex_lock(&of_the_program); }
static void give(void) { pthread_mutex_unlock(&of_the_program); }

// Under libc's lock of all streams.
static void *flushes_all(void *name) {
    FILE *stream = fopen(name, "w+");
    CHECK(stream);
    while (!is_over) {
        CHECK(fprintf(stream, "line %ld\n", rounds) > 0 && fflush(NULL) == 0);
        if (++rounds % 50 == 0) {
            rewind(stream);
            CHECK(ftruncate(fileno(stream), 0) == 0);
        }
    }
    CHECK(fclose(stream) == 0);
    return NULL;
}

// Under a lock that a handler of forks takes, too.
static void *writes_under_a_lock(void *name) {
    while (!is_over) {
        take();
        int fd = open(name, O_CREAT | O_RDWR | O_APPEND, 0644);
        CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
        give();
        rounds++;
    }
    return NULL;
}

static void forks_beside_locks(void) {
    pthread_t threads[4];
    CHECK(pthread_atfork(take, give, give) == 0);
    CHECK(pthread_create(&threads[0], NULL, flushes_all, "one") == 0);
    CHECK(pthread_create(&threads[1], NULL, flushes_all, "two") == 0);
    CHECK(pthread_create(&threads[2], NULL, writes_under_a_lock, "three") == 0);
    CHECK(pthread_create(&threads[3], NULL, writes_under_a_lock, "four") == 0);
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) {
            FILE *stream = fopen("child", "w");
            CHECK(stream && fputs("of a child", stream) >= 0 && fclose(stream) == 0);
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    holds("child", "of a child");
}

// As logs are rotated: a file takes the number under a stream that was there before.
static void streams_that_were_there_before_write(void) {
    FILE *other = fopen("/dev/null", "w"), *log = fopen("/dev/null", "a");
    CHECK(log && fputs("old", log) >= 0 && fflush(log) == 0);
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(fd >= 0 && dup2(fd, fileno(log)) == fileno(log) && close(fd) == 0);
    CHECK(fputs("new", log) >= 0 && fclose(log) == 0);
    holds("log", "new");
    CHECK(close(fileno(other)) == 0 && open("other", O_WRONLY | O_CREAT, 0644) == fileno(other));
    CHECK(fputs("by its number", other) >= 0 && fclose(other) == 0);
    holds("other", "by its number");
}

static unsigned seed;
static unsigned below(unsigned end) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % end;
}

// Random calls on two streams over one file; every answer is printed.
static void streams_answer_as_libc(void) {
    static const char *modes[] = {"r", "r+", "w", "w+", "a", "a+", "rb", "w+x", "ae", "r+c"};
    char text[9000], path[32];
    for (unsigned round = 0; round < 300; round++) {
        FILE *streams[2] = {NULL, NULL};
        seed = round;
        snprintf(path, sizeof path, "s%u", round % 7);
        for (int step = 0; step < 40; step++) {
            unsigned which = below(2), call = below(16);
            FILE **at = &streams[which], *stream = *at;
            long long answer = 0;
            errno = 0;
            if (!stream || call == 0) {
                if (stream)
                    answer = fclose(stream);
                const char *mode = modes[below(10)];
                if (below(4) == 0) {
                    int fd = open(path, O_RDWR | O_CREAT | (below(2) ? O_APPEND : 0), 0644);
                    *at = fdopen(fd, mode);
                    if (!*at)
                        close(fd);
                } else {
                    *at = fopen(path, mode);
                }
                printf("%u %d open %s %lld %d %d\n", round, step, mode, answer, *at != NULL, *at ? 0 : errno);
                continue;
            }
            size_t bytes = below(3) ? below(50) : below(sizeof text);
            memset(text, 'a' + below(26), sizeof text);
            switch (call) {
            case 1: case 2: answer = fwrite(text, 1, bytes, stream); break;
            case 3: case 4: answer = fread(text, 1, bytes, stream); break;
            case 5: answer = fseek(stream, below(9000), SEEK_SET); break;
            case 6: answer = fseek(stream, -(long)below(90), SEEK_CUR); break;
            case 7: answer = fseek(stream, -(long)below(90), SEEK_END); break;
            case 8: answer = ftell(stream); break;
            case 9: answer = fflush(stream); break;
            case 10: answer = fgetc(stream); break;
            case 11: answer = fputc('p', stream); break;
            case 12: answer = fgets(text, bytes + 1, stream) != NULL; break;
            case 13: answer = feof(stream) * 2 + ferror(stream); clearerr(stream); break;
            case 14: answer = fseek(stream, 0, SEEK_CUR); answer += ungetc('u', stream); break;
            case 15: rewind(stream); answer = ftruncate(fileno(stream), below(5000)); break;
            }
            unsigned sum = 0;
            for (size_t i = 0; i < sizeof text; i++)
                sum = sum * 31 + (unsigned char)text[i];
            printf("%u %d %u %zu %lld %d %u\n", round, step, call, bytes, answer, errno, sum);
        }
        for (int i = 0; i < 2; i++)
            if (streams[i])
                fclose(streams[i]);
        int fd = open(path, O_RDONLY);
        ssize_t bytes = read(fd, text, sizeof text);
        unsigned sum = 0;
        for (ssize_t i = 0; i < bytes; i++)
            sum = sum * 31 + (unsigned char)text[i];
        printf("%u file %zd %u\n", round, bytes, sum);
        close(fd);
    }
}

static const struct rule rules[] = {
    {"streams_cost_no_requests", streams_cost_no_requests},
    {"what_is_under_a_stream_is_a_file_like_any_other", what_is_under_a_stream_is_a_file_like_any_other},
    {"streams_begin_again", streams_begin_again},
    {"forks_beside_locks", forks_beside_locks},
    {"streams_that_were_there_before_write", streams_that_were_there_before_write},
    {"all_is_written_at_exit", all_is_written_at_exit},
    {"streams_answer_as_libc", streams_answer_as_libc},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
