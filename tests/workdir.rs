//! A fresh directory, the binary, and Parquet made on the spot.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use ndarray::Array2;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// The program, where it is built.
const BINARY: Option<&str> = option_env!("CARGO_BIN_EXE_eigenstream");

/// A directory of one test, gone at its end.
pub struct Workdir {
    dir: tempfile::TempDir,
}

/// What a run of the binary left.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Workdir {
    pub fn new() -> Workdir {
        Workdir { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the directory is called: like no other.
    pub fn name(&self) -> String {
        self.dir.path().file_name().unwrap().to_string_lossy().trim_start_matches('.').into()
    }

    /// Everything in the directory, hidden files too, sorted.
    pub fn list(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY.expect("the program is built with its command line"));
        command.args(args).current_dir(self.dir.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs and expects success.
    pub fn ok(&self, args: &[&str]) -> Run {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
        run
    }

    /// Runs and expects this exit code and one sentence on stderr, which is returned without its newline.
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let args: Vec<&str> = args.iter().copied().chain(["--quiet"]).collect();
        let run = self.run(&args);
        assert_eq!(run.code, Some(code), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("bug"), "{}", run.stderr);
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "one sentence: {}", run.stderr);
        run.stderr.trim_end().to_string()
    }

    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json", "--quiet"]).collect();
        serde_json::from_str(&self.ok(&args).stdout).unwrap()
    }

    /// Columns x0, x1, … of a matrix, in row groups of this many rows.
    pub fn matrix(&self, name: &str, x: &Array2<f64>, group: usize) {
        let columns = x
            .columns()
            .into_iter()
            .enumerate()
            .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())));
        self.table(name, columns.collect(), group);
    }

    pub fn table(&self, name: &str, columns: Vec<(String, ArrayRef)>, group: usize) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(n, a)| (n, a, true)),
        )
        .unwrap();
        let properties =
            WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
        let mut writer =
            ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties))
                .unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    pub fn read(&self, name: &str) -> RecordBatch {
        read(&self.path(name))
    }

    /// The named f64 columns as rows × columns.
    pub fn numbers(&self, name: &str, columns: &[String]) -> Array2<f64> {
        let batch = self.read(name);
        let mut x = Array2::zeros((batch.num_rows(), columns.len()));
        for (j, column) in columns.iter().enumerate() {
            let array =
                batch.column_by_name(column).unwrap_or_else(|| panic!("{column} is not in {name}"));
            let values = array.as_primitive::<Float64Type>();
            assert_eq!(values.null_count(), 0);
            x.column_mut(j).assign(&ndarray::ArrayView1::from(values.values()));
        }
        x
    }
}

pub fn doubles(values: Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}

pub fn read(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// "x0", "x1", …
pub fn names(prefix: &str, from: usize, n: usize) -> Vec<String> {
    (from..from + n).map(|j| format!("{prefix}{j}")).collect()
}

pub fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub fn array(value: &serde_json::Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no array: {value}"))
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

pub fn matrix(value: &serde_json::Value) -> Array2<f64> {
    let rows: Vec<Vec<f64>> = value.as_array().unwrap().iter().map(array).collect();
    let d = rows.first().map_or(0, Vec::len);
    Array2::from_shape_vec((rows.len(), d), rows.concat()).unwrap()
}

/// |a − b| ≤ tolerance · scale, entry by entry.
pub fn close<'a>(
    a: impl IntoIterator<Item = &'a f64>,
    b: impl IntoIterator<Item = &'a f64>,
    tolerance: f64,
    scale: f64,
) {
    let (a, b): (Vec<&f64>, Vec<&f64>) = (a.into_iter().collect(), b.into_iter().collect());
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        assert!((*a - *b).abs() <= tolerance * scale, "entry {i}: {a} against {b}");
    }
}
