# `make demo` shows what longhaul does, `make test` checks all of it. Both work on a fresh machine with Rust 1.95
# (rustup), a C compiler and make; what the tests need beyond that is installed by `make setup`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PREFIX ?= /usr/local
export CARGO_TARGET_DIR ?= target
# What would speed up the next build of one changed crate takes more disk than all else that is built.
export CARGO_INCREMENTAL ?= 0

COMMA := ,
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
# The C library that is linked into the static programs: musl where it is there (make build installs it if it can), an eighth
# smaller than glibc and as fast for large files, else the host's own.
MUSL := $(subst -gnu,-musl,$(HOST))
HAS_MUSL = $(shell [ -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)/lib" ] && command -v musl-gcc)
STATIC = $(if $(HAS_MUSL),$(MUSL),$(HOST))
PROGRAM = $(CARGO_TARGET_DIR)/$(STATIC)/release/longhaul
# What make install takes, and longhaul-lab and longhaul-store beside it: what make build has made last. Under sudo there is mostly no rustc to ask.
BUILT = $(firstword $(shell ls -t $(CARGO_TARGET_DIR)/*/release/longhaul 2>/dev/null))
export TOOLS := $(CARGO_TARGET_DIR)/tools
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Where make install-c puts the libraries: lib64 on the kin of Fedora.
LIBDIR ?= $(PREFIX)/lib
# Where it takes them from.
C_LIBRARIES ?= $(CARGO_TARGET_DIR)/release
MATURIN := $(TOOLS)/python/bin/maturin
DEV := $(abspath $(CARGO_TARGET_DIR))/debug
# The workspace as everything that runs a part of it builds it: with other features it would be compiled again.
WHOLE := --locked --workspace --features longhaul-stripe/tokio
# Tests mostly wait: for paths, for programs, for each other's end.
export RUST_TEST_THREADS ?= 12
# Property tests draw the same cases each time, so that a red run can be repeated; make test-long draws others.
unit: export PROPTEST_RNG_SEED ?= 1
# A panic tells its place and why; the frames above it, in whatever number of them, hide what failed.
unit: export RUST_BACKTRACE := 0
# What the tests of the Python package are built into.
PEERS := $(abspath $(CARGO_TARGET_DIR))/bindings

.PHONY: help
help: ## List what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: build ## Race a real copy against kernel TCP over an emulated long haul (a minute)
	$(PROGRAM) demo

# AES-GCM for AVX-512 alone would be a tenth of the program that travels over ssh; with AVX2 loopback is as fast within noise. Lists
# are compressed in zstd's fastest ways; the slower ones need not come along.
SMALLER := -DMY_ASSEMBLER_IS_TOO_OLD_FOR_512AVX \
	$(foreach way,GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA,-DZSTD_EXCLUDE_$(way)_BLOCK_COMPRESSOR)
# What is relocated when a program starts, in a short form that musl understands; a linker that does not know it goes without.
# The one that rustup brings also puts functions together that are the same, a hundredth of the program.
LLD := $(wildcard $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib/$(HOST)/bin/gcc-ld)
PACKED := $(if $(LLD),$(addprefix -C link-arg=,-B$(LLD) -fuse-ld=lld -Wl$(COMMA)--icf=all -Wl$(COMMA)--pack-dyn-relocs=relr),\
	-C link-arg=-Wl$(COMMA)-z$(COMMA)pack-relative-relocs)

.PHONY: build
build: setup-static ## Build the release programs: longhaul, one static file that is small enough to be sent ahead over ssh, longhaul-lab and longhaul-store
	CFLAGS="$(CFLAGS) $(SMALLER)" $(if $(HAS_MUSL),CC_$(subst -,_,$(MUSL))=musl-gcc) \
		RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols $(if $(HAS_MUSL),$(PACKED))" CARGO_PROFILE_RELEASE_DEBUG=0 \
		CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
		$(CARGO) build --locked --release --target $(STATIC) -p longhaul-cli -p longhaul-evidence -p longhaul-store
	@echo "built $(PROGRAM), $(PROGRAM)-lab and $(PROGRAM)-store"

.PHONY: setup-static
setup-static:
	@.ci/setup static

.PHONY: build-c
build-c: ## Build the library for C and C++ programs
	CARGO_PROFILE_RELEASE_DEBUG=0 $(CARGO) build --locked --release -p longhaul-c

SHARE = $(DESTDIR)$(PREFIX)/share
LIB = $(DESTDIR)$(PREFIX)/lib

.PHONY: install
install: ## Install them, manual, shell completions and a systemd unit below PREFIX (/usr/local); after make build
	@[ -n "$(BUILT)" ] || { echo "nothing is built in $(CARGO_TARGET_DIR): make build first" >&2; exit 1; }
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILT) $(BUILT)-lab $(BUILT)-store
	install -d $(addprefix $(SHARE)/,man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	umask 022; for program in $(BUILT) $(BUILT)-lab $(BUILT)-store; do name=$${program##*/}; \
		$$program man $(SHARE)/man/man1; \
		$$program completions bash > $(SHARE)/bash-completion/completions/$$name; \
		$$program completions zsh > $(SHARE)/zsh/site-functions/_$$name; \
		$$program completions fish > $(SHARE)/fish/vendor_completions.d/$$name.fish; \
	done
	install -D -m 644 -t $(SHARE)/doc/longhaul LICENSE-MIT LICENSE-APACHE CHANGELOG.md docs/guide.md packaging/serve.toml \
		packaging/object-store.conf
	install -D -m 644 packaging/sysusers.conf $(LIB)/sysusers.d/longhaul.conf
	install -D -m 644 packaging/tmpfiles.conf $(LIB)/tmpfiles.d/longhaul.conf
	install -D -m 644 -t $(LIB)/systemd/system packaging/longhaul.service
	sed -i 's|/usr/local/bin|$(PREFIX)/bin|' $(LIB)/systemd/system/longhaul.service

.PHONY: install-c
install-c: ## Install the C library, its headers and its pkg-config file below PREFIX; after make build-c
	install -D -m 755 $(C_LIBRARIES)/liblonghaul_c.so $(DESTDIR)$(LIBDIR)/liblonghaul.so.$(VERSION)
	ln -sf liblonghaul.so.$(VERSION) $(DESTDIR)$(LIBDIR)/liblonghaul.so.0
	ln -sf liblonghaul.so.0 $(DESTDIR)$(LIBDIR)/liblonghaul.so
	install -D -m 644 $(C_LIBRARIES)/liblonghaul_c.a $(DESTDIR)$(LIBDIR)/liblonghaul.a
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 bindings/c/include/*.h $(DESTDIR)$(PREFIX)/include
	umask 022; sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' bindings/c/longhaul.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/longhaul.pc

.PHONY: dist
dist: build build-c wheel ## Make the packages of a release, with checksums and lists of what is in them: target/dist
	@.ci/setup dist
	@.ci/dist $(VERSION) $(HOST)

.PHONY: test-dist
test-dist: ## Install, use and remove them in a clean Debian with a systemd of its own (root, a mirror); after make dist
	@.ci/setup test-dist
	@.ci/test-dist

.PHONY: site
site: programs ## Make the documentation as a site: target/site/html (RESULTS=folder of the lab's results to be shown)
	@.ci/setup site
	@.ci/site $(DEV)

.PHONY: setup
setup: ## Install what the tests need and this machine lacks
	@.ci/setup

.PHONY: peers
peers: ## Install the programs that the lab compares longhaul with, as far as they can be had
	@.ci/setup peers

# The cheapest checks first, the tests and their summary last.
.PHONY: test
test: setup fmt deny lint doc fuzz python unit ## Run every check and test

.PHONY: test-long
test-long: last-release test-static test-wheel ## Run all tests with cases drawn anew, and what takes minutes each: many more seeds, transfers and rounds
	LONGHAUL_LAST_RELEASE=$(if $(LAST_RELEASE),$(abspath $(LAST_RELEASE_FOLDER))/target/debug/longhaul) \
		$(CARGO) test $(WHOLE) --tests --no-fail-fast -- --include-ignored

# The commit of the last release, which this one is to understand: 0.1.0.
LAST_RELEASE ?= 3de1f3b8e0e29d4b3670b9e64d31221d2f841db4
LAST_RELEASE_FOLDER := $(CARGO_TARGET_DIR)/last-release

.PHONY: last-release
last-release: ## Build the last release, for the test that copies between it and this one
	@if [ -z "$(LAST_RELEASE)" ]; then \
		echo "skipped: no last release is named (LAST_RELEASE in the Makefile)"; \
	elif ! git cat-file -e "$(LAST_RELEASE)^{commit}" 2>/dev/null; then \
		echo "the last release, commit $(LAST_RELEASE), is not in this clone: git fetch --unshallow" >&2; exit 1; \
	else \
		rm -rf $(LAST_RELEASE_FOLDER)/source && mkdir -p $(LAST_RELEASE_FOLDER)/source && \
		git archive "$(LAST_RELEASE)" | tar -x -C $(LAST_RELEASE_FOLDER)/source && \
		cd $(LAST_RELEASE_FOLDER)/source && \
		CARGO_TARGET_DIR=$(abspath $(LAST_RELEASE_FOLDER))/target $(CARGO) build --locked -p longhaul-cli; \
	fi

.PHONY: record
record: ## Record anew what this version of the protocol sends, while it is not released
	LONGHAUL_RECORD=1 $(CARGO) test --locked -p longhaul-net --lib -- recorded

.PHONY: test-static
test-static: build ## Run the daemon's tests, its sandbox among them, on the static program that is installed
	LONGHAUL_PROGRAM=$(abspath $(PROGRAM)) $(CARGO) test --locked -p longhaul-cli --test it -- daemon

.PHONY: test-fleet
test-fleet: ## Run copies with many movers by Slurm, GNU parallel and Snakemake, with misfortunes (installs these)
	@.ci/setup fleet
	LONGHAUL_SNAKEMAKE=$(abspath $(TOOLS))/snakemake/bin/snakemake \
		$(CARGO) test $(WHOLE) --test it --no-fail-fast -- --include-ignored --nocapture --test-threads 1 fleet::

.PHONY: fuzz-long
fuzz-long: ## Fuzz each target for FUZZ_SECONDS (60), guided by coverage (TARGETS=names for some only)
	@.ci/fuzz-long $(or $(FUZZ_SECONDS),60) $(TARGETS)

.PHONY: campaign
campaign: ## Copies that meet misfortunes, many thousands of them, each time others
	$(CARGO) test $(WHOLE) --lib --test it -- --ignored --nocapture campaign

.PHONY: fmt
fmt: ## Check the format of the sources
	$(CARGO) fmt --all --check

.PHONY: deny
deny: ## Check licences, sources and duplicates of the dependencies
	$(TOOLS)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

.PHONY: lint
lint: ## Run clippy; a warning is an error
	$(CARGO) clippy $(WHOLE) --all-targets -- -D warnings

.PHONY: doc
doc: ## Build the API documentation; a warning is an error
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
		$(CARGO) doc $(WHOLE) --exclude longhaul-fuzz --no-deps --lib

# With an example that needs what the tests need, so that nothing is compiled anew for them.
.PHONY: programs
programs:
	$(CARGO) build $(WHOLE) --lib --bins --example stripe_echo

.PHONY: fuzz
fuzz: programs ## Give every parser mutated bytes, the same each time (RUNS=n for more, SEED=n for others)
	$(DEV)/longhaul-fuzz --runs $(or $(RUNS),50000) --seed $(or $(SEED),1)

.PHONY: header
header: ## Make the C header anew after a change of the library's calls
	LONGHAUL_RECORD=1 $(CARGO) test --locked -p longhaul-c --test it -- header::

# A Python that is new enough for the package, wherever it comes from.
PYTHON = $(firstword $(shell for python in python3 /usr/bin/python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$python"; done))
run_python_tests = cd bindings/python/tests && LONGHAUL_C_FILE=$(PEERS)/file LONGHAUL_PROGRAM=$(DEV)/longhaul \
	LONGHAUL_RUST_ECHO=$(DEV)/examples/stripe_echo $(1) -W error -m unittest

.PHONY: python
python: ## Run the tests of the Python package, against programs in C and Rust too
	@if [ -n "$(PYTHON)" ]; then $(MAKE) --no-print-directory python-tests; \
		else echo "skipped: the Python package needs Python 3.11 or newer"; fi

# On a folder as a wheel has it inside.
.PHONY: python-tests
python-tests: python-peers
	rm -rf $(PEERS)/package && mkdir -p $(PEERS)/package
	cp -r bindings/python/python/longhaul $(PEERS)/package
	cp $(DEV)/lib_longhaul.so $(PEERS)/package/longhaul/_longhaul.abi3.so
	$(call run_python_tests,PYTHONPATH=$(PEERS)/package $(PYTHON))

.PHONY: python-peers
python-peers: programs
	$(MAKE) -s install-c DESTDIR= PREFIX=$(PEERS) C_LIBRARIES=$(DEV)
	cc -o $(PEERS)/file bindings/c/examples/file.c -I$(PEERS)/include -L$(PEERS)/lib -llonghaul \
		-Wl,-rpath,$(PEERS)/lib

.PHONY: test-wheel
test-wheel: wheel python-peers ## Install the wheel in an environment of its own and run the Python tests on it
	$(TOOLS)/python/bin/pip install --quiet --no-index --no-deps --force-reinstall $(CARGO_TARGET_DIR)/wheels/*.whl
	$(call run_python_tests,$(abspath $(TOOLS))/python/bin/python)

.PHONY: wheel
wheel: ## Build the Python package for this machine: target/wheels
	@.ci/setup maturin
	rm -rf $(CARGO_TARGET_DIR)/wheels
	CARGO_PROFILE_RELEASE_DEBUG=0 $(MATURIN) build --locked --release --strip --compatibility linux \
		-m bindings/python/Cargo.toml -o $(CARGO_TARGET_DIR)/wheels

.PHONY: unit
unit: ## Run the tests of all crates, those over emulated paths and real sockets included; count what could not run here
	@mkdir -p $(CARGO_TARGET_DIR)
	$(CARGO) test $(WHOLE) --tests --no-fail-fast 2>&1 | tee $(CARGO_TARGET_DIR)/unit.log || { \
		printf '\n%s\n' "What failed, once more:" && awk '/^failures:$$/, /^test result/' $(CARGO_TARGET_DIR)/unit.log; exit 1; }
	$(CARGO) test $(WHOLE) --doc
	@awk '/^skipped: / { sub(/^skipped: (a test|[^ ]+): /, ""); count[$$0]++; all++ } \
		END { printf "%d tests could not run here%s\n", all, all ? ":" : ""; \
		for (why in count) printf "%6d  %s\n", count[why], why }' $(CARGO_TARGET_DIR)/unit.log

.PHONY: bench
bench: ## Measure copies over emulated paths (FILTER=names of rows), the disk side, the simulator
	$(CARGO) build --locked --release -p longhaul-cli
	$(CARGO) bench --locked -p longhaul-evidence --bench paths -- $(FILTER)
	$(CARGO) run --locked --release -p longhaul --example disk
	$(CARGO) run --locked --release -p longhaul-evidence --bin longhaul-lab -- lab run streams-loopback --quick \
		--out $(CARGO_TARGET_DIR)/bench-results
	$(CARGO) run --locked --release -p longhaul-sim --example speed

.PHONY: advisories
advisories: ## Ask the RustSec database about the dependencies (needs GitHub)
	@.ci/setup cargo-deny
	$(TOOLS)/bin/cargo-deny --locked check advisories
