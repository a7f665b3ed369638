# Egeria: every gate is one command. `make help` lists them.

CARGO  ?= cargo
PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT  := $(TARGET)/release
REPORT := $(TARGET)/report
# Tests that cannot run here note it in this file. KNOWN_SKIPS names a list; what is skipped and not in it is an error then.
export EGERIA_SKIPS := $(abspath $(TARGET)/skips)
SUITES ?= bookworm trixie
NODES  ?= 4
KILLS  ?= 100
# The laboratory, what it starts, and the library that programs are started with.
MEASURING := -p egeria-lab -p egeria-bench -p egeria-preload

.DEFAULT_GOAL := build
.PHONY: build setup demo test memcheck whole-programs guest placement lint book bench install uninstall python deb package-test tarball tarball-test \
	container-test python-test nfs gluster operations clean help test-mounts test-others test-guest test-memcheck

build: ## build everything for use (target/release)
	@scripts/setup --rust-only
	$(CARGO) build --release --workspace

setup: ## install the Debian packages that demo and test need, where missing
	@scripts/setup

demo: ## build what it runs, run real programs on a scratch volume, write target/report/report.html
	@scripts/setup --demo
	$(CARGO) build --release $(MEASURING)
	$(BUILT)/egeria-lab demo --out $(REPORT)

test: setup lint ## check format and lints, run all tests, count those that cannot run here
	@rm -f "$(EGERIA_SKIPS)"
	$(CARGO) build --workspace --lib --bins --tests --examples
	$(MAKE) --no-print-directory --jobs 3 --keep-going --output-sync=target test-mounts test-others test-guest test-memcheck
	@$(CARGO) run --quiet --bin egeria-lint -- skips $(if $(KNOWN_SKIPS),--known "$(KNOWN_SKIPS)") "$(EGERIA_SKIPS)"

# Each of these waits much and measures no time, so they run at once. Every test belongs to one of the first two: those that
# mount volumes run one after the other, because stewards of the machine and new mount namespaces take other tests' mounts.
# Suites are divided by their first letters, for cargo cannot leave one out, and `--package` would build with other features.
test-mounts:
	$(CARGO) test --workspace --no-fail-fast --test '[!cfr]*' --test 'c[ho]*' --test 'fi*' --test 'r[!e]*'
test-others:
	$(CARGO) test --workspace --no-fail-fast --lib --bins --examples --test 'c[!ho]*' --test 'f[!i]*' --test 're*'
	$(CARGO) test --workspace --no-fail-fast --doc
test-guest:
	scripts/guest --parts short "$(TARGET)/debug" "$(TARGET)/guest"
test-memcheck:
	scripts/memcheck --short

memcheck: setup ## run tests of several processes under valgrind (some minutes)
	scripts/memcheck

whole-programs: build ## run some 60 programs on tmpfs, mount and library, and kill them (30 minutes; ONLY=name,name; INSTALL=1 installs what is missing)
	$(BUILT)/egeria-lab programs $(if $(ONLY),--only "$(ONLY)") $(if $(INSTALL),--install)

guest: build ## test on several NUMA nodes, in QEMU, and follow tutorials there (NODES=4, plus one without CPUs; KILLS=100 of its steward)
	@scripts/setup --guest
	scripts/guest --nodes $(NODES) --kills $(KILLS) "$(BUILT)" "$(TARGET)/guest"
	scripts/guest --parts trial "$(BUILT)" "$(TARGET)/guest"
	scripts/guest --parts tutorials "$(BUILT)" "$(TARGET)/guest"

placement: build ## place faulty programs by Egeria and its peers on several NUMA nodes, in QEMU (some 40 minutes on an idle host; ONLY=case,case)
	@scripts/setup --guest
	scripts/placement $(if $(ONLY),--only "$(ONLY)") $(if $(REQUIRE_AIMS),--require-aims) "$(BUILT)" "$(TARGET)/guest" "$(TARGET)/placement"

lint: ## check format, lints, links, layers, cycles of modules and lock files; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) run --quiet --bin egeria-lint -- links
	$(CARGO) run --quiet --bin egeria-lint -- modules
	$(CARGO) run --quiet --bin egeria-lint -- layers
	$(CARGO) run --quiet --bin egeria-lint -- words
	$(CARGO) run --quiet --bin egeria-lint -- tests
	$(CARGO) run --quiet --bin egeria-lint -- locks

book: ## build the manual (target/book/index.html); needs mdbook
	@scripts/book "$(TARGET)/book"

bench: ## measure the data path, tmpfs and memcpy
	@scripts/setup --demo
	$(CARGO) build --release $(MEASURING)
	$(BUILT)/egeria-lab bench datapath

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured; LAB=1, TORTURE=1 add egeria-lab, egeria-torture
	scripts/install $(if $(LAB),--lab) $(if $(TORTURE),--torture) "$(BUILT)" "$(DESTDIR)$(PREFIX)"

uninstall: ## remove what install put below PREFIX
	scripts/install --remove "$(DESTDIR)$(PREFIX)"

python: ## build the Python package's library (target/release)
	@scripts/setup --rust-only
	PYO3_BUILD_EXTENSION_MODULE=1 PYO3_NO_PYTHON=1 $(CARGO) build --release --locked --manifest-path python/Cargo.toml --target-dir "$(TARGET)"

deb: build python ## build Debian packages (target/deb)
	scripts/package "$(BUILT)" "$(TARGET)/deb"

package-test: build python ## install, upgrade, remove and purge the packages in minimal Debians (SUITES="bookworm trixie")
	for suite in $(SUITES); do scripts/package-test --suite "$$suite" "$(BUILT)" "$(TARGET)/package-test" || exit 1; done

tarball: ## pack the source with all that it is built from (target/egeria-VERSION.tar.xz)
	scripts/tarball "$(TARGET)"

tarball-test: tarball ## build from the tarball without network
	scripts/tarball --test "$(TARGET)"

container-test: deb ## build the container image with buildah; try what each capability is for
	scripts/container-test "$(TARGET)/deb" "$(TARGET)/container-test"

nfs: build ## export volumes by Ganesha and by the kernel's NFS server in QEMU; restart and kill them (some minutes; as root)
	@scripts/setup --nfs
	scripts/nfs "$(BUILT)" "$(TARGET)/guest"

operations: build ## crash, at every store, changes of pools, limited directories, operations during a snapshot; copy PostgreSQL under load (some 12 minutes; as root)
	@scripts/setup --operations
	$(BUILT)/egeria-torture crash --only pools
	$(BUILT)/egeria-torture crash --only limits --states 1000000
	$(BUILT)/egeria-torture crash --only snapshots --states 1000000
	scripts/snapshots "$(BUILT)" "$(TARGET)/snapshots"

gluster: build ## run GlusterFS over volumes on three hosts that are namespaces; kill bricks, mounts and hosts, heal, compare (some 20 minutes; as root; ONLY=part,part)
	@scripts/setup --gluster
	scripts/gluster $(if $(ONLY),--only "$(ONLY)") "$(BUILT)" "$(TARGET)/gluster"

python-test: build ## build the Python package and test it with numpy, pandas, pyarrow and zarr (from PyPI)
	python/run-tests "$(BUILT)/egeria" "$(TARGET)/python-test"

clean: ## remove everything built
	$(CARGO) clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
