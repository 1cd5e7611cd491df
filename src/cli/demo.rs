//! `demo`: the whole tour on generated data, each command shown as it would be typed.

use super::args::{Cli, DemoArgs};
use super::print;
use super::talk::Talk;
use super::typed::Typed;
use crate::error::{Error, Result};
use clap::Parser;
use std::path::Path;

/// A file that says the directory is a demo's, so that the next demo may replace it.
const MARK: &str = "made-by-eigenstream-demo";

/// What is said, and the command that follows; words in capitals are places and numbers.
const TOUR: [(&str, &str); 8] = [
    (
        "Some data: readings of 24 sensors that six hidden causes drive, in four Parquet files.",
        "generate lowrank --rows ROWS --columns 24 --files 4 -o DATA",
    ),
    (
        "What would a fit do, and what would it hold? Only the files' footers are read.",
        "plan DATA --exclude id --memory 200MB",
    ),
    (
        "Fit: one pass. Keep as many components as explain 95 % of the variance.",
        "fit DATA --exclude id -k 0.95 -o MODEL",
    ),
    ("Look at the model.", "inspect MODEL"),
    (
        "Scores: a second pass, the id passed through, with each row's distance from the model.",
        "transform MODEL DATA --keep id --diagnostics -o SCORES",
    ),
    (
        "And back: the rows as the components see them.",
        "reconstruct MODEL SCORES --from-scores --keep id -o RESTORED",
    ),
    (
        "Other data: noisy rings, which no direction tells apart.",
        "generate rings --rows 4000 --columns 6 -o RINGS",
    ),
    (
        "A kernel does: kernel supervised PCA, without the 4000 × 4000 matrix.",
        "fit RINGS --method kspca --label ring --classes --gamma 1 -k 2 -o KERNEL",
    ),
];

/// Generates data and runs plan, fit, inspect, transform and reconstruct on it.
pub(super) fn run(args: &DemoArgs, talk: &Talk) -> Result<()> {
    let dir = &args.output;
    prepare(dir)?;
    let at = |name: &str| dir.join(name).display().to_string();
    let places = [
        ("ROWS", args.rows.to_string()),
        ("DATA", at("data")),
        ("MODEL", at("model.safetensors")),
        ("SCORES", at("scores.parquet")),
        ("RESTORED", at("restored")),
        ("RINGS", at("rings")),
        ("KERNEL", at("kernel.safetensors")),
    ];
    let place = |name: &str| places.iter().find(|(n, _)| *n == name).map(|(_, p)| p.clone());
    for (says, command) in TOUR {
        let word = |word: &str| place(word).unwrap_or_else(|| word.to_string());
        let words: Vec<String> = command.split(' ').map(word).collect();
        print(&format!("\n# {says}\n$ eigenstream {}", words.join(" ")))?;
        let typed = std::iter::once("eigenstream".to_string()).chain(words);
        let cli = Cli::try_parse_from(typed).map_err(|e| Error::Internal(e.to_string()))?;
        let cli = Cli { quiet: cli.quiet || talk.is_quiet(), ..cli };
        super::run(&cli, &Typed::default())?;
    }
    let [_, data, model, scores, restored, rings, kernel] = places.map(|(_, place)| place);
    print(&format!(
        "\n{data}  the rows: Parquet, one column per sensor\n\
         {model}  the model: one safetensors file, which Python reads too\n\
         {scores}  one row per input row: id, pc1, pc2, …, reconstruction_error, hotelling_t2\n\
         {restored}  the rows rebuilt from the scores, a directory with one file per input file\n\
         {rings}, {kernel}  the rings and their kernel model"
    ))
}

fn prepare(dir: &Path) -> Result<()> {
    if dir.exists() {
        if !dir.join(MARK).exists() {
            return Error::misuse(format!(
                "{} exists and was not made by a demo; choose another directory with -o",
                dir.display()
            ));
        }
        std::fs::remove_dir_all(dir).map_err(Error::io("replace", dir))?;
    }
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    std::fs::write(dir.join(MARK), "").map_err(Error::io("write", dir))
}
