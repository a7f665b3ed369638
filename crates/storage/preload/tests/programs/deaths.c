// One call by path, in the middle of which the program dies, or whom it waits for.
//
//     deaths RULE        stops itself before the call
//     deaths RULE N      dies after N instructions of the call, or says how many it took
#include "rules.h"

static void leave(int fd) {
    CHECK(fd >= 0 && close(fd) == 0);
}

static void opens(void) { leave(open("d/f", O_RDWR)); }
static void creates(void) { leave(open("d/new", O_WRONLY | O_CREAT | O_EXCL, 0644)); }
static void truncates(void) { leave(open("d/f", O_WRONLY | O_TRUNC)); }
static void renames(void) { CHECK(rename("d/f", "d/new") == 0); }
static void moves(void) { CHECK(rename("d/f", "e/g") == 0); }
static void unlinks(void) { CHECK(unlink("d/f") == 0); }

static const struct rule rules[] = {
    {"opens", opens},     {"creates", creates}, {"truncates", truncates}, {"renames", renames},
    {"moves", moves},     {"unlinks", unlinks}, {NULL, NULL},
};

static volatile long left;

// After each instruction while the processor's trap flag is set.
static void count_down(int signal) {
    if (left-- == 0)
        kernel(SYS_kill, kernel(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
}

void back_from_signal(void);
asm("back_from_signal: mov $15, %eax; syscall");

// As the kernel has it.
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

static void count_instructions(void) {
    const unsigned long SA_RESTORER = 0x04000000;
    struct action action = {count_down, SA_RESTORER, back_from_signal, 0};
    CHECK(kernel(SYS_rt_sigaction, SIGTRAP, (long)&action, 0, 8) == 0);
}

#define TRAP_EVERY_INSTRUCTION(change)                                                      \
    asm volatile("sub $128, %%rsp; pushfq; " change "; popfq; add $128, %%rsp" ::: "memory", "cc")

int main(int count, char **arguments) {
    // The volume is attached, and the way there known.
    leave(open("warm", O_RDONLY));
    if (count == 2) {
        CHECK(raise(SIGSTOP) == 0);
        _exit(run_rule(2, arguments, rules));
    }
    CHECK(count == 3);
    long all = strtol(arguments[2], NULL, 10);
    left = all;
    count_instructions();
    TRAP_EVERY_INSTRUCTION("orq $0x100, (%%rsp)");
    int failed = run_rule(2, arguments, rules);
    TRAP_EVERY_INSTRUCTION("andq $-257, (%%rsp)");
    printf("%ld\n", all - left);
    fflush(stdout);
    _exit(failed);
}
