//! `demo`: the whole tour on generated data, each command shown as it would be typed.

use super::args::{Cli, DemoArgs};
use crate::error::{Error, Result};
use crate::report::{self, Talk};
use clap::Parser;
use std::path::Path;

/// A file that says the directory is a demo's, so that the next demo may replace it.
const MARK: &str = "made-by-eigenstream-demo";

/// Generates data and runs plan, fit, inspect, transform and reconstruct on it.
pub fn run(args: &DemoArgs, talk: Talk) -> Result<()> {
    let dir = &args.output;
    prepare(dir)?;
    let at = |name: &str| dir.join(name).display().to_string();
    let (data, model, scores, restored) =
        (at("data"), at("model.safetensors"), at("scores.parquet"), at("restored"));
    let rows = args.rows.to_string();
    let (rings, kernel) = (at("rings"), at("kernel.safetensors"));
    let tour: [(&str, Vec<&str>); 8] = [
        (
            "Some data: readings of 24 sensors that six hidden causes drive, in four Parquet files.",
            vec![
                "generate",
                "lowrank",
                "--rows",
                &rows,
                "--columns",
                "24",
                "--files",
                "4",
                "-o",
                &data,
            ],
        ),
        (
            "What would a fit do, and what would it hold? Only the files' footers are read.",
            vec!["plan", &data, "--exclude", "id", "--memory", "200MB"],
        ),
        (
            "Fit: one pass. Keep as many components as explain 95 % of the variance.",
            vec!["fit", &data, "--exclude", "id", "-k", "0.95", "-o", &model],
        ),
        ("Look at the model.", vec!["inspect", &model]),
        (
            "Scores: a second pass, the id passed through, with each row's distance from the model.",
            vec!["transform", &model, &data, "--keep", "id", "--diagnostics", "-o", &scores],
        ),
        (
            "And back: the rows as the components see them.",
            vec!["reconstruct", &model, &scores, "--from-scores", "--keep", "id", "-o", &restored],
        ),
        (
            "Other data: noisy rings, which no direction tells apart.",
            vec!["generate", "rings", "--rows", "4000", "--columns", "6", "-o", &rings],
        ),
        (
            "A kernel does: kernel supervised PCA, without the 4000 × 4000 matrix.",
            vec![
                "fit",
                &rings,
                "--method",
                "kspca",
                "--label",
                "ring",
                "--classes",
                "--gamma",
                "1",
                "-k",
                "2",
                "-o",
                &kernel,
            ],
        ),
    ];
    for (says, words) in tour {
        report::print(&format!("\n# {says}\n$ eigenstream {}", words.join(" ")))?;
        let typed = std::iter::once("eigenstream").chain(words);
        let cli = Cli::try_parse_from(typed).map_err(|e| Error::Internal(e.to_string()))?;
        super::run(&Cli { quiet: cli.quiet || talk.is_quiet(), ..cli })?;
    }
    report::print(&format!(
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
            return Err(Error::Misuse(format!(
                "{} exists and was not made by a demo; choose another directory with -o",
                dir.display()
            )));
        }
        std::fs::remove_dir_all(dir).map_err(Error::io("replace", dir))?;
    }
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    std::fs::write(dir.join(MARK), "").map_err(Error::io("write", dir))
}
