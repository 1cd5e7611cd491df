//! The memory promise over shapes: what is planned is never less than what is held, and not more
//! than half as much again where that is much. Files of every codec, scalar and vector columns,
//! many columns, many row groups, many classes; every method and form; both passes. Each run is in
//! a control group of exactly the planned bytes, which kills what takes more.

use crate::memory::{Cage, peak_of, usage_of};
use crate::skips::skipped;
use crate::workdir::Workdir;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, StringArray};
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::sync::Arc;

/// From here on a plan is to be near what is held.
const MUCH: u64 = 100_000_000;

/// A number that looks like noise and is the same in every run.
fn noise(i: usize) -> f64 {
    let mut h = (i as u64).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h ^= h >> 29;
    h = h.wrapping_mul(0x94D0_49BB_1331_11EB);
    (h >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Six directions that vary, each more than the next, under noise.
fn cell(i: usize, j: usize) -> f64 {
    let along = |f: usize| noise(i * 6 + f) * noise(j * 6 + f + 77) * (8 - f) as f64;
    (0..6).map(along).sum::<f64>() + 0.1 * noise(i * 7919 + j)
}

/// What the columns of a file are.
#[derive(Clone, Copy)]
enum Columns {
    F64(usize),
    F32(usize),
    VectorF64(usize),
    VectorF32(usize),
}

fn feature_columns(n: usize, columns: Columns) -> Vec<(String, ArrayRef)> {
    let doubles = |j: usize| Float64Array::from_iter_values((0..n).map(|i| cell(i, j)));
    let singles = |j: usize| Float32Array::from_iter_values((0..n).map(|i| cell(i, j) as f32));
    let vector = |d: usize, kind: DataType, values: ArrayRef| -> Vec<(String, ArrayRef)> {
        let item = Arc::new(Field::new("element", kind, true));
        vec![("v".into(), Arc::new(FixedSizeListArray::new(item, d as i32, values, None)))]
    };
    match columns {
        Columns::F64(d) => {
            (0..d).map(|j| (format!("x{j}"), Arc::new(doubles(j)) as ArrayRef)).collect()
        }
        Columns::F32(d) => {
            (0..d).map(|j| (format!("x{j}"), Arc::new(singles(j)) as ArrayRef)).collect()
        }
        Columns::VectorF64(d) => {
            let values = Float64Array::from_iter_values((0..n * d).map(|at| cell(at / d, at % d)));
            vector(d, DataType::Float64, Arc::new(values))
        }
        Columns::VectorF32(d) => {
            let cells = (0..n * d).map(|at| cell(at / d, at % d) as f32);
            let values = Float32Array::from_iter_values(cells);
            vector(d, DataType::Float32, Arc::new(values))
        }
    }
}

/// A file of n rows with features, a number y, and a label c of so many classes.
fn write(
    dir: &Workdir,
    name: &str,
    (n, columns): (usize, Columns),
    group: usize,
    classes: usize,
    codec: Compression,
) {
    let mut all = feature_columns(n, columns);
    let class = StringArray::from_iter_values((0..n).map(|i| format!("class {}", i % classes)));
    all.push(("c".into(), Arc::new(class)));
    all.push((
        "y".into(),
        Arc::new(Float64Array::from_iter_values((0..n).map(|i| noise(i * 31 + 5)))),
    ));
    let numbers = |f: &dyn Fn(usize) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..n).map(f)))
    };
    all.push(("w".into(), numbers(&|i| 0.5 + (i % 3) as f64)));
    all.push(("whole".into(), numbers(&|i| (i % 50) as f64)));
    let batch = arrow_array::RecordBatch::try_from_iter_with_nullable(
        all.into_iter().map(|(n, a)| (n, a, true)),
    )
    .unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_compression(codec)
        .build();
    let file = File::create(dir.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Whether all that is planned is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Needed,
    /// For what only the rows tell: 1,000 distinct labels, where there are fewer.
    InReserve,
}

/// What was planned and what was held, told together at the end.
#[derive(Default)]
struct Sweep {
    wrong: Vec<String>,
    runs: usize,
    /// Of the runs, those that were not in a control group.
    free: usize,
}

