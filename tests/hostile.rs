//! Files that lie, and data that is not what was planned: refused with a sentence that says where
//! and what would do, in the memory that was allowed.

use crate::memory::{SLACK, peak_of};
use crate::workdir::{Workdir, doubles, fixture};
use arrow_array::{ArrayRef, FixedSizeListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;
use std::sync::Arc;

/// What is said of each file of fixtures/bad.
const SAID: [(&str, &str); 18] = [
    ("dictionary_1e9_doubles", "a dictionary of 16 bytes says it has 1000000000 entries"),
    ("dictionary_1e9_texts", "a dictionary of 16 bytes says it has 1000000000 entries"),
    ("encrypted_columns", "has encrypted columns (1 of 1 column chunks)"),
    ("kept_lists_said", "streaming (most of it row groups being written, 98.3 GB) needs"),
    ("kept_lists_unsaid", "column 'v.list.element': lists of 16,000,000 values in a page, where "),
    ("list_of_1e9_values", "lists of 1,000,000,000 values in a page, where "),
    ("page_2gb_gzip", "which GZIP(GzipLevel(6)) cannot make of it"),
    ("page_2gb_hidden", "a page of 40 bytes says it has 2147483640, which SNAPPY cannot"),
    ("page_2gb_lz4", "which LZ4_RAW cannot make of it"),
    ("page_2gb_snappy", "which SNAPPY cannot make of it"),
    ("page_2gb_zstd", "Unknown frame descriptor"),
    ("page_larger_than_it_says", "a page has more bytes than it says"),
    ("row_groups_2e9", "a list says it has 2147483647 elements"),
    ("schema_10000_deep", "its columns are nested more than 100 deep"),
    ("schema_1e9_elements", "a list says it has 1073741824 elements"),
    ("schema_2e9_children", "a group of columns says it has 2147483647, and 1 follow"),
    ("second_page_bomb", "row group 0: column 'y': a page of 209.7 MB, where "),
    ("texts_of_300kb", "row group 0: column 'y': a block with 1.2 GB of values, where "),
];

/// The files of fixtures/bad.
fn bad_files() -> BTreeSet<String> {
    let files = std::fs::read_dir(fixture("bad")).unwrap().map(|f| f.unwrap().path());
    let parquet = files.filter(|f| f.extension().is_some_and(|e| e == "parquet"));
    parquet.map(|f| f.file_stem().unwrap().to_str().unwrap().to_string()).collect()
}

#[test]
fn what_files_claim_costs_no_more_than_they_hold() {
    assert_eq!(SAID.iter().map(|(name, _)| name.to_string()).collect::<BTreeSet<_>>(), bad_files());
    let dir = Workdir::new();
    let numbers = fixture("bad/kept_lists_said.parquet");
    dir.ok(&["fit", &numbers, "--columns", "x", "-k", "1", "-o", "model"]);
    for name in bad_files() {
        let file = fixture(&format!("bad/{name}.parquet"));
        let words = match name.split('_').next() {
            _ if name.contains("texts") => {
                vec!["scan", &file, "--columns", "x", "--label", "y", "-o", "out"]
            }
            Some("kept") => vec!["transform", "model", &file, "--keep", "v", "-o", "out"],
            _ => vec!["fit", &file, "-k", "1", "-o", "out"],
        };
        // Planned for what is claimed, they still take what they hold.
        let large = name == "page_2gb_zstd";
        let memory = if large { "4GB" } else { "100MB" };
        let words = [&words[..], &["--memory", memory]].concat();
        let said = dir.fails(1, &words);
        let expected = SAID.iter().find(|(of, _)| *of == name).unwrap().1;
        assert!(said.contains(expected), "{name}: {said}");
        let peak = peak_of(&dir, &words, false);
        assert!(peak < 60 << 20, "{name}: {peak} bytes");
        assert_eq!(dir.list(), ["model"], "{name} leaves {:?}", dir.list());
    }
}

#[test]
fn a_footer_beyond_the_memory_is_not_read() {
    let dir = Workdir::new();
    // A hole of 2 GB that says it is a footer.
    let mut file = File::create(dir.path("f.parquet")).unwrap();
    file.write_all(b"PAR1").unwrap();
    file.seek(SeekFrom::Start(2_000_000_000)).unwrap();
    file.write_all(&1_999_000_000u32.to_le_bytes()).unwrap();
    file.write_all(b"PAR1").unwrap();
    let words = ["fit", "f.parquet", "--memory", "100MB", "-o", "m"];
    let said = dir.fails(1, &words);
    assert!(said.starts_with("fit: f.parquet: its footer of 2.0 GB needs 2.0 GB"), "{said}");
    let peak = peak_of(&dir, &words, false);
    assert!(peak < 60 << 20, "{peak} bytes");
}

#[test]
fn vectors_of_no_numbers_are_no_features() {
    let dir = Workdir::new();
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let nothing = FixedSizeListArray::try_new_with_length(item, 0, doubles(vec![]), None, 3);
    let columns: Vec<(String, ArrayRef)> =
        vec![("x".into(), doubles(noise(3))), ("v".into(), Arc::new(nothing.unwrap()))];
    dir.table("d.parquet", columns, 3);
    let run = dir.ok(&["fit", "d.parquet", "-k", "1", "-o", "m"]);
    assert!(run.stderr.contains("features: 1 of 2 columns: x\n"), "{}", run.stderr);
    let said = dir.fails(1, &["fit", "d.parquet", "--columns", "v", "-k", "1", "-o", "m"]);
    assert!(said.ends_with("column 'v': is FixedSizeList(0 x Float64), not numeric"), "{said}");
}

/// The number of megabytes that a refusal asks for.
fn asked(said: &str) -> u64 {
    let (_, after) = said.split_once("allow --memory ").unwrap_or_else(|| panic!("{said}"));
    after.split("MB").next().unwrap().parse().unwrap()
}

/// Refused, within the memory that was given; then done, within the memory that was asked for.
fn asks_once(dir: &Workdir, words: &str, megabytes: u64) -> String {
    let with = |megabytes: u64| format!("{words} --threads 1 --memory {megabytes}MB");
    let first = with(megabytes);
    let first: Vec<&str> = first.split(' ').collect();
    let said = dir.fails(1, &first);
    let peak = peak_of(dir, &first, false);
    assert!(peak < megabytes * 1_000_000 + SLACK, "{words}: {peak} bytes");
    let enough = asked(&said);
    let again = with(enough);
    let again: Vec<&str> = again.split(' ').collect();
    let peak = peak_of(dir, &again, true);
    assert!(peak < enough * 1_000_000 + SLACK, "{words}: {peak} bytes of {enough} MB");
    said
}

/// Writes batches as row groups of their own, a page a column each.
fn large_pages(dir: &Workdir, name: &str, batches: &[RecordBatch]) {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(Compression::GZIP(Default::default()))
        .set_data_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(1 << 23)
        .set_max_row_group_row_count(None)
        .build();
    let file = File::create(dir.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

fn noise(n: usize) -> Vec<f64> {
    let mut x = 1u64;
    let next = |_| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 11) as f64
    };
    (0..n).map(next).collect()
}

#[test]
fn a_later_page_may_be_larger_than_planned() {
    let dir = Workdir::new();
    let batch = |x: Vec<f64>| RecordBatch::try_from_iter([("x", doubles(x))]).unwrap();
    let flat = (0..12_000_000).map(|i| (i / 1_000_000) as f64).collect();
    // Nearly constant: many rows in few bytes, so the first row group is the larger one on disk.
    large_pages(&dir, "d.parquet", &[batch(noise(200_000)), batch(flat)]);
    let said = asks_once(&dir, "fit d.parquet -k 1 -o m", 70);
    assert!(said.contains("row group 1: column 'x': a page of 96.0 MB, where "), "{said}");
}

/// Rows with short texts, and at the end some with long ones.
fn growing_texts(dir: &Workdir) {
    let text = |i: usize| if i < 30_000 { "a".to_string() } else { "b".repeat(60_000) };
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..31_000).map(text)));
    let columns = [("x0", doubles(noise(31_000))), ("s", texts)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = File::create(dir.path("d.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn texts_that_grow_are_asked_for() {
    let dir = Workdir::new();
    growing_texts(&dir);
    dir.ok(&["fit", "d.parquet", "--columns", "x0", "-k", "1", "-o", "m"]);
    let words = ["transform", "m", "d.parquet", "--keep", "s", "-o", "out", "--threads", "1"];
    let words = [&words[..], &["--memory", "110MB"]].concat();
    let said = dir.fails(1, &words);
    assert!(said.contains("column 's': a") && said.contains("allow --memory"), "{said}");
    let peak = peak_of(&dir, &words, false);
    assert!(peak < 110_000_000 + SLACK, "{peak} bytes");
}

#[test]
fn names_of_classes_and_groups_count() {
    let dir = Workdir::new();
    let n = 20_000;
    let name = |i: usize| format!("{i:06}{}", "n".repeat(3_000));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..n).map(name)));
    dir.table("d.parquet", vec![("x".into(), doubles(noise(n))), ("y".into(), names)], n);
    for words in [
        "scan d.parquet --label y",
        "scan d.parquet --by y",
        "fit d.parquet --method spca -k 1 --label y",
    ] {
        let words = format!("{words} --columns x --memory 100MB -o out");
        let words: Vec<&str> = words.split(' ').collect();
        let said = dir.fails(1, &words);
        assert!(said.contains("label 'y' has more than "), "{said}");
        assert!(said.contains("their names alone take "), "{said}");
        let peak = peak_of(&dir, &words, false);
        assert!(peak < 100_000_000 + SLACK, "{words:?}: {peak} bytes");
    }
}

