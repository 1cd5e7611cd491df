//! The commands as people use them.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, names};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::DataType;
use std::sync::Arc;

#[test]
fn models_and_scores_are_the_same_bytes_for_any_threads_and_memory() {
    let dir = Workdir::new();
    for (kind, data) in [("lowrank", "a"), ("embedding", "b"), ("smallgroups", "c")] {
        dir.ok(&[
            "generate",
            kind,
            "--rows",
            "50000",
            "--columns",
            "20",
            "--files",
            "3",
            "--row-group",
            "3000",
            "-o",
            data,
        ]);
        let mut outputs = Vec::new();
        for (threads, memory) in [("1", "2GB"), ("2", "300MB"), ("5", "1GB")] {
            let resources = ["--threads", threads, "--memory", memory, "--quiet"];
            let run =
                |args: &[&str]| dir.ok(&args.iter().chain(&resources).copied().collect::<Vec<_>>());
            run(&["fit", data, "--exclude", "i*", "-o", "m"])
                .stdout
                .is_empty()
                .then_some(())
                .unwrap();
            run(&["transform", "m", data, "--diagnostics", "-o", "s.parquet"]);
            outputs.push((
                std::fs::read(dir.path("m")).unwrap(),
                std::fs::read(dir.path("s.parquet")).unwrap(),
            ));
        }
        assert!(outputs.windows(2).all(|w| w[0] == w[1]), "{kind}");
    }
}

#[test]
fn kept_columns_pass_untouched_in_input_order() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "5000",
        "--files",
        "3",
        "--row-group",
        "700",
        "-o",
        "d",
    ]);
    dir.ok(&["fit", "d", "--columns", "x*", "-k", "3", "-o", "m"]);
    dir.ok(&["transform", "m", "d", "--keep", "label_dictionary,id,label_bool", "-o", "s.parquet"]);
    let scores = dir.read("s.parquet");
    let schema = scores.schema();
    let fields: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(fields, ["label_dictionary", "id", "label_bool", "pc1", "pc2", "pc3"]);
    assert_eq!(
        schema.field(0).data_type(),
        &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    );
    let ids = scores.column(1).as_primitive::<arrow_array::types::Int64Type>();
    assert!(ids.values().iter().copied().eq(0..5000), "input order");
    let labels = scores.column(0).as_dictionary::<Int32Type>();
    let original = crate::workdir::read(&dir.path("d/part-000.parquet"));
    let first =
        original.column_by_name("label_string").unwrap().as_string::<i32>().value(0).to_string();
    let key = labels.keys().value(0) as usize;
    assert_eq!(labels.values().as_string::<i32>().value(key), first);
    dir.ok(&["transform", "m", "d", "--keep-all", "-o", "all.parquet"]);
    assert_eq!(dir.read("all.parquet").num_columns(), 22 + 3);
}

#[test]
fn a_directory_gets_one_file_per_input_under_the_same_name() {
    let dir = Workdir::new();
    let x = rows(90, 3);
    for (i, part) in ["dt=1/p.parquet", "dt=2/p.parquet"].iter().enumerate() {
        dir.matrix(
            &format!("d/{part}"),
            &x.slice(ndarray::s![i * 40..i * 40 + 40 + 10 * i, ..]).to_owned(),
            16,
        );
    }
    dir.ok(&["fit", "d", "-o", "m"]);
    dir.ok(&["transform", "m", "d", "-o", "out"]);
    assert_eq!(
        (dir.read("out/dt=1/p.parquet").num_rows(), dir.read("out/dt=2/p.parquet").num_rows()),
        (40, 50)
    );
    dir.ok(&["transform", "m", "d", "-o", "out"]);
    dir.ok(&["transform", "m", "d", "-o", "one.parquet"]);
    let pc = names("pc", 1, 3);
    let both = ndarray::concatenate![
        ndarray::Axis(0),
        dir.numbers("out/dt=1/p.parquet", &pc),
        dir.numbers("out/dt=2/p.parquet", &pc)
    ];
    assert_eq!(both, dir.numbers("one.parquet", &pc));
    assert_eq!(dir.list(), ["d", "m", "one.parquet", "out"], "nothing stray");
}