impl Sweep {
    /// Runs in a control group of the planned bytes, where one can be had, and looks at the peak.
    fn add(&mut self, dir: &Workdir, planned: u64, args: &[&str], room: Room) {
        let what = args.join(" ");
        let memory = planned.to_string();
        let args = [args, &["--quiet", "--memory", &memory]].concat();
        self.runs += 1;
        let cage = Cage::new(&format!("sweep-{}-{}", dir.name(), self.runs), planned);
        self.free += usize::from(cage.is_none());
        let (succeeded, used) = usage_of(dir, &args, cage.as_ref());
        let held = used.ru_maxrss as u64 * 1024;
        let much = room == Room::Needed && held > MUCH && planned * 2 > held * 3;
        println!("{what}: planned {planned}, held {held}");
        if !succeeded || held > planned || much {
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let (planned, held) = (megabytes(planned), megabytes(held));
            let end = if succeeded { "" } else { ", and failed or was killed" };
            self.wrong.push(format!("{what}: planned {planned:.1} MB, held {held:.1} MB{end}"));
        }
    }

    /// A fit, whose plan tells its bytes.
    fn fit(&mut self, dir: &Workdir, data: &str, options: &str) {
        self.fit_with(dir, data, options, Room::Needed);
    }

    fn fit_with(&mut self, dir: &Workdir, data: &str, options: &str, room: Room) {
        let options: Vec<&str> = options.split_whitespace().collect();
        let plan = dir.json(&[&["plan", data], &options[..]].concat());
        let planned = plan["peak_bytes"].as_u64().unwrap();
        self.add(dir, planned, &[&["fit", data, "-o", "m"], &options[..]].concat(), room);
    }

    /// Any other run, with the least memory that it accepts.
    fn least(&mut self, dir: &Workdir, line: &str) {
        let args: Vec<&str> = line.split_whitespace().collect();
        let refused = dir.run(&[&args[..], &["--memory", "10MB"]].concat());
        let least = refused.stderr.split("--memory ").nth(1).map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().unwrap() * 1_000_000
        });
        let Some(planned) = least else {
            panic!("{line}: does not say what it needs: {}", refused.stderr)
        };
        self.add(dir, planned, &args, Room::Needed);
    }

    fn end(self, test: &str) {
        assert!(self.wrong.is_empty(), "\n{}", self.wrong.join("\n"));
        if self.free > 0 {
            skipped(test, "no permission to make a control group: by measured peaks alone");
        }
    }
}

