//! What deliberate attacks found: files that change under a run, directories that cannot be read,
//! files that look alike, outputs that are inputs.

use crate::skips::skipped;
use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, RecordBatch};
use eigenstream::{Dataset, Fit, Form, Kernel, Listener, Stage, Transform};
use ndarray::Array2;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

fn rows(n: usize, d: usize, shift: f64) -> Array2<f64> {
    Array2::from_shape_fn((n, d), |(i, j)| shift + ((i * 31 + j * 17 + i * i % 7) % 29) as f64)
}

/// Does something when a stage begins, or when its first rows are done.
struct When<'a> {
    begun: AtomicUsize,
    stage: usize,
    advanced: bool,
    act: &'a (dyn Fn() + Sync),
}

impl Listener for When<'_> {
    fn begin(&self, _stage: &Stage) {
        let at = self.begun.fetch_add(1, Ordering::SeqCst);
        if at == self.stage && !self.advanced {
            (self.act)();
        }
    }

    fn advance(&self, _items: u64, _bytes: u64) {
        if self.advanced && self.begun.load(Ordering::SeqCst) == self.stage + 1 {
            (self.act)();
        }
    }
}

/// Other rows of the same shape are put in place of a file.
fn replace(dir: &Workdir) {
    dir.matrix("new.parquet", &rows(400, 60, 1000.0), 100);
    std::fs::rename(dir.path("new.parquet"), dir.path("d.parquet")).unwrap();
}

#[test]
fn a_file_that_is_replaced_ends_the_run_in_every_pass() {
    let kernel = Kernel::Rbf { gamma: 0.01 };
    let fits = [
        ("primal", Fit::pca().form(Form::Primal), 1),
        ("dual", Fit::pca().form(Form::Dual), 2),
        ("randomized", Fit::pca().components(2).form(Form::Randomized), 1),
        ("kernel", Fit::kpca(kernel).components(2), 1),
    ];
    for (name, fit, passes) in fits {
        for stage in 0..passes {
            let dir = Workdir::new();
            dir.matrix("d.parquet", &rows(400, 60, 0.0), 100);
            let data = Dataset::from_paths(&[dir.path("d.parquet").to_str().unwrap()]).unwrap();
            let plan = fit.plan(&data).unwrap();
            let act = || replace(&dir);
            let when = When { begun: AtomicUsize::new(0), stage, advanced: false, act: &act };
            let Err(error) = plan.run(&when) else { panic!("{name}, stage {stage}: no error") };
            let said = error.to_string();
            assert!(said.contains("changed while it was being read"), "{name} {stage}: {said}");
        }
    }
}

#[test]
fn a_file_that_is_replaced_or_written_to_ends_a_transform() {
    let dir = Workdir::new();
    // One unit of several blocks.
    dir.matrix("d.parquet", &rows(10_000, 6, 0.0), 10_000);
    let path = dir.path("d.parquet");
    let open = || Dataset::from_paths(&[path.to_str().unwrap()]).unwrap();
    let data = open();
    let model = Fit::pca().plan(&data).unwrap().run(&eigenstream::Quiet).unwrap();
    let run = |advanced: bool, act: &(dyn Fn() + Sync)| {
        let data = open();
        let plan = Transform::default().plan(&model, &data).unwrap();
        let when = When { begun: AtomicUsize::new(0), stage: 0, advanced, act };
        plan.run(&mut Vec::new(), &when).unwrap_err().to_string()
    };
    let said = run(false, &|| replace(&dir));
    assert!(said.contains("changed while it was being read"), "{said}");
    // The same bytes, written again in place: they may have been others meanwhile.
    dir.matrix("d.parquet", &rows(10_000, 6, 0.0), 10_000);
    let bytes = std::fs::read(&path).unwrap();
    let said = run(true, &|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, &bytes).unwrap();
    });
    assert!(said.contains("changed while it was being read"), "{said}");
}