#[test]
fn layout_and_dtype_are_obeyed() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 4), 20);
    dir.ok(&["fit", "d.parquet", "-k", "2", "-o", "m"]);
    dir.ok(&[
        "transform",
        "m",
        "d.parquet",
        "--layout",
        "list",
        "--dtype",
        "f32",
        "--compression",
        "none",
        "-o",
        "l.parquet",
    ]);
    dir.ok(&["transform", "m", "d.parquet", "-o", "c.parquet"]);
    let list = dir.read("l.parquet");
    let pc = list.column_by_name("pc").unwrap().as_fixed_size_list();
    assert_eq!((pc.value_length(), pc.value_type()), (2, DataType::Float32));
    let scores = dir.numbers("c.parquet", &names("pc", 1, 2));
    let values = pc.values().as_primitive::<arrow_array::types::Float32Type>();
    assert!(values.values().iter().zip(scores.iter()).all(|(a, b)| *a == *b as f32));
}

#[test]
fn features_are_matched_by_name() {
    let dir = Workdir::new();
    let x = rows(50, 3);
    let column = |j: usize| (format!("x{j}"), doubles(x.column(j).to_vec()));
    dir.table("d.parquet", (0..3).map(column).collect(), 20);
    let extra: (String, ArrayRef) = ("note".into(), Arc::new(StringArray::from(vec!["n"; 50])));
    dir.table("shuffled.parquet", vec![column(2), extra, column(0), column(1)], 20);
    dir.ok(&["fit", "d.parquet", "-o", "m"]);
    dir.ok(&["transform", "m", "d.parquet", "-o", "a.parquet"]);
    dir.ok(&["transform", "m", "shuffled.parquet", "-o", "b.parquet"]);
    assert_eq!(dir.read("a.parquet"), dir.read("b.parquet"));
}

#[test]
fn constant_columns_are_left_out_of_standardized_models_and_come_back() {
    let dir = Workdir::new();
    let x = rows(60, 3);
    let vector = FixedSizeListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>(
        (0..60).map(|i| Some(vec![Some(x[[i, 2]]), Some(4.25), Some(x[[i, 1]] * x[[i, 0]])])),
        3,
    );
    let mut columns: Vec<(String, ArrayRef)> = vec![("a".into(), doubles(x.column(0).to_vec()))];
    columns.push(("same".into(), doubles(vec![0.1; 60])));
    columns.push(("v".into(), Arc::new(vector)));
    dir.table("d.parquet", columns, 16);
    let run = dir.ok(&["fit", "d.parquet", "--standardize", "-k", "all", "-o", "m"]);
    assert!(
        run.stderr.contains("note: constant, so left out of the standardized features: same, v[1]"),
        "{}",
        run.stderr
    );
    let model = dir.json(&["inspect", "m"]);
    assert_eq!(model["features"], serde_json::json!(["a", "v[0]", "v[2]"]));
    dir.ok(&["reconstruct", "m", "d.parquet", "-o", "r.parquet"]);
    let (before, after) = (dir.read("d.parquet"), dir.read("r.parquet"));
    close(
        after["same"].as_primitive::<arrow_array::types::Float64Type>().values(),
        &[0.1; 60],
        1e-15,
        1.0,
    );
    let flat = |b: &RecordBatch| {
        b["v"]
            .as_fixed_size_list()
            .values()
            .as_primitive::<arrow_array::types::Float64Type>()
            .values()
            .to_vec()
    };
    close(&flat(&after), &flat(&before), 1e-13, 10.0);
}

