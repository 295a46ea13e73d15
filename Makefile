# The two commands of the README, and what they are made of. CMakePresets.json is the real interface.
JOBS ?= $(shell nproc)
PRESET ?= release
BUILD = build/$(PRESET)

.PHONY: demo test build check-release sanitize lint format clean help

help:
	@echo "make demo      train a small mixture of experts with and without offloading, and compare"
	@echo "make test      build and run every test"
	@echo "make sanitize  build and test the core under ThreadSanitizer, then AddressSanitizer"
	@echo "make build     leave the command line at build/release/spillway"
	@echo "make lint      formatting, lint, and the direction of includes"
	@echo "make format    format the sources in place"

demo: build
	scripts/demo.sh $(BUILD)/spillway

test: check-release

build: $(BUILD)/build.ninja
	cmake --build --preset $(PRESET) -j $(JOBS)

$(BUILD)/build.ninja: CMakePresets.json
	scripts/install_dependencies.sh
	cmake --preset $(PRESET)

check-release: build
	ctest --preset $(PRESET) -j $(JOBS)

# The core has no libtorch in it, so that every report of a sanitizer is about Spillway's own code.
sanitize:
	scripts/install_dependencies.sh
	for preset in tsan asan; do \
	  cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) && \
	  ctest --preset $$preset -j $(JOBS) || exit 1; \
	done

lint:
	scripts/install_dependencies.sh --lint
	scripts/check_layers.sh
	scripts/check_format.sh
	scripts/lint.sh

format:
	scripts/install_dependencies.sh --lint
	scripts/check_format.sh --fix

clean:
	rm -rf build
