// Plug-ins with a libc that the library does not stand in front of. They are this program once more, as shared objects.
#include "rules.h"
#include <dlfcn.h>

// In the plug-in: with the libc that it found.
int close_and_open(int fd, const char *name) {
    return close(fd) == 0 ? open(name, O_RDWR) : -1;
}

static void plugin_means_g(int deep, int apart, int before) {
    char text[16] = {0};
    close(make("f", 0));
    close(make("g", 0));
    int f = open("f", O_RDWR), g = open("g", O_RDWR);
    put(f, "text of f");
    put(g, "text of g");
    CHECK(close(g) == 0 && pread(f, text, 4, 0) == 4);
    const char *path = getenv("EGERIA_TEST_PLUGIN");
    int flags = RTLD_NOW | (deep ? RTLD_DEEPBIND : 0);
    void *plugin = apart ? dlmopen(LM_ID_NEWLM, path, flags) : dlopen(path, flags);
    CHECK(plugin != NULL);
    int (*call)(int, const char *) = dlsym(plugin, "close_and_open");
    CHECK(call != NULL);
    int other = before ? -1 : open("f", O_RDONLY);
    CHECK(call(f, "g") == f);
    CHECK(pread(f, text, 9, 0) == 9 && strcmp(text, "text of g") == 0);
    CHECK(pwrite(f, "TEXT", 4, 0) == 4 && close(f) == 0);
    holds("f", "text of f");
    holds("g", "TEXT of g");
    CHECK(before || close(other) == 0);
}

static void deeply_bound(void) { plugin_means_g(1, 0, 1); }
static void deeply_bound_beside_open_files(void) { plugin_means_g(1, 0, 0); }
static void in_a_name_space(void) { plugin_means_g(0, 1, 1); }
static void plainly_bound(void) { plugin_means_g(0, 0, 1); }

static const struct rule rules[] = {
    {"deeply_bound", deeply_bound},
    {"deeply_bound_beside_open_files", deeply_bound_beside_open_files},
    {"in_a_name_space", in_a_name_space},
    {"plainly_bound", plainly_bound},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_rule(count, arguments, rules); }
