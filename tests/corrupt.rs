//! Flipped, cut and swollen bytes: an error or an answer, never a panic, a hang or a wild allocation.

use crate::workdir::{Workdir, fixture};
use clap::Parser;
use eigenstream::cli::args::{Cli, Command};
use eigenstream::cli::{fit, plan::FitPlan};
use eigenstream::model::Model;
use eigenstream::report::Talk;
use eigenstream::state::State;

/// A seeded sequence (SplitMix64): the same mutations on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        match self.roll(6) {
            0 => out.truncate(self.roll(bytes.len())),
            1 => (0..1 + self.roll(8)).for_each(|_| out.push(self.roll(256) as u8)),
            2 => {
                let at = self.roll(bytes.len());
                let end = (at + 1 + self.roll(64)).min(bytes.len());
                out[at..end].fill(self.roll(256) as u8);
            }
            _ => (0..1 + self.roll(4)).for_each(|_| {
                let at = self.roll(bytes.len());
                out[at] ^= 1 << self.roll(8);
            }),
        }
        out
    }
}

/// Models of every format there was.
fn old_models() -> Vec<std::path::PathBuf> {
    let versions = std::fs::read_dir(fixture("models")).unwrap();
    let mut files: Vec<_> = versions
        .flat_map(|v| std::fs::read_dir(v.unwrap().path()).unwrap())
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn old_models_stay_readable() {
    let files = old_models();
    assert!(files.len() >= 8);
    for file in files {
        let model = Model::load(&file).unwrap();
        assert!(model.n_components() > 0, "{}", file.display());
        let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
        assert_eq!(
            eigenstream::report::json::model(&again),
            eigenstream::report::json::model(&model),
            "{}",
            file.display()
        );
    }
}

#[test]
fn damaged_models_are_refused() {
    for file in old_models() {
        damaged(&std::fs::read(file).unwrap());
    }
}

fn damaged(bytes: &[u8]) {
    let original = eigenstream::report::json::model(&Model::from_bytes(bytes).unwrap());
    let refused = mutated(bytes, rounds(100, 1_000), Model::from_bytes, |model| {
        // A mutation may be none (a byte filled with itself); anything else the checksum sees.
        assert_eq!(eigenstream::report::json::model(&model), original);
    });
    assert!(refused > 0.95, "{refused} refused");
}

/// A few where tests run all the time, many with `make fuzz`.
fn rounds(few: usize, many: usize) -> usize {
    if std::env::var_os("EIGENSTREAM_FUZZ").is_some() { many } else { few }
}

/// Reads mutations of a file: refused with a sentence, or right; no allocation far beyond the file. The share refused.
fn mutated<T>(
    bytes: &[u8],
    rounds: usize,
    read: impl Fn(&[u8]) -> Result<T, String>,
    right: impl Fn(T),
) -> f64 {
    let mut dice = Dice(1);
    let mut refused = 0;
    for _ in 0..rounds {
        let bytes = dice.mutate(bytes);
        crate::allocation::forget();
        let found = read(&bytes);
        let largest = crate::allocation::largest();
        assert!(
            largest <= 16 * bytes.len() + (1 << 16),
            "{largest} bytes at once for a file of {}",
            bytes.len()
        );
        match found {
            Ok(value) => right(value),
            Err(problem) => {
                refused += 1;
                let said = ["is not an eigenstream", "is damaged", "newer"]
                    .iter()
                    .any(|words| problem.contains(words));
                assert!(said, "{problem}");
            }
        }
    }
    f64::from(refused) / rounds as f64
}

/// States of every kind of sums.
fn states() -> Vec<Vec<u8>> {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "900",
        "--columns",
        "4",
        "--files",
        "1",
        "--row-group",
        "200",
        "-o",
        "d",
    ]);
    dir.ok(&["generate", "nulls", "--rows", "900", "--columns", "4", "--files", "1", "-o", "n"]);
    dir.ok(&["generate", "wide", "--rows", "40", "--columns", "1030", "--files", "1", "-o", "w"]);
    let scan = |words: &str| {
        dir.ok(&format!("scan {words} -o s --quiet").split(' ').collect::<Vec<_>>());
        std::fs::read(dir.path("s")).unwrap()
    };
    vec![
        scan("d --columns x* --label label_string"),
        scan("d --columns x* --label label_int --weight weight --folds 3"),
        scan("n --exclude id --nulls mean"),
        scan("w"),
    ]
}

#[test]
fn damaged_states_are_refused() {
    for bytes in states() {
        let original = State::from_bytes(&bytes).unwrap();
        assert_eq!(original.to_bytes().unwrap(), bytes, "read and written, the same bytes");
        let large = bytes.len() > 1 << 20;
        let few = if large { (10, 200) } else { (100, 1_000) };
        let refused = mutated(&bytes, rounds(few.0, few.1), State::from_bytes, |state| {
            assert!(state.to_bytes().unwrap() == bytes);
        });
        assert!(refused > 0.9, "{refused} refused");
    }
}

/// The header says one thing and the tensors another, under a checksum that fits: shapes are checked before arithmetic.
#[test]
fn states_that_contradict_themselves_are_refused() {
    for bytes in states() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let ours: serde_json::Value =
            serde_json::from_str(header["__metadata__"]["eigenstream"].as_str().unwrap()).unwrap();
        let mut dice = Dice(9);
        for _ in 0..rounds(60, 1_000) {
            let mut changed = ours.clone();
            scramble(&mut changed, &mut dice);
            let bytes = sealed(&header, changed, &bytes[8 + length..]);
            if let Ok(state) = State::from_bytes(&bytes) {
                // What is read can be worked with.
                let _ = state.solve(&Default::default(), &|_| {});
                let mut twice = state.clone();
                let _ = twice.subtract(state);
            }
        }
    }
}