/// A file whose footer says nothing of its numbers.
fn without_statistics(dir: &Workdir, name: &str, shift: f64) {
    let column = |j: usize| doubles(rows(5_000, 3, shift).column(j).to_vec());
    let columns: Vec<(String, ArrayRef)> = (0..3).map(|j| (format!("x{j}"), column(j))).collect();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .build();
    let file = File::create(dir.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn files_with_equal_footers_are_told_apart_by_their_data() {
    let dir = Workdir::new();
    without_statistics(&dir, "a.parquet", 0.0);
    without_statistics(&dir, "b.parquet", 0.5);
    let size = |name: &str| std::fs::metadata(dir.path(name)).unwrap().len();
    assert_eq!(size("a.parquet"), size("b.parquet"));
    dir.ok(&["fit", "a.parquet", "--state", "s", "-o", "m", "--quiet"]);
    let both = ["fit", "a.parquet", "b.parquet", "--state", "s", "--skip-known", "-o", "m"];
    let run = dir.ok(&both);
    assert!(run.stderr.contains("1 file in the state already"), "{}", run.stderr);
    assert_eq!(dir.json(&["inspect", "m"])["n_rows"], 10_000);
    dir.ok(&["scan", "a.parquet", "b.parquet", "-o", "both", "--quiet"]);
    std::fs::copy(dir.path("a.parquet"), dir.path("c.parquet")).unwrap();
    let said = dir.fails(1, &["fit", "a.parquet", "c.parquet", "-o", "m"]);
    assert!(said.contains("c.parquet: is the same as a.parquet"), "{said}");
}

#[test]
fn an_output_that_is_an_input_by_any_name_is_refused() {
    let dir = Workdir::new();
    dir.matrix("in/a.parquet", &rows(40, 3, 0.0), 10);
    dir.matrix("in/b.parquet", &rows(40, 3, 5.0), 10);
    std::fs::hard_link(dir.path("in/a.parquet"), dir.path("hard.parquet")).unwrap();
    std::os::unix::fs::symlink("in/b.parquet", dir.path("soft.parquet")).unwrap();
    let before = std::fs::read(dir.path("in/a.parquet")).unwrap();
    for out in ["in/a.parquet", "hard.parquet", "soft.parquet"] {
        for words in [
            vec!["fit", "in", "-o", out],
            vec!["fit", "in", "--state", out, "-o", "m"],
            vec!["fit", "in", "--checkpoint", out, "-o", "m"],
            vec!["fit", "in", "--checkpoint", "c", "-o", out],
            vec!["scan", "in", "-o", out],
        ] {
            let said = dir.fails(2, &words);
            assert!(said.contains("would replace the input"), "{words:?}: {said}");
        }
    }
    // What the next reading of the directory would find.
    let said = dir.fails(2, &["fit", "in", "--state", "in/z.parquet", "-o", "m"]);
    assert!(said.contains("is inside the input directory in"), "{said}");
    dir.ok(&["fit", "in", "-o", "m.parquet", "--quiet"]);
    let said = dir.fails(2, &["transform", "m.parquet", "in", "-o", "m.parquet"]);
    assert!(said.contains("would replace the model"), "{said}");
    assert_eq!(std::fs::read(dir.path("in/a.parquet")).unwrap(), before);
}

#[test]
fn directories_are_read_once_and_links_to_nothing_passed_over() {
    let dir = Workdir::new();
    dir.matrix("in/part/a.parquet", &rows(40, 3, 0.0), 10);
    for link in ["in/l1", "in/l2", "in/part/up"] {
        std::os::unix::fs::symlink(dir.path("in"), dir.path(link)).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", dir.path("in/notes.txt")).unwrap();
    let run = dir.ok(&["fit", "in", "-o", "m"]);
    assert!(run.stderr.contains("40 rows in 1 file"), "{}", run.stderr);
    std::os::unix::fs::symlink("nowhere", dir.path("in/lost.parquet")).unwrap();
    let said = dir.fails(1, &["fit", "in", "-o", "m"]);
    assert!(said.contains("in/lost.parquet"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_searched_is_an_error() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if std::fs::metadata("/proc/self").map_or(1, |me| me.uid()) != 0 {
        let why = "only root can become another user";
        return skipped("a_directory_that_cannot_be_searched_is_an_error", why);
    }
    let dir = Workdir::new();
    dir.matrix("in/a.parquet", &rows(40, 3, 0.0), 10);
    dir.matrix("in/sub/deeper/b.parquet", &rows(40, 3, 5.0), 10);
    let mode = |path: PathBuf, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path("."), 0o777);
    mode(dir.path("in/sub"), 0o744);
    // Where the program was built may be closed to others.
    let program = dir.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_eigenstream"), &program).unwrap();
    // By another program: a fork of this one would meet OpenBLAS in the middle of other tests.
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command.args(["fit", "in", "-o", "m", "--quiet"]).current_dir(dir.path("."));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in/sub/deeper"), "{said}");
}

#[test]
fn weights_that_leave_one_row_are_refused() {
    let dir = Workdir::new();
    let x = rows(100, 3, 0.25);
    let mut columns: Vec<(String, ArrayRef)> =
        (0..3).map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))).collect();
    let weights = |of: &dyn Fn(usize) -> f64| doubles((0..100).map(of).collect());
    columns.push(("one".into(), weights(&|i| if i == 0 { 5.0 } else { 0.0 })));
    columns.push(("two".into(), weights(&|i| if i < 2 { 5.0 } else { 0.0 })));
    columns.push(("tiny".into(), weights(&|_| 1e-300)));
    dir.table("d.parquet", columns, 30);
    for form in ["primal", "dual"] {
        let fit = |weight: &str| -> Vec<String> {
            let args = ["fit", "d.parquet", "--columns", "x*", "--form", form, "-o", "m"];
            args.iter().copied().chain(["--weight", weight]).map(String::from).collect()
        };
        let args = fit("one");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = dir.fails(1, &args);
        assert!(said.contains("the weights in 'one' leave 1.00 rows"), "{said}");
        let args = fit("two");
        dir.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let said =
        dir.fails(1, &["fit", "d.parquet", "--columns", "x*", "--weight", "tiny", "-o", "m"]);
    assert!(said.contains("sum to 1.0000e-298"), "{said}");
}

#[test]
fn a_mean_that_overflows_is_not_a_column_of_nulls() {
    let dir = Workdir::new();
    let mut x = rows(20, 3, 0.0);
    x.column_mut(1).fill(1.7e308);
    dir.matrix("d.parquet", &x, 10);
    for options in [&[][..], &["--nulls", "mean"]] {
        let said = dir.fails(1, &[&["fit", "d.parquet", "-o", "m"][..], options].concat());
        assert!(said.contains("column 'x1' has values so large"), "{said}");
    }
}
