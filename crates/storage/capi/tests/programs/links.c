/* Links and extended attributes, by path. */
#include <egeria.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define expect(what)                                                                                              \
    do {                                                                                                          \
        errno = 0;                                                                                                \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "links.c:%d: %s: errno %d: %s\n", __LINE__, #what, errno, egeria_message());          \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)
#define fails(call, number) expect((long)(call) == -1 && errno == (number) && *egeria_message())

int main(int count, char **words) {
    (void)count;
    struct stat file, link, hard;
    char text[64];
    egeria_volume *volume = egeria_attach(words[1], 0);
    expect(volume);
    expect(egeria_close(egeria_open(volume, "/file", O_RDWR | O_CREAT, 0600)) == 0);

    expect(egeria_symlink(volume, "file", "/soft") == 0);
    expect(egeria_link(volume, "/file", "/hard") == 0);
    expect(egeria_stat(volume, "/soft", &file) == 0 && egeria_lstat(volume, "/soft", &link) == 0);
    expect(egeria_stat(volume, "/hard", &hard) == 0);
    expect(S_ISLNK(link.st_mode) && file.st_ino == hard.st_ino && hard.st_nlink == 2);
    expect(egeria_readlink(volume, "/soft", text, sizeof text) == 4 && memcmp(text, "file", 4) == 0);
    expect(egeria_readlink(volume, "/soft", NULL, 0) == 4);
    memset(text, '-', sizeof text);
    expect(egeria_readlink(volume, "/soft", text, 2) == 4 && memcmp(text, "fi--", 4) == 0);
    fails(egeria_readlink(volume, "/soft", NULL, 8), EINVAL);
    fails(egeria_readlink(volume, "/hard", text, sizeof text), EINVAL);
    fails(egeria_symlink(volume, "x", "/hard"), EEXIST);
    fails(egeria_symlink(volume, NULL, "/new"), EINVAL);
    fails(egeria_link(volume, "/none", "/new"), ENOENT);
    fails(egeria_link(NULL, "/hard", "/new"), EINVAL);

    expect(egeria_setxattr(volume, "/file", "user.one", "123", 3) == 0);
    expect(egeria_setxattr(volume, "/file", "user.none", NULL, 0) == 0);
    expect(egeria_getxattr(volume, "/file", "user.one", text, sizeof text) == 3 && memcmp(text, "123", 3) == 0);
    expect(egeria_getxattr(volume, "/file", "user.one", NULL, 0) == 3);
    expect(egeria_getxattr(volume, "/file", "user.none", text, sizeof text) == 0);
    fails(egeria_getxattr(volume, "/file", "user.one", text, 2), ERANGE);
    fails(egeria_getxattr(volume, "/file", "user.two", text, 2), ENODATA);
    fails(egeria_setxattr(volume, "/file", "user.one", NULL, 1), EINVAL);
    fails(egeria_setxattr(volume, "/file", "trusted.one", "1", 1), EOPNOTSUPP);
    ssize_t all = egeria_listxattr(volume, "/file", NULL, 0);
    expect(all == (ssize_t)(sizeof "user.one" + sizeof "user.none"));
    expect(egeria_listxattr(volume, "/file", text, sizeof text) == all && text[all - 1] == 0);
    fails(egeria_listxattr(volume, "/file", text, 1), ERANGE);
    expect(egeria_removexattr(volume, "/file", "user.one") == 0);
    fails(egeria_removexattr(volume, "/file", "user.one"), ENODATA);
    expect(egeria_mkdir(volume, "/striped", 0700) == 0);
    expect(egeria_setxattr(volume, "/striped", "user.egeria.layout", "striped", 7) == 0);
    fails(egeria_setxattr(volume, "/striped", "user.egeria.layout", "round", 5), EINVAL);
    return egeria_detach(volume);
}
