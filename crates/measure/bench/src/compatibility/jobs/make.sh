# program: GNU make, GCC, binutils
# kind: builds
# needs: make cc ar
# debian: make gcc libc6-dev
# checks: what the built program computes; make rebuilds exactly what a touched header needs

version() {
    echo "$(make --version | awk 'NR == 1 { print $3 }'), $(cc -dumpfullversion), $(ld --version | awk 'NR == 1 { print $NF }')"
}

prepare() {
    # 60 sources with a header each, an archive and a program that calls all of them.
    for n in $(seq 60); do
        echo "int f$n(int);" >"f$n.h"
        printf '#include <stdio.h>\n#include <stdlib.h>\n#include "f%s.h"\nint f%s(int x) { return x + %s; }\n' "$n" "$n" "$n" >"f$n.c"
    done
    {
        for n in $(seq 60); do echo "#include \"f$n.h\""; done
        printf '#include <stdio.h>\nint main(void) { int x = 0;\n'
        for n in $(seq 60); do echo "x = f$n(x);"; done
        printf 'printf("%%d\\n", x); return 0; }\n'
    } >main.c
    cat >Makefile <<'MAKE'
objects := $(patsubst %.c,%.o,$(wildcard f*.c))
program: main.o all.a
	$(CC) -o $@ $^
all.a: $(objects)
	$(AR) rcs $@ $^
%.o: %.c
	$(CC) -MMD -c -o $@ $<
-include $(wildcard *.d)
MAKE
}

work() {
    cp -a "$INPUT/." .
    TMPDIR=$PWD make -s -j2
}

check() {
    [ "$(./program)" = 1830 ] || fail "the program computes something else"
    [ "$(make -j2)" = "make: 'program' is up to date." ] || fail "make builds what is up to date"
    sleep 1.1
    touch f7.h
    # f7.o, main.o, the archive and the program.
    [ "$(make -n | wc -l)" = 4 ] || fail "make rebuilds something else than what includes f7.h"
}