#[test]
fn nulls_are_replayed_at_transform() {
    let dir = Workdir::new();
    dir.ok(&["generate", "nulls", "--rows", "2000", "--columns", "5", "-o", "d"]);
    let run = dir.ok(&["fit", "d", "--exclude", "id", "--nulls", "drop", "-o", "m"]);
    assert!(run.stderr.contains("rows of 2,000 dropped for"), "{}", run.stderr);
    let fitted = dir.json(&["inspect", "m"])["n_rows"].as_u64().unwrap();
    let done = dir.json(&["transform", "m", "d", "--keep", "id", "-o", "s.parquet"]);
    assert_eq!(done["rows_written"], fitted);
    assert_eq!(dir.read("s.parquet").num_rows() as u64, fitted);
    dir.ok(&["fit", "d", "--exclude", "id", "--nulls", "mean", "-k", "all", "-o", "m"]);
    let run = dir.ok(&["transform", "m", "d", "--diagnostics", "-o", "f.parquet"]);
    assert!(run.stderr.contains("filled with the training mean"), "{}", run.stderr);
    let scores = dir.numbers("f.parquet", &names("pc", 1, 5));
    assert_eq!(scores.nrows(), 2000);
    close(&scores.mean_axis(ndarray::Axis(0)).unwrap(), &[0.0; 5], 1e-12, 10.0);
}

#[test]
fn every_numeric_type_is_a_feature() {
    let dir = Workdir::new();
    dir.ok(&["generate", "types", "--rows", "400", "-o", "d"]);
    dir.ok(&["fit", "d", "-k", "all", "-o", "m"]);
    let model = dir.json(&["inspect", "m"]);
    assert_eq!(model["n_features"], 22);
    let mean = array(&model["mean"]);
    let first = crate::workdir::read(&dir.path("d/part-000.parquet"));
    let second = crate::workdir::read(&dir.path("d/part-001.parquet"));
    for (j, name) in [
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f16",
        "f32",
        "f64",
        "bool",
        "decimal128",
        "decimal256",
    ]
    .iter()
    .enumerate()
    {
        let total: f64 = [&first, &second].iter().map(|b| sum(&b[name])).sum();
        assert!(
            (mean[j] - total / 400.0).abs() < 1e-10,
            "{name}: {} against {}",
            mean[j],
            total / 400.0
        );
    }
}

/// The sum of a column, each value through its printed form where it is no machine number.
fn sum(column: &ArrayRef) -> f64 {
    use arrow_array::types::*;
    macro_rules! add {
        ($t:ty) => {
            column
                .as_primitive::<$t>()
                .iter()
                .flatten()
                .map(|v| v.to_string().parse::<f64>().unwrap())
                .sum()
        };
    }
    let text = |digits: String| digits.parse::<f64>().unwrap();
    match column.data_type() {
        DataType::Int8 => add!(Int8Type),
        DataType::Int16 => add!(Int16Type),
        DataType::Int32 => add!(Int32Type),
        DataType::Int64 => add!(Int64Type),
        DataType::UInt8 => add!(UInt8Type),
        DataType::UInt16 => add!(UInt16Type),
        DataType::UInt32 => add!(UInt32Type),
        DataType::UInt64 => add!(UInt64Type),
        DataType::Float16 => {
            column.as_primitive::<Float16Type>().iter().flatten().map(|v| v.to_f64()).sum()
        }
        DataType::Float32 => {
            column.as_primitive::<Float32Type>().iter().flatten().map(f64::from).sum()
        }
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().sum(),
        DataType::Boolean => column.as_boolean().true_count() as f64,
        DataType::Decimal128(..) => {
            let a = column.as_primitive::<Decimal128Type>();
            (0..a.len()).map(|i| text(a.value_as_string(i))).sum()
        }
        DataType::Decimal256(..) => {
            let a = column.as_primitive::<Decimal256Type>();
            (0..a.len()).map(|i| text(a.value_as_string(i))).sum()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn integers_beyond_doubles_are_told() {
    let dir = Workdir::new();
    let big: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 53) + 1, 5, -(1 << 60) - 1, 7]));
    dir.table(
        "d.parquet",
        vec![("a".into(), doubles(vec![1.0, 3.0, 2.0, 5.0])), ("big".into(), big)],
        10,
    );
    let run = dir.ok(&["fit", "d.parquet", "-o", "m"]);
    assert!(
        run.stderr
            .contains("note: numbers beyond 2^53 were rounded to the nearest double: big (2)"),
        "{}",
        run.stderr
    );
    assert_eq!(dir.json(&["inspect", "m"])["rounded"]["big"], 2);
}

