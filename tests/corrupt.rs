//! Flipped, cut and swollen bytes: an error or an answer, never a panic, a hang or a wild allocation.

use crate::workdir::{Workdir, fixture};
use clap::Parser;
use eigenstream::cli::args::{Cli, Command};
use eigenstream::cli::{fit, plan::FitPlan};
use eigenstream::model::Model;
use eigenstream::report::Talk;

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
    let mut files: Vec<_> =
        versions.flat_map(|v| std::fs::read_dir(v.unwrap().path()).unwrap()).map(|f| f.unwrap().path()).collect();
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
        assert_eq!(eigenstream::report::json::model(&again), eigenstream::report::json::model(&model), "{}", file.display());
    }
}

#[test]
fn damaged_models_are_refused() {
    for file in old_models() {
        damaged(&std::fs::read(file).unwrap());
    }
}

fn damaged(bytes: &[u8]) {
    let mut dice = Dice(1);
    let original = eigenstream::report::json::model(&Model::from_bytes(bytes).unwrap());
    let mut refused = 0;
    for _ in 0..500 {
        match Model::from_bytes(&dice.mutate(bytes)) {
            // A mutation may be none (a byte filled with itself); anything else the checksum sees.
            Ok(model) => assert_eq!(eigenstream::report::json::model(&model), original),
            Err(problem) => {
                refused += 1;
                assert!(
                    problem.contains("is not an eigenstream model")
                        || problem.contains("is damaged")
                        || problem.contains("newer"),
                    "{problem}"
                );
            }
        }
    }
    assert!(refused > 480, "{refused} refused");
}

#[test]
fn damaged_parquet_is_refused_or_fitted() {
    let dir = Workdir::new();
    let path = dir.path("x.parquet").display().to_string();
    let mut dice = Dice(2);
    let (mut refused, mut fitted) = (0, 0);
    for file in ["golden/plain", "golden/vectors", "writers/pyarrow-v2-gzip", "writers/spark", "writers/duckdb"] {
        let bytes = std::fs::read(fixture(&format!("{file}.parquet"))).unwrap();
        for _ in 0..80 {
            std::fs::write(&path, dice.mutate(&bytes)).unwrap();
            let cli = Cli::try_parse_from(["eigenstream", "fit", &path, "-o", "m", "--nulls", "drop", "--threads", "1"]).unwrap();
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
                        said.contains("x.parquet") || said.contains("mle") || error.exit_code() == 2 || said.contains("budget"),
                        "{file}: {said}"
                    );
                }
            }
        }
    }
    assert!(refused > 100 && fitted > 10, "{refused} refused, {fitted} fitted");
}
