# What a newcomer types. Each target installs what is missing (.ci/setup) and then only calls cargo.

.PHONY: run test test-long test-under-load fuzz bench lint component hosts clients page package python python-bench registry interop dist setup
.DEFAULT_GOAL := run

OUTPUT ?= keepline.wasm

## Play a conversation through the filter and see what it remembers.
run:
	@.ci/setup c wasm
	@cargo build --package keepline-harness
	@cargo run --quiet --package keepline-harness -- demo

## All tests, against the compiled component and a real Redis. Many wait for servers and processes more than they compute.
test:
	@.ci/setup c wasm redis python
	cargo build --workspace --bins --examples --tests
	@.ci/tests

## The same with ROUNDS times the random cases, and fuzzing for SECONDS a target: before an issue is called resolved.
ROUNDS ?= 10
test-long: export KEEPLINE_ROUNDS = $(ROUNDS)
test-long: test fuzz

## The same, RUNS times, on a machine that is busy and under parents of all kinds: no test may depend on that.
RUNS ?= 10
test-under-load:
	@.ci/setup c wasm redis python
	@.ci/test-under-load $(RUNS)

## Look for input that breaks what must hold for all input: SECONDS for each of the targets.
SECONDS ?= 10
fuzz:
	@.ci/setup c wasm
	@tests/fuzz/run $(SECONDS)

## Numbers: tables, contenders side by side in one run. For example: make bench BENCH="--only recall --quick", or BENCH=--help
BENCH ?=
bench:
	@.ci/setup c wasm redis
	@cargo build --release --package keepline-harness --package keepline-bench
	@target/release/keepline-bench $(BENCH)

## Format, lints and dependencies; warnings are errors.
lint:
	@.ci/setup c wasm
	cargo fmt --all --check
	@.ci/python format
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p keepline-filter -p keepline-pipelines --target wasm32-unknown-unknown --target-dir target/wasm -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	@.ci/deny

## The filter as a component, to load in a host of your own: make component OUTPUT=keepline.wasm
component:
	@.ci/setup c wasm
	@cargo build --package keepline-harness
	cargo run --quiet --package keepline-harness -- component --output $(OUTPUT)

## The example hosts in Node, Chromium and Python: conversations, the conformance kits, and mutants of a host, which the host kit has to notice.
hosts:
	@.ci/setup c wasm node python browser
	@cargo build --package keepline-harness
	@.ci/hosts

## What takes long to get: the component in wasmCloud's wash on a Redis, and its layout through wash, ORAS and, where it is, wkg.
interop:
	@.ci/setup c wasm redis python registry
	@cargo build --package keepline-harness
	@.ci/interop
	@.ci/registry interop

## Clients of others against `keepline serve`: a property tester on /openapi.json, and NeuroLink's package on its routes.
clients:
	@.ci/setup c wasm node python
	@cargo build --package keepline-harness
	@.ci/clients

## The OCI image layout of a component through a registry on loopback and back.
registry:
	@.ci/setup c wasm registry
	@cargo build --package keepline-harness
	@.ci/registry

## The page of `keepline serve` in a real browser. PICTURES is where its screenshots go.
PICTURES ?= docs/pictures
page:
	@.ci/setup c wasm browser
	PICTURES=$(PICTURES) cargo test --package keepline-tests --test page -- --ignored --test-threads 2

## The library as packages, and a crate outside the workspace that builds and runs on them: target/package-check/package
package:
	@.ci/setup c wasm
	.ci/package

## What is published, with checksums and a bill of materials: target/dist. PROFILE=dev tries it with the build of the tests.
PROFILE ?= release
dist:
	@.ci/setup c wasm
	@.ci/dist $(PROFILE)

## The Python package: its wheel, and its tests with the frameworks that it serves. It compiles wasmtime for itself.
python:
	@.ci/setup c wasm redis python
	@.ci/python

## Its figures, beside those of the frameworks' Redis classes, on the wheel that `make python` has built.
python-bench:
	@python/target/package/venv/bin/python python/bench/frameworks.py

setup:
	@.ci/setup c wasm redis
