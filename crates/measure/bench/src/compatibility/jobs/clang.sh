# program: Clang, LLD, CMake, Ninja
# kind: builds
# needs: clang++ ld.lld cmake ninja
# debian: clang lld cmake ninja-build g++
# checks: what the built program computes, with link-time optimisation and a precompiled header; a second build does nothing

version() {
    echo "$(clang --version | awk 'NR == 1 { print $4 }'), $(cmake --version | awk 'NR == 1 { print $3 }')"
}

prepare() {
    for n in $(seq 12); do
        printf 'int f%s(int x) { std::vector<int> v(x + %s); std::iota(v.begin(), v.end(), 0); return v.back() + 1; }\n' "$n" "$n" >"f$n.cpp"
    done
    {
        for n in $(seq 12); do echo "int f$n(int);"; done
        echo 'int main() { int x = 0;'
        for n in $(seq 12); do echo "x = f$n(x);"; done
        echo 'std::cout << x << std::endl; }'
    } >main.cpp
    cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(tried CXX)
file(GLOB sources CONFIGURE_DEPENDS f*.cpp)
add_library(parts SHARED ${sources})
add_executable(program main.cpp)
target_link_libraries(program parts)
target_precompile_headers(parts PRIVATE <vector> <numeric> <iostream>)
target_precompile_headers(program PRIVATE <vector> <numeric> <iostream>)
set_property(TARGET parts program PROPERTY INTERPROCEDURAL_OPTIMIZATION TRUE)
add_link_options(-fuse-ld=lld)
CMAKE
}

work() {
    cp -a "$INPUT/." .
    TMPDIR=$PWD CXX=clang++ cmake -G Ninja -S . -B build >"$NOTES/log" 2>&1 || fail "$(tail -n5 "$NOTES/log")"
    TMPDIR=$PWD ninja -C build -j2 >>"$NOTES/log"
}

check() {
    [ "$(build/program)" = 78 ] || fail "the program computes something else"
    ninja -C build | grep -q 'no work to do' || fail "ninja builds what is up to date"
    sleep 1.1
    touch f7.cpp
    ninja -C build -v | grep -q 'f7.cpp' || fail "ninja does not see the change"
}