#[test]
fn too_many_components_are_capped_with_a_word() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(5, 8), 20);
    let run = dir.ok(&["fit", "d.parquet", "-k", "7", "-o", "m"]);
    assert!(
        run.stderr
            .contains("note: kept 4 of 7 components: the data has rank 4 (5 rows × 8 features)"),
        "{}",
        run.stderr
    );
    let run = dir.ok(&["transform", "m", "d.parquet", "-k", "6", "-o", "s.parquet"]);
    assert!(run.stderr.contains("note: asked for 6 components, the model has 4"), "{}", run.stderr);
    let inspect = dir.ok(&["inspect", "m"]).stdout;
    assert!(
        inspect.contains("Minka's rule needs more rows than features (5 rows, 8 features)"),
        "{inspect}"
    );
}

#[test]
fn plan_reads_footers_only_and_fits_what_it_says() {
    let dir = Workdir::new();
    dir.ok(&["generate", "lowrank", "--rows", "3000", "--columns", "6", "--files", "3", "-o", "d"]);
    let text = dir.ok(&["plan", "d", "--exclude", "id", "--memory", "100MB"]).stdout;
    for line in [
        "rows      3,000",
        "features  6 of 7 columns: x0, x1, x2, x3, x4, x5",
        "not id (excluded)",
        "passes    1 over",
        "of 100.0 MB (--memory)",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let plan = dir.json(&["plan", "d", "--exclude", "id"]);
    assert_eq!(
        (plan["n_rows"].as_u64(), plan["n_features"].as_u64(), plan["passes"].as_u64()),
        (Some(3000), Some(6), Some(1))
    );
    assert_eq!(plan["fits"], true);
    // Damage every page but leave the footers: a plan must not notice, a fit must.
    for part in 0..3 {
        let path = dir.path(&format!("d/part-{part:03}.parquet"));
        let mut bytes = std::fs::read(&path).unwrap();
        let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap())
            as usize;
        let end = bytes.len() - 8 - footer;
        bytes[4..end].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
    }
    dir.ok(&["plan", "d", "--exclude", "id"]);
    assert!(dir.fails(1, &["fit", "d", "--exclude", "id", "-o", "m"]).contains("damaged"));
}

#[test]
fn generated_data_is_seeded() {
    let dir = Workdir::new();
    for (name, seed) in [("a", "7"), ("b", "7"), ("c", "8")] {
        dir.ok(&["generate", "labels", "--rows", "500", "--seed", seed, "-o", name]);
    }
    let bytes = |name: &str| std::fs::read(dir.path(&format!("{name}/part-001.parquet"))).unwrap();
    assert_eq!(bytes("a"), bytes("b"));
    assert_ne!(bytes("a"), bytes("c"));
}

#[test]
fn every_kind_can_be_generated_and_fitted() {
    for kind in [
        "lowrank",
        "embedding",
        "wide",
        "rings",
        "offset",
        "nulls",
        "smallgroups",
        "labels",
        "types",
    ] {
        let dir = Workdir::new();
        dir.ok(&["generate", kind, "--rows", "250", "--columns", "12", "--files", "3", "-o", "d"]);
        dir.ok(&["fit", "d", "--nulls", "drop", "-k", "2", "-o", "m"]);
        let plan = dir.json(&["plan", "d"]);
        assert_eq!(
            (plan["n_rows"].as_u64(), plan["n_files"].as_u64()),
            (Some(250), Some(3)),
            "{kind}"
        );
    }
}

#[test]
fn the_demo_runs_and_explains_itself() {
    let dir = Workdir::new();
    let out = dir.ok(&["demo", "--rows", "5000"]).stdout;
    for words in [
        "$ eigenstream plan",
        "$ eigenstream fit",
        "top loadings",
        "$ eigenstream reconstruct",
        "the model: one safetensors file",
    ] {
        assert!(out.contains(words), "{words} in\n{out}");
    }
    dir.ok(&["demo", "--rows", "5000"]);
    std::fs::create_dir(dir.path("mine")).unwrap();
    assert!(dir.fails(2, &["demo", "-o", "mine"]).contains("was not made by a demo"));
}

