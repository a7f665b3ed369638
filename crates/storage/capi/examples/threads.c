/* Threads that share a volume and a file: each appends its lines, and every line is there once, whole.
 * cc -pthread threads.c $(pkg-config --cflags --libs egeria) -o threads && ./threads POOL */
#include <egeria.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, LINES = 200, BYTES = 16 };

static egeria_volume *volume;
static egeria_file *file;

static void fail(const char *doing) {
    fprintf(stderr, "threads: %s: %s\n", doing, egeria_message());
    exit(1);
}

static void *append(void *which) {
    int thread = (int)(intptr_t)which;
    for (int line = 0; line < LINES; line++) {
        char text[BYTES + 1];
        snprintf(text, sizeof text, "%5d %8d\n ", thread, line);
        off_t at = -1;
        if (egeria_append(file, text, BYTES, &at) != BYTES || at % BYTES != 0) fail("append");
        /* A file of its own meanwhile, and an error that is this thread's alone. */
        char name[64];
        snprintf(name, sizeof name, "/file-%d", thread);
        egeria_file *own = egeria_open(volume, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (!own || egeria_pwrite(own, text, BYTES, 0) != BYTES || egeria_close(own) != 0) fail("own file");
        snprintf(name, sizeof name, "/missing-%d", thread);
        if (egeria_open(volume, name, O_RDONLY, 0) || !strstr(egeria_message(), name)) fail("missing file");
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: threads POOL\n");
        return 2;
    }
    volume = egeria_attach(words[1], 0);
    if (!volume) fail("attach");
    file = egeria_open(volume, "/lines", O_RDWR | O_CREAT | O_EXCL, 0644);
    if (!file) fail("open");
    pthread_t threads[THREADS];
    for (intptr_t thread = 0; thread < THREADS; thread++)
        if (pthread_create(&threads[thread], NULL, append, (void *)thread)) return 1;
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);

    static char seen[THREADS][LINES];
    struct stat status;
    if (egeria_fstat(file, &status) != 0 || status.st_size != THREADS * LINES * BYTES) fail("size");
    for (off_t at = 0; at < status.st_size; at += BYTES) {
        char text[BYTES + 1] = "";
        int thread, line;
        if (egeria_pread(file, text, BYTES, at) != BYTES) fail("read");
        if (sscanf(text, "%d %d", &thread, &line) != 2 || seen[thread][line]++) fail("a line is torn or twice there");
    }
    egeria_close(file);
    egeria_detach(volume);
    printf("%d lines\n", THREADS * LINES);
    return 0;
}
