// An allocator that maps memory and reads a file of the mount whenever it is asked: a hook that
// allocated from it would come back into itself.
#include "rules.h"

static __thread int busy;
static int file = -1;

static void *take(size_t bytes) {
    size_t all = (bytes + 16 + 4095) & ~(size_t)4095;
    if (!busy) {
        char text[8];
        busy = 1;
        int config = open("/proc/self/statm", O_RDONLY);
        if (config >= 0) {
            if (read(config, text, sizeof text) < 0)
                _exit(3);
            close(config);
        }
        if (file >= 0 && pread(file, text, sizeof text, 0) != 6)
            _exit(4);
        busy = 0;
    }
    size_t *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    *memory = all;
    return memory + 2;
}

void *malloc(size_t bytes) { return take(bytes); }
void *calloc(size_t count, size_t bytes) { return take(count * bytes); }
void free(void *memory) {
    if (memory)
        munmap((size_t *)memory - 2, ((size_t *)memory)[-2]);
}
void *realloc(void *memory, size_t bytes) {
    void *fresh = take(bytes);
    if (memory && fresh) {
        size_t room = ((size_t *)memory)[-2] - 16;
        memcpy(fresh, memory, room < bytes ? room : bytes);
        free(memory);
    }
    return fresh;
}

static void *use_memory(void *argument) {
    for (int i = 0; i < 200; i++)
        free(realloc(malloc((size_t)i * 10 + 1), 5000));
    return argument;
}

int main(void) {
    // The first data call on a file of ours comes from inside malloc.
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0);
    // Streams allocate. The kernel hears of their close later, so the file read below is another one.
    FILE *stream = fopen("h", "w");
    CHECK(fputs("stream", stream) >= 0 && fclose(stream) == 0);
    int made = open("g", O_WRONLY | O_CREAT, 0644);
    CHECK(made >= 0);
    put(made, "stream");
    CHECK(close(made) == 0 && (file = open("g", O_RDONLY)) >= 0);
    free(malloc(100));
    put(fd, "direct");
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        CHECK(pthread_create(&threads[t], NULL, use_memory, NULL) == 0);
    for (int t = 0; t < 4; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    holds("f", "direct");
    return 0;
}
