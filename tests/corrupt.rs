//! Flipped, cut and swollen bytes: an error or an answer, never a panic, a hang or a wild
//! allocation.

use crate::survival::survived;
use crate::workdir::{Workdir, doubles, fixture};
use eigenstream::{Dataset, Fit, Model, Nulls, Quiet, State};
use serde_json::{Value, json};

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
        assert_eq!(report(&again), report(&model), "{}", file.display());
    }
}

#[test]
fn damaged_models_are_refused() {
    for file in old_models() {
        damaged(&std::fs::read(file).unwrap());
    }
}

fn damaged(bytes: &[u8]) {
    let original = report(&Model::from_bytes(bytes).unwrap());
    let refused = mutated(
        bytes,
        rounds(100, 1_000),
        |b| said(Model::from_bytes(b)),
        |model| {
            // A mutation may be none (a byte filled with itself); anything else the checksum sees.
            assert_eq!(report(&model), original);
        },
    );
    assert!(refused > 0.95, "{refused} refused");
    survived("mutated models and states", rounds(100, 1_000));
}

/// A few where tests run all the time, many with `make fuzz`.
fn rounds(few: usize, many: usize) -> usize {
    if std::env::var_os("EIGENSTREAM_FUZZ").is_some() { many } else { few }
}

/// Reads mutations of a file: refused with a sentence, or right; no allocation far beyond the file.
/// The share refused.
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
        let refused = mutated(
            &bytes,
            rounds(few.0, few.1),
            |b| said(State::from_bytes(b)),
            |state| {
                assert!(state.to_bytes().unwrap() == bytes);
            },
        );
        assert!(refused > 0.9, "{refused} refused");
        survived("mutated models and states", rounds(few.0, few.1));
    }
}

/// A container taken apart: the outer header, our header within it, the tensors.
struct Opened<'a> {
    outer: Value,
    ours: Value,
    tensors: &'a [u8],
}

impl Opened<'_> {
    fn new(bytes: &[u8]) -> Opened<'_> {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let outer: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let ours = outer["__metadata__"]["eigenstream"].as_str().unwrap();
        let ours = serde_json::from_str(ours).unwrap();
        Opened { outer, ours, tensors: &bytes[8 + length..] }
    }

    /// With another header of ours, under a checksum that fits.
    fn with(&self, ours: Value) -> Vec<u8> {
        sealed(&self.outer, ours, self.tensors)
    }

    /// The same with one value changed somewhere.
    fn scrambled(&self, dice: &mut Dice) -> (Value, Vec<u8>) {
        let mut changed = self.ours.clone();
        scramble(&mut changed, dice);
        (changed.clone(), self.with(changed))
    }
}

/// All of a model.
fn report(model: &Model) -> Value {
    model.to_json()
}

/// What is wrong, as it is told.
fn said<T>(read: eigenstream::Result<T>) -> Result<T, String> {
    read.map_err(|error| error.to_string())
}

/// A scrambled file is refused with a sentence that is not about its checksum.
fn contradiction(problem: &str) {
    assert!(problem.contains("is damaged: ") || problem.contains("is not an eigenstream"));
    assert!(!problem.contains("checksum does not fit"), "{problem}");
    assert!(!problem.contains("bug") && !problem.contains("panicked"), "{problem}");
}

/// The header says one thing and the tensors another, under a checksum that fits: shapes are
/// checked before arithmetic.
#[test]
#[ignore = "slow: make test-slow"]
fn states_that_contradict_themselves_are_refused() {
    for bytes in states() {
        let opened = Opened::new(&bytes);
        let same = State::from_bytes(&opened.with(opened.ours.clone())).unwrap();
        assert!(same.to_bytes().unwrap() == bytes, "sealed again, it is the same state");
        let mut dice = Dice(9);
        let (rounds, mut refused) = (rounds(60, 1_000), 0);
        for _ in 0..rounds {
            match State::from_bytes(&opened.scrambled(&mut dice).1) {
                Err(problem) => {
                    contradiction(&problem.to_string());
                    refused += 1;
                }
                Ok(state) => {
                    // What is read can be worked with, and written.
                    let _ = state.solve(&Fit::pca(), &Quiet);
                    let mut twice = state.clone();
                    let _ = twice.subtract(state.clone());
                    State::from_bytes(&state.to_bytes().unwrap()).unwrap();
                }
            }
        }
        assert!(2 * refused > rounds, "{refused} of {rounds} refused");
        assert!(refused < rounds, "some facts may change without a contradiction");
        survived("models and states that contradict themselves under a right checksum", rounds);
    }
}

