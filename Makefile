# Two commands do everything on a fresh machine: make demo, make test.

LOAD = -- --include-ignored --nocapture --test-threads 1 soak fifty_kills races

.PHONY: demo test test-slow test-python test-spark wheel check bench bench-python bench-spark fuzz fuzz-guided soak setup

# Builds the tests in sight, runs them, and tells at the end which could not run on this machine.
define run_tests
	cargo test --no-run $(1)
	@skipped=$$(mktemp); survived=$$(mktemp); code=0; export EIGENSTREAM_SURVIVED=$$survived; \
	EIGENSTREAM_SKIPPED=$$skipped cargo test --quiet $(1) $(2) || code=$$?; \
	sort "$$skipped"; echo "$$(wc -l < "$$skipped") tests skipped"; scripts/survival "$$survived"; \
	rm -f "$$skipped" "$$survived"; exit $$code
endef

setup:
	@scripts/setup

# Generates a dataset and runs plan, fit, inspect, transform and reconstruct on it; builds what the
# tests build.
demo: setup
	cargo build
	@$${CARGO_TARGET_DIR:-target}/debug/eigenstream demo

# What every change runs: units, laws, golden values, theory, the command line (a minute).
test: setup
	$(call run_tests)

# What takes longer: kills, full sweeps of memory, large kernels, scrambled files, and the library
# without its command line (minutes).
test-slow: setup
	$(call run_tests,--test integration,-- --ignored)
	cargo test --quiet --no-default-features --lib --test library

# Hostile files: more than 10,000 mutated models and states, 2,000 mutated Parquet files (minutes).
fuzz: export EIGENSTREAM_FUZZ = 1
fuzz: setup
	$(call run_tests,--test integration,-- --include-ignored corrupt)

# The three readers under a fuzzer that watches what the code does, SECONDS_EACH (60) seconds each.
fuzz-guided: setup
	scripts/fuzz-guided

# Load: thousands of small files, 10,000 row groups, kills, races; prints its figures (minutes).
soak: export EIGENSTREAM_SOAK = 1
soak: setup
	$(call run_tests,--test integration,$(LOAD))

# The Python package in an environment of its own, from the registries: types, tests, doctests, the notebook.
test-python: setup
	cargo build
	@env=$$(scripts/python-env) && export EIGENSTREAM_BIN=$$(realpath $${CARGO_TARGET_DIR:-target})/debug/eigenstream; \
	cd python && $$(cd .. && realpath $$env)/bin/python -m pytest

# The package on Spark: two executors, Spark Connect, Sail, and shards by other schedulers.
test-spark: setup
	cargo build
	@env=$$(scripts/spark-env) && export EIGENSTREAM_BIN=$$(realpath $${CARGO_TARGET_DIR:-target})/debug/eigenstream; \
	export EIGENSTREAM_SAIL=$$(realpath $$env-sail)/bin/python; \
	cd python && $$(cd .. && realpath $$env)/bin/python -m pytest spark_tests

# A wheel with OpenBLAS in it, for CPython from 3.9 on, in target/wheels.
wheel: setup
	@env=$$(scripts/python-env) && PATH=$$(realpath $$env)/bin:$$PATH maturin build --release --manifest-path python/Cargo.toml

# What a change must pass besides the tests.
check: setup
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo clippy --no-default-features --all-targets -- -D warnings
	cargo clippy -p eigenstream-python -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

# Speed and memory against scikit-learn, oneDAL and numpy on the same files (half an hour, 5.2 GB).
bench: setup
	bench/run

# The Python package beside scikit-learn and FAISS, on the same arrays and files (ten minutes).
bench-python: setup
	@[ -d bench/data/tall ] || (python3 -m venv .venv && .venv/bin/pip install --quiet numpy pyarrow && .venv/bin/python bench/gen.py bench/data tall)
	@env=$$(scripts/python-env --release) && $$env/bin/pip install --quiet faiss-cpu && $$env/bin/python bench/python.py bench/data

# The package on Spark beside MLlib's PCA, in one session (five minutes).
bench-spark: setup
	@[ -d bench/data/tall ] || (python3 -m venv .venv && .venv/bin/pip install --quiet numpy pyarrow && .venv/bin/python bench/gen.py bench/data tall)
	@env=$$(scripts/spark-env --release) && $$env/bin/python bench/spark.py bench/data
