# Two commands do everything on a fresh machine: make demo, make test.

.PHONY: demo test check bench fuzz soak setup

setup:
	@scripts/setup

# Generates a dataset and runs plan, fit, inspect, transform and reconstruct on it; builds what the tests build.
demo: setup
	@cargo build --quiet
	@$${CARGO_TARGET_DIR:-target}/debug/eigenstream demo

# All tests: units, laws, golden values, the binary in fresh directories, faults, corruption.
test: setup
	cargo test --quiet

# Hostile files: more than 10,000 mutated models and states, 2,000 mutated Parquet files (minutes).
fuzz: setup
	EIGENSTREAM_FUZZ=1 cargo test --quiet --test integration corrupt

# Load: thousands of small files, 10,000 row groups, fifty kills; prints its figures (minutes).
soak: setup
	EIGENSTREAM_SOAK=1 cargo test --quiet --test integration -- --nocapture --test-threads 1 soak fifty_kills

# What a change must pass besides the tests.
check: setup
	cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --quiet

# Speed and memory against scikit-learn, oneDAL and numpy on the same files (about 30 minutes, 5.2 GB).
bench: setup
	bench/run
