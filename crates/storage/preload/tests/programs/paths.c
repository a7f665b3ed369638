// Hostile paths mean with the library what they mean in the kernel, on the same mount.
#include "rules.h"

static uint64_t state = 0x9E3779B97F4A7C15;

static uint64_t below(uint64_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static char point[PATH_MAX], path[3 * PATH_MAX], long_name[257];
static int directory, gone;

static const char *part(void) {
    static char link[8];
    const char *parts[] = {"a", "b", "c", "a", "b", "c", ".", ".", "..", "..", "", "...", "\xff\xfe", long_name, long_name + 1,
                           "loop", "out", "back", "root", "cwd", "nobody"};
    if (below(12) == 0) {
        snprintf(link, sizeof link, "l%d", (int)below(44));
        return link;
    }
    return parts[below(sizeof parts / sizeof *parts)];
}

static void add(const char *text) {
    if (strlen(path) + strlen(text) < sizeof path)
        strcat(path, text);
}

// Into path.
static void draw(void) {
    path[0] = 0;
    switch (below(12)) {
    case 0: add(point); add("/"); break;
    case 1: add("/"); add(point); add("//"); break;
    case 2: add("/tmp/."); add(point + strlen("/tmp")); add("/"); break;
    case 3: add("/proc/self/cwd/"); break;
    case 4: snprintf(path, 64, "/proc/self/fd/%d/", directory); break;
    case 5: snprintf(path, 64, "/dev/fd/%d/../", below(2) ? directory : gone); break;
    case 6: return;
    }
    if (below(12) == 0) {
        const char *filling[] = {"./", "//", "a/../", "../"};
        const char *with = filling[below(4)];
        for (size_t bytes = PATH_MAX - below(40); strlen(path) < bytes;)
            add(with);
    }
    for (int parts = 1 + below(5); parts > 0; parts--) {
        add(part());
        if (parts > 1 || below(4) == 0)
            add(below(6) ? "/" : "///");
    }
}

static void make_tree(void) {
    char name[64], target[64];
    memset(long_name, 'n', 256);
    CHECK(getcwd(point, sizeof point) && strncmp(point, "/tmp/", 5) == 0);
    const char *directories[] = {"a", "a/b", "a/b/c", "b", "b/a", "gone", long_name + 1, "\xff\xfe", "nobody"};
    for (int i = 0; i < 9; i++)
        CHECK(mkdir(directories[i], 0755) == 0);
    const char *files[] = {"c", "a/a", "b/c", "a/b/a", "nobody/a"};
    for (int i = 0; i < 5; i++)
        CHECK(close(make(files[i], 0)) == 0);
    CHECK(chmod("nobody", 0) == 0);
    for (int i = 0; i < 44; i++) {
        snprintf(name, sizeof name, "l%d", i);
        snprintf(target, sizeof target, i == 43 ? "a" : "l%d", i + 1);
        CHECK(symlink(target, name) == 0);
    }
    CHECK(symlink("loop", "loop") == 0 && symlink("../../../../..", "out") == 0 && symlink(point, "back") == 0);
    CHECK(symlink("/", "a/root") == 0 && symlink("/proc/self/cwd/a", "cwd") == 0 && symlink("../b/", "a/back") == 0);
    CHECK((directory = open("a", O_RDONLY | O_DIRECTORY)) >= 0 && (gone = open("gone", O_RDONLY | O_DIRECTORY)) >= 0);
    CHECK(rmdir("gone") == 0);
}

static void compare(long with, long without, const char *call, int at) {
    if (with == without)
        return;
    fprintf(stderr, "%s of \"%s\" from %d: %ld with the library, %ld without\n", call, path, at, with, without);
    _exit(1);
}

static long answer(long value) { return value == -1 ? -errno : value; }

// Keep a descriptor instead of the one before it; its number is no part of the answer.
static long keep(long *kept, long answered) {
    if (*kept >= 0)
        close(*kept);
    *kept = answered;
    return answered < 0 ? answered : 0;
}

// The kernel does not forget the links that it followed when it begins a walk again, because something changed under it: so
// both ways now and then answer ELOOP for half as many links as they follow otherwise.
#define SAME(name, with, without)                                                           \
    do {                                                                                    \
        long with_library, bare;                                                            \
        int tries = 20;                                                                     \
        do                                                                                  \
            with_library = (with), bare = (without);                                        \
        while (with_library != bare && (with_library == -ELOOP || bare == -ELOOP) && --tries); \
        compare(with_library, bare, name, at);                                              \
    } while (0)

static void look(void) {
    struct stat with = {0}, without = {0};
    int starts[] = {AT_FDCWD, AT_FDCWD, directory, gone, -1};
    int at = starts[below(5)], flags = below(2) ? AT_SYMLINK_NOFOLLOW : 0, mode = below(8);
    int how = below(2) ? O_RDONLY : O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    draw();
    SAME("stat", answer(fstatat(at, path, &with, flags)), kernel(SYS_newfstatat, at, (long)path, (long)&without, flags));
    compare(with.st_ino, without.st_ino, "inode", at);
    compare(with.st_dev, without.st_dev, "device", at);
    SAME("access", answer(faccessat(at, path, mode, 0)), kernel(SYS_faccessat, at, (long)path, mode, 0));
    long opened = -1, other = -1;
    SAME("open", keep(&opened, answer(openat(at, path, how))), keep(&other, kernel(SYS_openat, at, (long)path, how, 0)));
    if (opened < 0)
        return;
    CHECK(fstat(opened, &with) == 0 && kernel(SYS_fstat, other, (long)&without, 0, 0) == 0);
    compare(with.st_ino, without.st_ino, "opened inode", at);
    CHECK(close(opened) == 0);
    close(other);
}

static void hostile_paths_mean_the_same(void) {
    make_tree();
    for (int i = 0; i < 3000; i++)
        look();
    // The working directory has another place, and then none.
    CHECK(chdir("a/b") == 0);
    for (int i = 0; i < 1500; i++)
        look();
    CHECK(mkdir("left", 0755) == 0 && chdir("left") == 0 && rmdir("../left") == 0);
    for (int i = 0; i < 1500; i++)
        look();
}

static const struct rule rules[] = {
    {"hostile_paths_mean_the_same", hostile_paths_mean_the_same},
    {NULL, NULL},
};

int main(int count, char **arguments) {
    const char *seed = getenv("EGERIA_TEST_SEED");
    if (seed)
        state ^= strtoull(seed, NULL, 10) * 0x2545F4914F6CDD1D;
    return run_rule(count, arguments, rules);
}