#[test]
fn results_go_to_stdout_and_talk_to_stderr() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 3), 20);
    let run = dir.ok(&["fit", "d.parquet", "-o", "m"]);
    assert!(
        run.stdout.is_empty() && run.stderr.contains("features: 3 of 3 columns: x0, x1, x2"),
        "{}",
        run.stderr
    );
    let run = dir.ok(&["fit", "d.parquet", "-o", "m", "--quiet", "--json"]);
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(summary["n_components"], 3);
    assert!(dir.ok(&["inspect", "m"]).stderr.is_empty());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = Workdir::new();
    dir.ok(&["generate", "wide", "--rows", "50", "--columns", "400", "-o", "d"]);
    dir.ok(&["fit", "d", "-o", "m"]);
    let mut child = dir
        .command(&["inspect", "m", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap()),
        (Some(0), String::new())
    );
}

#[test]
fn the_json_has_every_promised_name() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 3), 20);
    dir.ok(&["fit", "d.parquet", "-k", "2", "-o", "m"]);
    let model = dir.json(&["inspect", "m"]);
    let promised = "method form n_rows n_features features n_components rank eigenvalues explained_variance explained_variance_ratio \
        total_variance mean scale components kernel label hsic selection certificate nulls weight seed version";
    for name in promised.split_whitespace() {
        assert!(model.as_object().unwrap().contains_key(name), "{name}");
    }
    assert!(model["scale"].is_null() && model["weight"].is_null() && model["hsic"].is_null());
    assert_eq!(model["eigenvalues"].as_array().unwrap().len(), 2);
    assert_eq!(model["components"].as_array().unwrap().len(), 2);
    for name in ["max_residual", "orthogonality"] {
        assert!(model["certificate"][name].is_f64(), "{name}");
    }
}

#[test]
fn links_are_written_through() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 3), 20);
    std::fs::write(dir.path("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", dir.path("link")).unwrap();
    dir.ok(&["fit", "d.parquet", "-o", "link"]);
    assert!(std::fs::symlink_metadata(dir.path("link")).unwrap().is_symlink());
    dir.ok(&["inspect", "real"]);
}

#[test]
fn keep_all_loses_no_column() {
    let dir = Workdir::new();
    let x = rows(20, 3);
    let column = |j: usize| (format!("x{j}"), doubles(x.column(j).to_vec()));
    dir.table("d/a.parquet", vec![column(0), column(1)], 10);
    dir.table("d/b.parquet", vec![column(0), column(1), column(2)], 10);
    dir.ok(&["fit", "d", "--columns", "x0,x1", "-o", "m"]);
    let said = dir.fails(1, &["transform", "m", "d", "--keep-all", "-o", "s.parquet"]);
    assert_eq!(
        said,
        "transform: d/b.parquet: column 'x2': is not in d/a.parquet; --keep-all needs the same columns in every file, name them with --keep"
    );
    dir.ok(&["reconstruct", "m", "d/b.parquet", "--keep-all", "-o", "r.parquet"]);
    let names: Vec<String> =
        dir.read("r.parquet").schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["x2", "x0", "x1"], "features are recomputed, the rest is kept");
}