/// A model of every kind, by name, and the rows they are of.
fn models() -> (Workdir, Vec<(&'static str, Vec<u8>)>) {
    let dir = Workdir::new();
    let x = |i: usize, j: usize| ((i * 31 + j * 17 + i * i % 13) % 23) as f64 + 0.25 * j as f64;
    let column = |j: usize| doubles((0..60).map(|i| x(i, j)).collect());
    let mut columns: Vec<_> = (0..4).map(|j| (format!("x{j}"), column(j))).collect();
    columns.push(("x4".into(), doubles(vec![2.5; 60])));
    columns.push(("y".into(), doubles((0..60).map(|i| x(i, 0) - x(i, 2)).collect())));
    let classes = (0..60).map(|i| ["a", "b", "c"][(i / 2) % 3]).collect::<Vec<_>>();
    columns.push(("label".into(), std::sync::Arc::new(arrow_array::StringArray::from(classes))));
    dir.table("d.parquet", columns, 20);
    let kinds = [
        ("pca", "-k 2"),
        ("constants", "-k 2 --standardize"),
        ("delta", "--method spca --label label -k 2"),
        ("numbers", "--method spca --label y -k 1"),
        ("scored", "--score-by y --keep-features 3 -k 2"),
        ("exact", "--method kpca -k 2"),
        ("landmarks", "--method kpca --landmarks 20 -k 2"),
        ("fourier", "--method kpca --random-features 30 -k 2"),
        ("cosine", "--method kpca --kernel cosine -k 2"),
        ("kspca", "--method kspca --label label -k 2"),
        ("ridge", "--method kpca -k 2 --preimage ridge"),
    ];
    let fit = |(name, options): (&'static str, &str)| {
        let words = format!("fit d.parquet --columns x* {options} -o m --quiet");
        dir.ok(&words.split(' ').collect::<Vec<_>>());
        (name, std::fs::read(dir.path("m")).unwrap())
    };
    let models = kinds.into_iter().map(fit).collect();
    (dir, models)
}

/// The commands that read a model, on the file `m`: an answer or a sentence.
fn survives(dir: &Workdir, what: &dyn std::fmt::Display) {
    for words in ["inspect m", "inspect m --json", "transform m d.parquet -o s.parquet --quiet"] {
        let run = dir.run(&words.split(' ').collect::<Vec<_>>());
        let told = matches!(run.code, Some(0..=2))
            && !run.stderr.contains("bug")
            && !run.stderr.contains("panicked");
        assert!(told, "{words}, {what}: {:?} {}", run.code, run.stderr);
    }
}

/// As above, of models: what is accepted can be looked at and applied.
#[test]
#[ignore = "slow: make test-slow"]
fn models_that_contradict_themselves_are_refused_or_survive() {
    let (dir, models) = models();
    let old = old_models().into_iter().map(|file| ("old", std::fs::read(file).unwrap()));
    for (name, bytes) in models.into_iter().chain(old) {
        let opened = Opened::new(&bytes);
        let json =
            |bytes: &[u8]| Model::from_bytes(bytes).map(|m| report(&m)).map_err(|e| e.to_string());
        assert_eq!(json(&opened.with(opened.ours.clone())), json(&bytes), "{name}: sealed again");
        let mut dice = Dice(11);
        let (rounds, mut refused) = (rounds(30, 500), 0);
        for _ in 0..rounds {
            let (changed, bytes) = opened.scrambled(&mut dice);
            match Model::from_bytes(&bytes) {
                Err(problem) => {
                    contradiction(&problem.to_string());
                    refused += 1;
                }
                Ok(_) => {
                    std::fs::write(dir.path("m"), bytes).unwrap();
                    survives(&dir, &format!("{name}: {}", difference(&opened.ours, &changed)));
                }
            }
        }
        assert!(4 * refused > rounds, "{name}: {refused} of {rounds} refused");
        survived("models and states that contradict themselves under a right checksum", rounds);
    }
}

/// A list in the header that is shorter or longer than there are components.
#[test]
fn a_share_for_too_few_or_too_many_components_is_refused() {
    let (dir, models) = models();
    let (_, bytes) = models.iter().find(|(name, _)| *name == "delta").unwrap();
    let opened = Opened::new(bytes);
    assert_eq!(opened.ours["label"]["hsic_share"].as_array().unwrap().len(), 2);
    for shares in [json!([]), json!([0.5]), json!([0.5, 0.25, 0.125])] {
        let mut ours = opened.ours.clone();
        ours["label"]["hsic_share"] = shares.clone();
        std::fs::write(dir.path("m"), opened.with(ours)).unwrap();
        survives(&dir, &shares);
        let said = dir.fails(1, &["inspect", "m"]);
        assert!(said.starts_with("inspect: m: is damaged: "), "{shares}: {said}");
    }
}

/// Where two headers differ: the path to the first difference and what stands there.
fn difference(a: &Value, b: &Value) -> String {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let changed = a.iter().find(|(key, value)| b.get(*key) != Some(value));
            changed.map_or("nothing".into(), |(key, value)| {
                let rest = b.get(key).map_or("is gone".into(), |b| difference(value, b));
                format!("{key} {rest}")
            })
        }
        _ => format!("{a} became {b}"),
    }
}

/// Changes one value somewhere.
fn scramble(value: &mut Value, dice: &mut Dice) {
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
            match dice.roll(6) {
                0 => drop(list.remove(at)),
                1 => list.insert(at, list[at].clone()),
                _ => scramble(&mut list[at], dice),
            }
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
fn sealed(header: &Value, mut ours: Value, tensors: &[u8]) -> Vec<u8> {
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
        serde_json::from_str::<Value>(&run.stdout).unwrap()["explained_variance_ratio"].clone()
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
    survived("bits flipped in Parquet pages with checksums", refused + same);
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
            let fit = Dataset::from_paths(&[&path])
                .and_then(|data| Fit::pca().nulls(Nulls::Drop).threads(1).plan(&data)?.run(&Quiet));
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
    survived("mutated Parquet files", refused + fitted);
}
