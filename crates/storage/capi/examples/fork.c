/* What a child may do: not use its parent's volume, but attach its own.
 * cc fork.c $(pkg-config --cflags --libs egeria) -o fork && ./fork POOL */
#include <egeria.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define expect(what)                                                                       \
    do {                                                                                   \
        if (!(what)) {                                                                     \
            fprintf(stderr, "fork.c:%d: %s: %s\n", __LINE__, #what, egeria_message());     \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

static void child(const char *pool, egeria_volume *volume, egeria_file *file) {
    char letter;
    struct stat status;
    expect(egeria_pread(file, &letter, 1, 0) == -1 && errno == ENOTCONN);
    expect(strstr(egeria_message(), "attach it again"));
    expect(egeria_pwrite(file, "x", 1, 0) == -1 && errno == ENOTCONN);
    expect(egeria_stat(volume, "/shared", &status) == -1 && errno == ENOTCONN);
    expect(egeria_unlink(volume, "/shared") == -1 && errno == ENOTCONN);
    /* This frees memory, and closes nothing of the parent's. */
    expect(egeria_close(file) == 0 && egeria_detach(volume) == 0);

    volume = egeria_attach(pool, 0);
    expect(volume);
    file = egeria_open(volume, "/shared", O_RDWR, 0);
    expect(file);
    expect(egeria_pread(file, &letter, 1, 0) == 1 && letter == 'p');
    expect(egeria_pwrite(file, "c", 1, 0) == 1);
    expect(egeria_close(file) == 0 && egeria_detach(volume) == 0);
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: fork POOL\n");
        return 2;
    }
    egeria_volume *volume = egeria_attach(words[1], 0);
    expect(volume);
    egeria_file *file = egeria_open(volume, "/shared", O_RDWR | O_CREAT, 0644);
    expect(file && egeria_pwrite(file, "p", 1, 0) == 1);
    /* A file without a name lives on as long as the parent has it open, whatever children do. */
    egeria_file *nameless = egeria_open(volume, "/gone", O_RDWR | O_CREAT, 0644);
    expect(nameless && egeria_pwrite(nameless, "kept", 4, 0) == 4 && egeria_unlink(volume, "/gone") == 0);

    for (int turn = 0; turn < 4; turn++) {
        expect(egeria_pwrite(file, "p", 1, 0) == 1);
        pid_t made = fork();
        if (made == 0) {
            child(words[1], volume, file);
            /* Ends in different ways: with what C does at the end, without, and killed. */
            if (turn == 1) exit(0);
            if (turn == 2) kill(getpid(), 9);
            _exit(0);
        }
        int status, killed = turn == 2;
        expect(made > 0 && waitpid(made, &status, 0) == made);
        expect(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        char letter, text[4];
        expect(egeria_pread(file, &letter, 1, 0) == 1 && letter == 'c');
        expect(egeria_pread(nameless, text, 4, 0) == 4 && memcmp(text, "kept", 4) == 0);
    }
    expect(egeria_close(nameless) == 0 && egeria_close(file) == 0 && egeria_detach(volume) == 0);
    printf("parent and children kept apart\n");
    return 0;
}