/// Changes one value somewhere.
fn scramble(value: &mut serde_json::Value, dice: &mut Dice) {
    use serde_json::{Value, json};
    match value {
        Value::Object(map) if !map.is_empty() => {
            let keys: Vec<String> = map
                .keys()
                .filter(|k| !["checksum", "format", "kind"].contains(&k.as_str()))
                .cloned()
                .collect();
            let key = keys[dice.roll(keys.len())].clone();
            match dice.roll(8) {
                0 => drop(map.remove(&key)),
                _ => scramble(map.get_mut(&key).unwrap(), dice),
            }
        }
        Value::Array(list) if !list.is_empty() && dice.roll(4) > 0 => {
            let at = dice.roll(list.len());
            scramble(&mut list[at], dice)
        }
        other => {
            let choices = [
                json!(null),
                json!(0),
                json!(1),
                json!(-3),
                json!(1e300),
                json!(u64::MAX),
                json!("x"),
                json!([]),
                json!(true),
            ];
            *other = choices[dice.roll(choices.len())].clone();
        }
    }
}

/// The container with another header of ours, its checksum made to fit.
fn sealed(header: &serde_json::Value, mut ours: serde_json::Value, tensors: &[u8]) -> Vec<u8> {
    use std::hash::Hasher;
    ours["checksum"] = "0000000000000000".into();
    let blank = ours.to_string();
    let mut hash = twox_hash::XxHash64::with_seed(0);
    hash.write(blank.as_bytes());
    let mut names: Vec<&String> =
        header.as_object().unwrap().keys().filter(|k| *k != "__metadata__").collect();
    names.sort();
    for name in names {
        let at = |i: usize| header[name]["data_offsets"][i].as_u64().unwrap() as usize;
        hash.write(name.as_bytes());
        hash.write(&tensors[at(0)..at(1)]);
    }
    let json = blank.replacen("0000000000000000", &format!("{:016x}", hash.finish()), 1);
    let mut header = header.clone();
    header["__metadata__"]["eigenstream"] = json.into();
    let mut text = header.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text, tensors].concat()
}

/// Where pages have checksums, a flipped bit is never a different result.
#[test]
fn page_checksums_are_believed() {
    let dir = Workdir::new();
    let bytes = std::fs::read(fixture("writers/pyarrow-v2-gzip.parquet")).unwrap();
    std::fs::write(dir.path("x.parquet"), &bytes).unwrap();
    let fit = || {
        dir.run(&["fit", "x.parquet", "-k", "2", "-o", "m", "--nulls", "drop", "--quiet", "--json"])
    };
    let numbers = |run: &crate::workdir::Run| {
        serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap()["explained_variance_ratio"]
            .clone()
    };
    let expected = numbers(&fit());
    let mut dice = Dice(5);
    let (mut refused, mut same) = (0, 0);
    let footer =
        u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    for _ in 0..rounds(60, 1_000) {
        let mut flipped = bytes.clone();
        let at = 4 + dice.roll(bytes.len() - 12 - footer);
        flipped[at] ^= 1 << dice.roll(8);
        std::fs::write(dir.path("x.parquet"), flipped).unwrap();
        let run = fit();
        match run.code {
            Some(0) => {
                same += 1;
                assert_eq!(numbers(&run), expected, "byte {at}");
            }
            _ => {
                refused += 1;
                assert!(
                    run.stderr.contains("x.parquet") && !run.stderr.contains("bug"),
                    "{}",
                    run.stderr
                );
            }
        }
    }
    assert!(refused > 0, "{refused} refused, {same} the same");
}

#[test]
fn damaged_parquet_is_refused_or_fitted() {
    let dir = Workdir::new();
    let path = dir.path("x.parquet").display().to_string();
    let mut dice = Dice(2);
    let (mut refused, mut fitted) = (0, 0);
    for file in [
        "golden/plain",
        "golden/vectors",
        "writers/pyarrow-v2-gzip",
        "writers/spark",
        "writers/duckdb",
    ] {
        let bytes = std::fs::read(fixture(&format!("{file}.parquet"))).unwrap();
        for _ in 0..rounds(60, 400) {
            std::fs::write(&path, dice.mutate(&bytes)).unwrap();
            let cli = Cli::try_parse_from([
                "eigenstream",
                "fit",
                &path,
                "-o",
                "m",
                "--nulls",
                "drop",
                "--threads",
                "1",
            ])
            .unwrap();
            let Command::Fit(args) = cli.command else { unreachable!() };
            let fit = FitPlan::new(&args.fit).and_then(|plan| {
                plan.check()?;
                fit::fit(plan, &args.fit, Talk::new(true))
            });
            match fit {
                Ok(_) => fitted += 1,
                Err(error) => {
                    refused += 1;
                    let said = error.to_string();
                    assert!(!said.contains("bug"), "{file}: {said}");
                    assert!(
                        said.contains("x.parquet")
                            || said.contains("mle")
                            || error.exit_code() == 2
                            || said.contains("budget"),
                        "{file}: {said}"
                    );
                }
            }
        }
    }
    assert!(refused > 50 && fitted > 5, "{refused} refused, {fitted} fitted");
}