fn codecs() -> [(&'static str, Compression); 6] {
    [
        ("none", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("lz4", Compression::LZ4_RAW),
        ("gzip", Compression::GZIP(GzipLevel::default())),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
        ("brotli", Compression::BROTLI(BrotliLevel::default())),
    ]
}

#[test]
#[ignore = "slow: make test-slow"]
fn plans_hold_for_every_codec() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    for (name, codec) in codecs() {
        write(&dir, name, (240, Columns::F64(8_000)), 80, 3, codec);
        sweep.fit(&dir, name, "--exclude y,w,whole -k 5");
        sweep.fit(&dir, name, "--exclude y,w,whole -k 5 --method spca --label c");
    }
    for (name, codec) in codecs() {
        write(&dir, name, (60_000, Columns::F64(40)), 20_000, 3, codec);
        sweep.fit(&dir, name, "--exclude y,w,whole -k 5");
    }
    sweep.end("plans_hold_for_every_codec");
}

#[test]
#[ignore = "slow: make test-slow"]
fn plans_hold_for_every_method_and_form() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    let plain = Compression::SNAPPY;
    write(&dir, "tall", (200_000, Columns::F64(20)), 50_000, 5, plain);
    write(&dir, "wide", (300, Columns::F64(20_000)), 100, 5, plain);
    write(&dir, "square", (2_500, Columns::F32(1_500)), 500, 5, plain);
    for (data, options) in [
        ("tall", "--exclude y,w,whole"),
        ("tall", "--exclude y,w,whole --nulls mean"),
        ("tall", "--columns x* --method spca --label c"),
        ("tall", "--columns x* --method spca --label y --label-kernel rbf"),
        ("tall", "--columns x* --method spca --label y --label-kernel poly --label-degree 3"),
        ("tall", "--exclude y,w,whole --precision full"),
        ("tall", "--exclude y,w,whole --no-center"),
        ("tall", "--exclude y,w,whole --standardize"),
        ("tall", "--columns x* --weight w"),
        ("tall", "--method kpca --kernel linear --exclude y,w,whole"),
        ("tall", "--method kpca --kernel cosine --exclude y,w,whole"),
        ("tall", "--method kpca --gamma median --landmarks 300 --exclude y,w,whole"),
        ("tall", "--method kpca --gamma median --random-features 300 --exclude y,w,whole"),
        ("tall", "--columns x* --score-by y --keep-features 10"),
        ("wide", "--exclude y,w,whole -k 5"),
        ("wide", "--exclude y,w,whole -k 5 --form randomized --tolerance 1e-2"),
        ("wide", "--exclude y,w,whole -k 5 --standardize"),
        ("wide", "--columns x* -k 5 --weight w"),
        ("wide", "--columns x* --method spca --label y"),
        ("wide", "--columns x* --method spca --label y --label-kernel rbf"),
        ("wide", "--method kpca --gamma median --exclude y,w,whole"),
        ("wide", "--method kspca --gamma median --label c --exclude y,w,whole"),
        ("wide", "--method kspca --gamma median --label c --exclude y,w,whole --form direct"),
        ("wide", "--columns x* --method kspca --gamma median --label y --label-kernel rbf"),
        ("wide", "--method kpca --gamma median --landmarks 100 --exclude y,w,whole"),
        ("wide", "--columns x* --score-by y --keep-features 100"),
        ("square", "--exclude y,w,whole --form primal"),
        ("square", "--exclude y,w,whole --form primal --nulls mean"),
        ("square", "--exclude y,w,whole --form dual"),
        ("square", "--exclude y,w,whole --form randomized --tolerance 1e-2"),
        ("square", "--exclude y,w,whole --form dual -k all"),
        ("square", "--exclude y,w,whole --precision mixed"),
        ("square", "--exclude y,w,whole --precision full"),
        ("square", "--exclude y,w,whole --form primal --no-center"),
        ("square", "--exclude y,w,whole --form primal --standardize"),
        ("square", "--columns x* --weight w --form primal"),
        ("square", "--columns x* --weight w --form dual"),
        ("square", "--columns x* --method spca --label y --label-kernel rbf"),
        ("square", "--method kpca --kernel cosine --exclude y,w,whole"),
        ("square", "--method kpca --kernel poly --exclude y,w,whole"),
        ("square", "--method spca --label c --with-variance --exclude y,w,whole"),
        ("square", "--method kpca --gamma median --exclude y,w,whole"),
        ("square", "--method kpca --gamma median --exclude y,w,whole -k all"),
        ("square", "--method kspca --gamma median --label c --exclude y,w,whole"),
        ("square", "--method kspca --gamma median --label c --exclude y,w,whole --form direct"),
        ("square", "--method kspca --kernel linear --label c --exclude y,w,whole"),
    ] {
        sweep.fit(&dir, data, options);
    }
    dir.ok(&["fit", "square", "--exclude", "y", "-k", "50", "-o", "basis", "--quiet"]);
    sweep.fit(&dir, "square", "--basis basis");
    let few = "--columns x* --method spca --label whole --label-kernel rbf";
    sweep.fit_with(&dir, "square", few, Room::InReserve);
    sweep.end("plans_hold_for_every_method_and_form");
}

/// A number of every two of n points on a line, as a column of vectors.
fn write_pairs(dir: &Workdir, name: &str, n: usize, pair: impl Fn(f64, f64) -> f64) {
    let at = |i: usize| 3.0 * noise(i * 13 + 1);
    let values = (0..n * n).map(|cell| pair(at(cell / n), at(cell % n)));
    let item = Arc::new(Field::new("element", DataType::Float64, true));
    let values = Arc::new(Float64Array::from_iter_values(values));
    let rows: ArrayRef = Arc::new(FixedSizeListArray::new(item, n as i32, values, None));
    dir.table(name, vec![("v".into(), rows)], 500);
}

#[test]
#[ignore = "slow: make test-slow"]
fn plans_hold_for_kernels_that_are_given() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    let distance = |a: f64, b: f64| (a - b).abs();
    write_pairs(&dir, "near", 1_500, distance);
    write_pairs(&dir, "far", 4_000, distance);
    write_pairs(&dir, "gram", 1_500, |a, b| (-distance(a, b)).exp());
    write(&dir, "rows", (1_500, Columns::F64(300)), 500, 5, Compression::SNAPPY);
    for data in ["near", "far"] {
        for options in ["--kernel distances -k 5", "--kernel distances -k all"] {
            sweep.fit(&dir, data, &format!("--columns v --method kpca {options}"));
        }
    }
    let labels = "--columns x* --label-kernel precomputed --label-data gram";
    sweep.fit(&dir, "gram", "--columns v --method kpca --kernel precomputed -k 5");
    sweep.fit(&dir, "gram", "--columns v --method kpca --kernel precomputed -k all");
    sweep.fit(&dir, "rows", &format!("{labels} --method spca -k 5"));
    sweep.fit(&dir, "rows", &format!("{labels} --method kspca --gamma median -k 5"));
    sweep.end("plans_hold_for_kernels_that_are_given");
}

