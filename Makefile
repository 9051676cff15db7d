# What a newcomer types. Each target installs what is missing (.ci/setup) and then only calls cargo.

.PHONY: run test fuzz bench lint component setup
.DEFAULT_GOAL := run

OUTPUT ?= keepline.wasm

## Play a conversation through the filter and see what it remembers.
run:
	@.ci/setup wasm
	@cargo build --package keepline
	@cargo run --quiet --package keepline -- demo

## Everything there is to check, against the compiled component and a real Redis.
test:
	@.ci/setup wasm redis
	cargo test --workspace

## Look for input that breaks what must hold for all input: SECONDS for each of the targets.
SECONDS ?= 10
fuzz:
	@.ci/setup wasm
	@tests/fuzz/run $(SECONDS)

## Numbers: tables, side by side in one run.
bench:
	@.ci/setup wasm redis
	@cargo build --release --package keepline
	cargo run --release --quiet --package keepline -- bench

## Format, lints and dependencies; warnings are errors.
lint:
	@.ci/setup wasm
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p keepline-filter --target wasm32-unknown-unknown --target-dir target/wasm -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	@.ci/deny

## The filter as a component, to load in a host of your own: make component OUTPUT=keepline.wasm
component:
	@.ci/setup wasm
	@cargo build --package keepline
	cargo run --quiet --package keepline -- component --output $(OUTPUT)

setup:
	@.ci/setup wasm redis
