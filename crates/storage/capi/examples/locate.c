/* Writes a file into a volume, reads it back, and shows which NUMA node holds it.
 * cc locate.c $(pkg-config --cflags --libs egeria) -o locate && ./locate POOL */
#include <egeria.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(void) {
    fprintf(stderr, "locate: %s\n", egeria_message());
    exit(1);
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: locate POOL\n");
        return 2;
    }
    egeria_volume *volume = egeria_attach(words[1], 0);
    if (!volume) fail();
    if (egeria_mkdir(volume, "/results", 0755) != 0) fail();
    egeria_file *file = egeria_open(volume, "/results/today", O_RDWR | O_CREAT, 0644);
    if (!file) fail();

    char text[] = "durable when egeria_pwrite returns", copy[sizeof text];
    if (egeria_pwrite(file, text, sizeof text, 0) != sizeof text) fail();
    if (egeria_pread(file, copy, sizeof copy, 0) != sizeof copy) fail();
    if (strcmp(text, copy) != 0) abort();

    egeria_part parts[16];
    ssize_t found = egeria_fwhere(file, parts, 16);
    if (found < 0) fail();
    for (ssize_t part = 0; part < found && part < 16; part++)
        printf("byte %ju on: %ju bytes on node %u\n", (uintmax_t)parts[part].offset_bytes,
               (uintmax_t)parts[part].length_bytes, parts[part].node);

    egeria_directory *directory = egeria_opendir(volume, "/results");
    if (!directory) fail();
    egeria_entry entry;
    while (egeria_readdir(directory, &entry) == 1) printf("%s\n", entry.name);
    egeria_closedir(directory);
    egeria_close(file);
    if (egeria_detach(volume) != 0) fail();
    return 0;
}
