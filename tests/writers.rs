//! The same rows as pyarrow, DuckDB and Spark write them (`fixtures/writers/make.py`).

use crate::workdir::{Workdir, array, close, fixture};

const FILES: [&str; 7] = [
    "pyarrow",
    "pyarrow-v1-snappy",
    "pyarrow-v2-gzip",
    "pyarrow-split-brotli",
    "pyarrow-delta-lz4",
    "duckdb",
    "spark",
];

#[test]
fn all_writers_give_the_same_model() {
    let mut first: Option<serde_json::Value> = None;
    for file in FILES {
        let dir = Workdir::new();
        let data = fixture(&format!("writers/{file}.parquet"));
        let run = dir.ok(&["fit", &data, "-k", "all", "-o", "m"]);
        assert!(
            run.stderr
                .contains("features: 7 features in 5 of 6 columns: a, b, c, d, v (3 elements)"),
            "{file}: {}",
            run.stderr
        );
        let model = dir.json(&["inspect", "m"]);
        dir.ok(&["transform", "m", &data, "--keep", "s,c", "-o", "s.parquet"]);
        assert_eq!(dir.read("s.parquet").num_rows(), 300);
        match &first {
            None => first = Some(model),
            Some(expected) => {
                let largest = array(&expected["eigenvalues"])[0];
                close(
                    &array(&model["eigenvalues"]),
                    &array(&expected["eigenvalues"]),
                    1e-14,
                    largest,
                );
                close(&array(&model["mean"]), &array(&expected["mean"]), 1e-14, 10.0);
                assert_eq!(model["features"], expected["features"], "{file}");
            }
        }
    }
}

#[test]
fn a_model_serves_the_files_of_another_writer() {
    let dir = Workdir::new();
    dir.ok(&["fit", &fixture("writers/duckdb.parquet"), "-o", "m"]);
    dir.ok(&["transform", "m", &fixture("writers/spark.parquet"), "-o", "a.parquet"]);
    dir.ok(&["transform", "m", &fixture("writers/pyarrow.parquet"), "-o", "b.parquet"]);
    let columns: Vec<String> = (1..=7).map(|i| format!("pc{i}")).collect();
    close(&dir.numbers("a.parquet", &columns), &dir.numbers("b.parquet", &columns), 1e-13, 100.0);
}

#[test]
fn old_models_stay_readable() {
    let dir = Workdir::new();
    for (file, form) in [("v1/pca", "primal"), ("v2/dual", "dual"), ("v2/randomized", "randomized")]
    {
        let path = fixture(&format!("models/{file}.safetensors"));
        let model = dir.json(&["inspect", &path]);
        assert_eq!((model["method"].as_str(), model["form"].as_str()), (Some("pca"), Some(form)));
        assert_eq!(model["n_features"].as_u64(), Some(7));
        dir.ok(&["transform", &path, &fixture("golden/plain.parquet"), "-o", "s.parquet"]);
        assert_eq!(dir.read("s.parquet").num_rows(), 200);
    }
}
