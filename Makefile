# What a visitor types. The work is done by CMake (CMakePresets.json) and scripts/.
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: all setup setup-build demo test test-full check parity-soak bench fuzz lint install coverage clean

all: setup-build
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

# Install exactly what is missing; prints the one command to run when it may not.
setup-build:
	@scripts/setup.sh build

setup:
	@scripts/setup.sh build test

demo: all
	@scripts/setup.sh demo
	@scripts/demo.sh

test check: setup
	@scripts/test.sh quick

test-full: setup
	@scripts/setup.sh full
	@scripts/test.sh full

parity-soak: setup all
	cmake --build --preset release --target parity_soak

bench: all
	@scripts/setup.sh test
	@scripts/bench.sh

fuzz:
	@scripts/setup.sh build full
	@scripts/fuzz.sh

lint:
	@scripts/setup.sh build full
	@scripts/lint.sh

coverage:
	@scripts/setup.sh build test full
	@scripts/coverage.sh

install: all
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-*
