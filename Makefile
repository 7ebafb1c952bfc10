# The front door: every target is a few scripts in a row, and each script can be run by itself.
# Settings: JOBS (compilers at a time), PREFIX and DESTDIR (install), REQUIRE=all and ONLY=SUITE (check),
# FUZZ_SECONDS (fuzz), SOAK_SECONDS (soak), CC (the release's compiler), SKIP_SETUP=1 (install no packages).

MAKEFLAGS += --no-print-directory
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 300
export PREFIX JOBS CC SKIP_SETUP DESTDIR
# Debian's own tools, whatever a version manager has put before them.
export PATH := /usr/bin:/bin:/usr/sbin:/sbin:$(PATH)

.DEFAULT_GOAL := build
.PHONY: build run check images docker-images docker-suite bench fuzz soak format lint audit install clean help

build: ## build the programs into build/bin and the libraries into build/lib (the default)
	@scripts/setup build
	@scripts/fetch
	@scripts/build release

run: build ## build, then run the smallest example
	@build/examples/minimal

check: build ## run every test; REQUIRE=all fails on a skip, ONLY=unit runs one suite
	@scripts/setup check
	@tests/run $(if $(filter all,$(REQUIRE)),--require-all) $(if $(ONLY),--only $(ONLY))

images: build ## build the guest images that are out of date, on the Docker Engine, which is started where none runs
	@scripts/docker-up
	@scripts/setup docker
	@scripts/images

docker-images: images

docker-suite: ## run the tests of make check that need a Docker Engine; a skip is a failure
	@$(MAKE) check ONLY=docker REQUIRE=all

bench: build ## measure, print a table, write build/bench.json
	@bench/run

fuzz: build ## fuzz every parser for FUZZ_SECONDS (600) each
	@scripts/setup check
	@tests/run --only fuzz --fuzz-seconds $(FUZZ_SECONDS)

soak: build ## load a daemon with everything at once for SOAK_SECONDS (300) and watch it for growth
	@tests/soak $(SOAK_SECONDS)

format: ## reformat the C sources in place
	@scripts/setup lint
	@scripts/format

lint: build ## formatting, static analysis, house rules
	@scripts/setup lint
	@scripts/lint

audit: ## the whole gate: tools, builds with both compilers, lint, check REQUIRE=all, drift
	@scripts/setup build check lint
	@scripts/audit

install: build ## install under PREFIX (/usr/local); DESTDIR is put before it
	@scripts/install

clean: ## remove all that was built; what was downloaded stays
	@scripts/clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
