# The commands that people and scripts rely on. Each installs what it needs and finds missing (scripts/prepare),
# so that it works on a fresh Debian 12 machine that has Rust.

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-peers bench-scale soak sbom release reproducible advisories clean install-lib fio-engine

# Extra arguments for the binary: `make demo ARGS=--keep`; for the store's bench: `make bench STORE_ARGS='--only disk'`.
ARGS ?=
STORE_ARGS ?=
# Where `make install-lib` installs.
PREFIX ?= /usr/local
# For the cost model, say `make bench-scale SCALE_ARGS='--calibrate target/bench/latest.json'`.
SCALE_ARGS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Three nodes on this machine, a volume with three copies, a node killed under load, everything checked
	@scripts/prepare build demo
	@scripts/build-release
	@target/release/amita demo $(ARGS)

test: ## Format, lints, licences, the simulator's fixed seeds, unit tests, end-to-end tests with the real binary
	@scripts/prepare build test demo
	@scripts/test

bench: ## The figures that the design promises, measured here, as a table and in target/bench/latest.json
	@scripts/prepare build demo bench
	@scripts/build-release bench
	@target/release/amita-bench $(ARGS)
	@CARGO_TARGET_DIR=target scripts/release-cargo bench --locked -p amita-store --bench store -- \
		--output $(CURDIR)/target/bench/latest.json $(STORE_ARGS)

bench-peers: ## The same I/O by the raw backing, by Ceph from Debian's packages and by this, side by side (as root)
	@scripts/prepare build demo
	@scripts/build-release bench
	@scripts/bench-peers $(ARGS)

bench-scale: ## The cost model of large clusters: the tables of docs/benchmarks/scale.md made anew (about 15 minutes of one core)
	@scripts/prepare build
	@CARGO_TARGET_DIR=target scripts/release-cargo run --release --locked -p amita-sim -- scale --write docs/benchmarks/scale.md $(SCALE_ARGS)

soak: ## The simulator on fresh seeds, then kill-and-verify rounds on real processes, until MINUTES (default 10) are over
	@scripts/prepare build test demo
	@scripts/soak $(ARGS)

sbom: ## What is linked into the binary, with licences and checksums: target/release/amita.cdx.json (CycloneDX 1.5)
	@scripts/prepare build
	@scripts/build-release
	@cargo run --quiet --locked -p amita-sbom -- write --binary target/release/amita --output target/release/amita.cdx.json

release: ## What a release is made of, in target/dist: binary, bill of materials, checksums, signed if AMITA_SIGN_KEY names a key
	@scripts/prepare build
	@scripts/release

reproducible: ## Two builds in two places, one binary? (two release builds long)
	@scripts/prepare build
	@scripts/reproducible

advisories: ## Known vulnerabilities in the dependencies (fetches the advisory database)
	@scripts/prepare deny
	@scripts/advisories

install-lib: ## libamita for C programs (library, header, pkg-config file) into PREFIX (default /usr/local)
	@scripts/prepare build
	@scripts/install-lib $(PREFIX)

fio-engine: ## fio's engine over libamita, built against the source of the fio that is installed
	@scripts/prepare build demo
	@scripts/build-fio-engine

clean: ## Remove everything that was built
	@cargo clean
	@rm -rf web/dist web/node_modules