#[test]
#[ignore = "slow: make test-slow"]
fn plans_hold_for_vectors() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    for (name, columns) in [("f32", Columns::VectorF32(1_500)), ("f64", Columns::VectorF64(1_500))]
    {
        write(&dir, name, (3_000, columns), 3_000, 5, Compression::SNAPPY);
        for options in [
            "--form primal -k 5",
            "--form primal -k all",
            "--nulls mean",
            "--form dual -k 5",
            "--form randomized -k 5 --tolerance 1e-2",
            "--score-by y --keep-features 100 -k 3",
            "--method spca --label c",
            "--method kpca --gamma median --random-features 200",
        ] {
            sweep.fit(&dir, name, &format!("--columns v {options}"));
        }
        sweep.least(&dir, &format!("scan {name} --columns v --label c -o st"));
    }
    sweep.fit(&dir, "f32", "--columns v --precision mixed");
    write(&dir, "long", (5_000, Columns::VectorF32(4_000)), 5_000, 5, Compression::SNAPPY);
    sweep.fit(&dir, "long", "--columns v --score-by y --keep-features 50");
    sweep.end("plans_hold_for_vectors");
}

#[test]
#[ignore = "slow: make test-slow"]
fn plans_hold_for_many_columns_row_groups_and_classes() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    write(&dir, "columns", (40, Columns::F32(200_000)), 40, 2, Compression::SNAPPY);
    sweep.fit(&dir, "columns", "--exclude y,w,whole -k 5");
    write(&dir, "groups", (200_000, Columns::F64(10)), 20, 2, Compression::SNAPPY);
    sweep.fit(&dir, "groups", "--exclude y,w,whole");
    sweep.fit(&dir, "groups", "--method spca --label c --exclude y,w,whole");
    write(&dir, "classes", (200_000, Columns::F64(10)), 20_000, 43_208, Compression::SNAPPY);
    let fit = "fit classes --method spca --label c --exclude y,w,whole -o m --quiet --memory 100MB";
    let held = peak_of(&dir, &fit.split(' ').collect::<Vec<_>>(), true);
    assert!(held <= 100_000_000, "43,208 classes hold {held} bytes");
    sweep.end("plans_hold_for_many_columns_row_groups_and_classes");
}

#[test]
#[ignore = "slow: make test-slow"]
fn second_passes_scans_and_hsic_hold_what_they_say() {
    let (dir, mut sweep) = (Workdir::new(), Sweep::default());
    write(
        &dir,
        "tall",
        (200_000, Columns::F64(20)),
        50_000,
        5,
        Compression::ZSTD(ZstdLevel::default()),
    );
    write(&dir, "vectors", (20_000, Columns::VectorF32(700)), 5_000, 5, Compression::SNAPPY);
    write(&dir, "few", (4_000, Columns::F64(50)), 1_000, 5, Compression::SNAPPY);
    for data in ["tall", "vectors"] {
        let model = format!("m-{data}");
        let fit = format!("fit {data} --exclude y,w,whole -k 10 -o {model} --quiet");
        dir.ok(&fit.split(' ').collect::<Vec<_>>());
        for options in ["", "--keep-all", "--diagnostics --layout list", "--nulls null"] {
            sweep.least(&dir, &format!("transform {model} {data} -o s.parquet {options}"));
        }
        sweep.least(&dir, &format!("reconstruct {model} {data} -o r.parquet"));
        sweep.least(&dir, &format!("scan {data} --label c -o st --exclude y,w,whole"));
    }
    dir.ok(&["fit", "few", "--method", "kpca", "--exclude", "y", "-o", "m-few", "--quiet"]);
    sweep.least(&dir, "transform m-few few -o s.parquet");
    sweep.least(&dir, "hsic few --label c --exclude y,w,whole --kernel rbf");
    sweep.least(&dir, "hsic few --label c --exclude y,w,whole");
    sweep.end("second_passes_scans_and_hsic_hold_what_they_say");
}