/// Runs under a limit of the shell's.
fn limited(dir: &Workdir, limit: &str, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit {limit} && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_eigenstream")]);
    let output = command.args(args).current_dir(dir.path(".")).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_process_with_little_stack_works_and_one_with_little_space_says_so() {
    let dir = Workdir::new();
    dir.table("d.parquet", vec![("x".into(), doubles(noise(5_000)))], 1_000);
    let words = ["fit", "d.parquet", "-k", "1", "-o", "m", "--quiet"];
    assert_eq!(limited(&dir, "-s 64", &words), (Some(0), String::new()));
    for kilobytes in ["100000", "300000"] {
        let (code, said) = limited(&dir, &format!("-v {kilobytes}"), &words);
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("the address space is limited to"), "{said}");
    }
}

#[test]
fn a_scan_advises_what_it_has_and_asks_once() {
    let dir = Workdir::new();
    let wide =
        ["generate", "wide", "--rows", "300", "--columns", "1500", "--files", "1", "-o", "d"];
    dir.ok(&wide);
    let commands = ["scan d -o s", "fit d -k 2 --state s -o m", "fit d -k 2 --checkpoint c -o m"];
    for words in commands {
        let words = format!("{words} --memory 50MB");
        let said = dir.fails(1, &words.split(' ').collect::<Vec<_>>());
        assert!(said.contains("allow --memory ") && !said.contains("--form"), "{said}");
    }
    let folds = |memory: u64| {
        let words = format!("scan d --folds 10 -o s --threads 8 --memory {memory}MB");
        dir.run(&words.split(' ').collect::<Vec<_>>())
    };
    let enough = asked(&folds(60).stderr);
    let run = folds(enough);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

/// Twenty names of 3 MB in a dictionary, which is in memory twice while it is read.
#[test]
fn names_of_megabytes_stay_within_the_memory() {
    let dir = Workdir::new();
    let names: Vec<String> = ('a'..='t').map(|c| c.to_string().repeat(3_000_000)).collect();
    let keys = arrow_array::Int32Array::from_iter_values((0..400).map(|i| i * 7 % 20));
    let values = Arc::new(StringArray::from(names));
    let label: ArrayRef = Arc::new(arrow_array::DictionaryArray::new(keys, values));
    let columns = vec![
        ("x0".into(), doubles(noise(400))),
        ("x1".into(), doubles(noise(800)[400..].to_vec())),
        ("y".into(), label),
    ];
    let batch = RecordBatch::try_from_iter::<_, String>(columns).unwrap();
    // A dictionary page as large as the names, whatever writers would rather do.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_page_size_limit(usize::MAX)
        .build();
    let file = File::create(dir.path("d.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for words in [
        "scan d.parquet --label y -o out",
        "scan d.parquet --by y -o out",
        "fit d.parquet --method spca --label y -o out",
        "fit d.parquet --score-by y --keep-features 1 -o out",
    ] {
        let words = format!("{words} --memory 100MB");
        let words: Vec<&str> = words.split(' ').collect();
        let said = dir.fails(1, &words);
        assert!(said.contains("allow --memory "), "{said}");
        let peak = peak_of(&dir, &words, false);
        assert!(peak <= 100_000_000, "{words:?}: {peak} bytes");
        assert_eq!(dir.list(), ["d.parquet"]);
    }
}