#[test]
fn numbers_at_the_ends_of_the_range_are_right_or_told() {
    let dir = Workdir::new();
    dir.matrix("big.parquet", &(rows(200, 3) * 1e150), 50);
    dir.ok(&["fit", "big.parquet", "-k", "all", "-o", "big"]);
    let certificate = &dir.json(&["inspect", "big"])["certificate"];
    assert!(certificate["max_residual"].as_f64().unwrap() < 1e-14, "{certificate}");
    dir.matrix("d.parquet", &rows(50, 3), 20);
    dir.ok(&["fit", "d.parquet", "-o", "m"]);
    let run = dir.ok(&["transform", "m", "big.parquet", "--dtype", "f32", "-o", "s.parquet"]);
    assert!(
        run.stderr.contains(
            "note: 600 computed numbers beyond the range of Float32 written as inf or NaN"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn kept_dates_are_dates_for_every_reader() {
    let dir = Workdir::new();
    let days: ArrayRef = Arc::new(Date64Array::from(vec![86_400_000, 0, 172_800_000]));
    dir.table(
        "d.parquet",
        vec![("x".into(), doubles(vec![1.0, 2.0, 4.0])), ("day".into(), days)],
        10,
    );
    dir.ok(&["fit", "d.parquet", "-o", "m"]);
    dir.ok(&["transform", "m", "d.parquet", "--keep", "day", "-o", "s.parquet"]);
    let reader = parquet::file::serialized_reader::SerializedFileReader::new(
        std::fs::File::open(dir.path("s.parquet")).unwrap(),
    )
    .unwrap();
    let column = parquet::file::reader::FileReader::metadata(&reader)
        .file_metadata()
        .schema_descr()
        .column(0);
    assert_eq!(column.logical_type_ref(), Some(&parquet::basic::LogicalType::Date));
    assert_eq!(dir.read("s.parquet")["day"].data_type(), &DataType::Date64);
}

#[test]
fn lists_with_null_rows_follow_the_policy() {
    let dir = Workdir::new();
    let list =
        ListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>((0..40).map(|i| {
            (i % 7 != 3)
                .then(|| (0..3).map(|j| Some(((i * 5 + j * 11) % 13) as f64)).collect::<Vec<_>>())
        }));
    dir.table("d.parquet", vec![("v".into(), Arc::new(list) as ArrayRef)], 16);
    assert!(
        dir.fails(1, &["fit", "d.parquet", "-o", "m"])
            .contains("column 'v[0]', row 3 (counted from 0): is null or NaN")
    );
    dir.ok(&["fit", "d.parquet", "--nulls", "drop", "-o", "m"]);
    assert_eq!(dir.json(&["inspect", "m"])["n_rows"], 34);
    dir.ok(&["fit", "d.parquet", "--nulls", "mean", "-o", "m"]);
    assert_eq!(dir.json(&["inspect", "m"])["nulls"]["missing"]["v[2]"], 6);
}

#[test]
fn an_empty_file_among_others_is_no_trouble() {
    let dir = Workdir::new();
    let x = rows(30, 3);
    dir.matrix("d/a.parquet", &x.slice(ndarray::s![..0, ..]).to_owned(), 20);
    dir.matrix("d/b.parquet", &x, 20);
    dir.ok(&["fit", "d", "-o", "m"]);
    dir.ok(&["transform", "m", "d", "-o", "out"]);
    assert_eq!(
        (dir.read("out/a.parquet").num_rows(), dir.read("out/b.parquet").num_rows()),
        (0, 30)
    );
}

#[test]
fn inspect_prints_names_and_numbers_that_can_be_read() {
    let dir = Workdir::new();
    let x = rows(60, 3);
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (j, name) in ["a", "line\nbreak", "größe"].iter().enumerate() {
        columns.push((name.to_string(), doubles(x.column(j).to_vec())));
    }
    let class = (0..60).map(|i| ["a rather long name of a class", "b\u{1b}[31m"][i % 2]);
    let class = StringArray::from_iter_values(class);
    columns.push(("class".into(), Arc::new(class)));
    dir.table("d.parquet", columns, 20);
    let fit = ["fit", "d.parquet", "--method", "kspca", "--label", "class", "--gamma", "1.5e-9"];
    dir.ok(&fit.iter().chain(&["-o", "m", "--quiet"]).copied().collect::<Vec<_>>());
    assert_eq!(dir.ok(&["inspect", "m", "--features"]).stdout, "a\nline\\nbreak\ngröße\n");
    dir.ok(&["scan", "d.parquet", "-o", "s", "--quiet"]);
    assert_eq!(dir.ok(&["inspect", "s", "--features"]).stdout, "a\nline\\nbreak\ngröße\n");
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("rbf, gamma 1.5e-9"), "{page}");
    assert!(!page.contains('\u{1b}'), "{page}");
    // The centroids stand in columns, whatever the names and numbers are.
    let table: Vec<&str> =
        page.lines().skip_while(|l| !l.contains("class centroids")).take(3).collect();
    let ends: Vec<usize> = table.iter().map(|l| l.chars().count()).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{page}");
}
