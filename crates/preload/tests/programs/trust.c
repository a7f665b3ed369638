// A program that goes on while mounts come and go, and gives up rights on the way.
#include "rules.h"

// Reads each file that it is told the path of, and says the first byte.
static void reads_what_it_is_told(void) {
    char path[PATH_MAX], block[4096];
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        for (int i = 0; i < 10; i++)
            CHECK(pread(fd, block, sizeof block, 0) > 0);
        CHECK(close(fd) == 0);
        printf("%c\n", block[0]);
        fflush(stdout);
    }
}

static const struct rule rules[] = {
    {"reads_what_it_is_told", reads_what_it_is_told},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
