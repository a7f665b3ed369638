# Egeria: every gate is one command. `make help` lists them.

CARGO  ?= cargo
PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT  := $(TARGET)/release
REPORT := $(TARGET)/report
SUITE  ?= bookworm
NODES  ?= 4

.DEFAULT_GOAL := build
.PHONY: build setup demo test memcheck guest lint book bench install uninstall deb package-test python-test clean help

build: ## build everything for use (target/release)
	@scripts/setup --rust-only
	$(CARGO) build --release --workspace

setup: ## install the Debian packages that demo and test need, where missing
	@scripts/setup

demo: setup build ## run real programs on a scratch volume, write target/report/report.html
	$(BUILT)/egeria demo --out $(REPORT)

test: setup lint ## check format and lints, run all tests
	$(CARGO) build --workspace
	$(CARGO) test --workspace --no-fail-fast
	scripts/memcheck --short

memcheck: setup ## run tests of several processes under valgrind (some minutes)
	scripts/memcheck

guest: build ## test on several NUMA nodes, in QEMU (NODES=4, plus one without CPUs)
	scripts/guest --nodes $(NODES) "$(BUILT)" "$(TARGET)/guest"

lint: ## check format, lints, links and cycles of modules; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) run --quiet -p egeria-lint -- links
	$(CARGO) run --quiet -p egeria-lint -- modules

book: ## build the manual (target/book/index.html); needs mdbook
	@scripts/book "$(TARGET)/book"

bench: setup build ## measure the data path beside tmpfs and memcpy
	$(BUILT)/egeria bench datapath

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured; TORTURE=1 adds egeria-torture
	scripts/install $(if $(TORTURE),--torture) "$(BUILT)" "$(DESTDIR)$(PREFIX)"

uninstall: ## remove what install put below PREFIX
	scripts/install --remove "$(DESTDIR)$(PREFIX)"

deb: build ## build Debian packages (target/deb)
	scripts/package "$(BUILT)" "$(TARGET)/deb"

package-test: build ## install, upgrade, remove and purge the packages in a minimal Debian (SUITE=bookworm)
	scripts/package-test --suite $(SUITE) "$(BUILT)" "$(TARGET)/package-test"

python-test: build ## build the Python package and test it with numpy, pandas, pyarrow and zarr (from PyPI)
	python/run-tests "$(BUILT)/egeria" "$(TARGET)/python-test"

clean: ## remove everything built
	$(CARGO) clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
