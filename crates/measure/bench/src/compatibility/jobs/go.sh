# program: Go (compiler, static program)
# kind: builds
# needs: go
# debian: golang-go
# checks: go vet, go test, and what the built static program reads back of files that it wrote and mapped
# note: Programs of Go call the kernel themselves, so they use the mount

version() {
    go version | awk '{ print $3 }'
}

prepare() {
    mkdir -p sums
    printf 'module tried\n\ngo 1.19\n' >go.mod
    cat >sums/sums.go <<'GO'
// Package sums adds bytes.
package sums

// Of adds all bytes.
func Of(data []byte) (sum uint64) {
	for _, b := range data {
		sum += uint64(b)
	}
	return sum
}
GO
    cat >sums/sums_test.go <<'GO'
package sums

import "testing"

func TestOf(t *testing.T) {
	if Of([]byte{1, 2, 3}) != 6 {
		t.Fatal("wrong sum")
	}
}
GO
    cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"tried/sums"
)

func try(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func one(n int) {
	name := fmt.Sprintf("files/%d/%d", n%10, n)
	try(os.MkdirAll(filepath.Dir(name), 0o755))
	data := make([]byte, 5000+n)
	for i := range data {
		data[i] = byte(i * n)
	}
	try(os.WriteFile(name+".new", data, 0o644))
	try(os.Rename(name+".new", name))
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	try(err)
	mapped, err := syscall.Mmap(int(file.Fd()), 0, len(data), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	try(err)
	if sums.Of(mapped) != sums.Of(data) {
		try(fmt.Errorf("%s: the mapping has other bytes", name))
	}
	mapped[0] = 99
	try(syscall.Munmap(mapped))
	_, err = file.WriteAt([]byte{98}, 1)
	try(err)
	try(file.Sync())
	try(file.Close())
	again, err := os.ReadFile(name)
	try(err)
	if again[0] != 99 || again[1] != 98 || len(again) != len(data) {
		try(fmt.Errorf("%s: wrong bytes", name))
	}
}

func main() {
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for n := worker; n < 800; n += 8 {
				one(n)
			}
		}(worker)
	}
	group.Wait()
	found := 0
	try(filepath.Walk("files", func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			found++
		}
		return err
	}))
	fmt.Println(found)
}
GO
}

settle() {
    export GOCACHE="$PWD/cache" GOPATH="$PWD/path" GOFLAGS=-mod=mod CGO_ENABLED=0 GOTMPDIR="$PWD" GO111MODULE=on GOTOOLCHAIN=local
}

work() {
    settle
    cp -a "$INPUT" tree
    cd tree
    go build -o program .
    ./program >found
}

check() {
    settle
    cd tree
    [ "$(cat found)" = 800 ] || fail "files are missing"
    go vet ./...
    go test ./... >/dev/null
    go build -o again .
    cmp program again
}
