# Two commands do everything on a fresh machine: make demo, make test.

.PHONY: demo test check bench setup

setup:
	@scripts/setup

# Generates a dataset and runs plan, fit, inspect, transform and reconstruct on it.
demo: setup
	@cargo build --release --quiet
	@$${CARGO_TARGET_DIR:-target}/release/eigenstream demo

# All tests: units, laws, golden values, the binary in fresh directories, faults, corruption.
test: setup
	cargo test --quiet

# What a change must pass besides the tests.
check: setup
	cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --quiet

# Speed and memory against scikit-learn, oneDAL and numpy on the same files (about 30 minutes, 5.2 GB).
bench: setup
	bench/run
