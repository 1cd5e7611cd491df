//! Every option of every command that works on data, in every method and form: it is used, or it is
//! told that it is not. The options are those that `--help` lists, so that none can be forgotten.

use crate::theory::rows;
use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, StringArray};
use std::sync::Arc;

/// Honoured whatever a run does: places, ceilings, and what is printed.
const ALWAYS: &str = "allow-duplicates columns compression dtype exclude help json keep keep-all \
                      memory nulls output precision quiet temp-dir threads version weight";

/// What an option is given here; defaults where it has one, which only a look at what was typed
/// tells from an option that was not given. An option that is not in this list fails the test.
const VALUES: &[(&str, &[&str])] = &[
    ("allow-unconverged", &[]),
    ("basis", &["basis"]),
    ("by", &["s"]),
    ("center-scores", &[]),
    ("checkpoint", &["ck"]),
    ("checkpoint-seconds", &["60"]),
    ("classes", &[]),
    ("coef0", &["1"]),
    ("components", &["2"]),
    ("degree", &["2"]),
    ("diagnostics", &[]),
    ("exact", &[]),
    ("folds", &["2"]),
    ("for", &["pca"]),
    ("form", &["primal"]),
    ("from-scores", &[]),
    ("gamma", &["1"]),
    ("keep-features", &["3"]),
    ("kernel", &["rbf"]),
    ("label", &["y"]),
    ("label-coef0", &["1"]),
    ("label-data", &["d.parquet"]),
    ("label-degree", &["2"]),
    ("label-features", &["5"]),
    ("label-gamma", &["1"]),
    ("label-kernel", &["linear"]),
    ("landmark-choice", &["kmeans++"]),
    ("landmarks", &["5"]),
    ("layout", &["columns"]),
    ("max-passes", &["30"]),
    ("method", &["pca"]),
    ("model", &["basis"]),
    ("no-center", &[]),
    ("no-wait", &[]),
    ("passes", &["pw"]),
    ("permutations", &["3"]),
    ("prefix", &["pc"]),
    ("preimage", &["ridge"]),
    ("random-features", &["5"]),
    ("residuals", &[]),
    ("score", &["abs"]),
    ("score-by", &["y"]),
    ("score-center", &["yes"]),
    ("score-threshold", &["0.01"]),
    ("scores-out", &["scores.parquet"]),
    ("seed", &["0"]),
    ("shard", &["1/1"]),
    ("sigma", &["1"]),
    ("skip-known", &[]),
    ("standardize", &[]),
    ("state", &["new.state"]),
    ("tolerance", &["1e-6"]),
    ("with-variance", &[]),
];

/// A run, and the options that it makes use of beside [`ALWAYS`].
const RUNS: &[(&str, &str)] = &[
    ("plan d.parquet", "basis components form method no-center standardize"),
    (
        "plan d.parquet --form randomized",
        "allow-unconverged components max-passes method no-center seed standardize \
         tolerance",
    ),
    (
        "plan d.parquet --score-by y --keep-features 3",
        "classes components form method no-center score score-center standardize",
    ),
    (
        "plan d.parquet --score-by s --keep-features 3",
        "components form method no-center score-center standardize",
    ),
    ("plan d.parquet --basis basis", "components method"),
    (
        "plan d.parquet --method spca --label y",
        "classes components form label-kernel no-center standardize with-variance",
    ),
    (
        "plan d.parquet --method spca --label s",
        "components form label-kernel no-center standardize with-variance",
    ),
    (
        "plan d.parquet --method spca --label y --label-kernel rbf",
        "classes components form label-features label-gamma no-center seed standardize \
         with-variance",
    ),
    (
        "plan d.parquet --method spca --label y --label-kernel poly",
        "classes components form label-coef0 label-degree label-gamma no-center standardize \
         with-variance",
    ),
    (
        "plan d.parquet --method spca --label s --label-kernel identity",
        "components form no-center standardize",
    ),
    (
        "plan d.parquet --method kpca",
        "components gamma kernel landmarks preimage random-features sigma standardize",
    ),
    (
        "plan d.parquet --method kpca --kernel poly",
        "coef0 components degree gamma landmarks preimage standardize",
    ),
    (
        "plan many.parquet --method kpca",
        "allow-unconverged components gamma kernel landmarks max-passes preimage random-features \
         seed sigma standardize tolerance",
    ),
    ("plan d.parquet --method kpca --kernel linear", "coef0 components form landmarks standardize"),
    ("plan d.parquet --method kpca --kernel cosine", "components form landmarks standardize"),
    (
        "plan d.parquet --method kpca --landmarks 9",
        "components gamma kernel landmark-choice preimage seed sigma standardize",
    ),
    (
        "plan d.parquet --method kpca --random-features 9",
        "components gamma kernel preimage seed sigma standardize",
    ),
    (
        "plan d.parquet --method kspca --label y",
        "center-scores classes components gamma kernel label-kernel preimage sigma standardize",
    ),
    (
        "fit d.parquet -o m",
        "basis checkpoint components form method no-center skip-known standardize state",
    ),
    ("scan d.parquet -o st", "by checkpoint folds for label shard"),
    ("scan d.parquet -o st --label y", "by checkpoint classes folds shard"),
    ("scan d.parquet -o st --label s", "by checkpoint folds shard"),
    ("solve base.state -o m", "components form method no-center standardize"),
    (
        "solve base.state -o m --method spca",
        "components folds form label-kernel no-center standardize with-variance",
    ),
    (
        "hsic d.parquet --label y",
        "classes coef0 kernel label-kernel model permutations standardize",
    ),
    ("hsic d.parquet --label s", "coef0 kernel label-kernel model permutations standardize"),
    (
        "hsic d.parquet --label y --permutations 3",
        "classes coef0 kernel label-kernel model seed standardize",
    ),
    (
        "hsic d.parquet --label y --kernel rbf --landmarks 9",
        "classes gamma label-kernel landmark-choice model permutations seed sigma standardize",
    ),
    (
        "transform basis d.parquet -o o.parquet",
        "components diagnostics layout prefix residuals shard",
    ),
    ("transform kernel d.parquet -o o.parquet", "components diagnostics layout prefix shard"),
    ("reconstruct basis d.parquet -o o.parquet", "components"),
    ("reconstruct basis sc.parquet --from-scores -o o.parquet", "components prefix"),
    ("reconstruct kernel d.parquet --preimage fixed-point -o o.parquet", "components"),
];

/// x0 … x4, a number y, text s and a weight w; and more rows than are decomposed at once.
fn data() -> Workdir {
    let dir = Workdir::new();
    for (name, n) in [("d.parquet", 60), ("many.parquet", 1600)] {
        let x = rows(n, 5);
        let columns = |f: &dyn Fn(usize) -> f64| doubles((0..n).map(f).collect());
        let mut all: Vec<(String, ArrayRef)> =
            (0..5).map(|j| (format!("x{j}"), columns(&|i| x[[i, j]]))).collect();
        all.push(("y".into(), columns(&|i| x[[i, 0]] * 0.7 + (i as f64 * 0.31).sin())));
        let text = (0..n).map(|i| ["a", "b", "c"][i % 3]);
        all.push(("s".into(), Arc::new(StringArray::from_iter_values(text))));
        all.push(("w".into(), columns(&|i| 1.0 + (i % 2) as f64)));
        dir.table(name, all, 40);
    }
    let fit = "fit d.parquet --columns x* --quiet";
    for line in [
        &format!("{fit} -o basis"),
        &format!("{fit} --method kpca -o kernel"),
        "scan d.parquet --columns x* --label s --folds 2 -o base.state --quiet",
        "transform basis d.parquet -o sc.parquet --quiet",
    ] {
        dir.ok(&line.split(' ').collect::<Vec<_>>());
    }
    dir
}

/// The long names that `--help` of a command lists.
fn options(dir: &Workdir, command: &str) -> Vec<String> {
    let help = dir.ok(&[command, "--help"]).stdout;
    let lines = help.lines().map(str::trim_start).filter(|l| l.starts_with('-'));
    let long = |line: &str| {
        let name = line.split([' ', ',', '=']).find_map(|word| word.strip_prefix("--"));
        name.map(str::to_string)
    };
    lines.filter_map(long).collect()
}

/// True when a run with the option more says that it is of no use, or refuses it.
fn is_told(dir: &Workdir, run: &str, option: &str) -> bool {
    let (_, value) = VALUES
        .iter()
        .find(|(name, _)| *name == option)
        .unwrap_or_else(|| panic!("--{option} is new: say here what it is given, and who uses it"));
    let flag = format!("--{option}");
    let value: &[&str] = match (option, run.split(' ').next()) {
        ("preimage", Some("reconstruct")) => &["fixed-point"],
        ("folds", Some("solve")) => &[],
        _ => value,
    };
    let state: &[&str] = if option == "skip-known" { &["--state", "new.state"] } else { &[] };
    let args: Vec<&str> =
        run.split(' ').chain([flag.as_str()]).chain(value.iter().copied()).collect();
    let done = dir.run(&[&args, state].concat());
    for made in ["new.state", "ck", "st", "m", "o.parquet", "pw"] {
        let _ = std::fs::remove_file(dir.path(made));
        let _ = std::fs::remove_dir_all(dir.path(made));
    }
    assert!(matches!(done.code, Some(0..=2)), "{args:?}: {}", done.stderr);
    let named = |line: &str| {
        line.split([' ', ',', ':', ';', ')']).any(|w| w == flag)
            && line.contains("note: ")
            && !line.contains(" asks, ")
    };
    done.code != Some(0) || done.stderr.lines().any(named)
}

#[test]
fn an_option_without_effect_says_so_in_every_method_and_form() {
    let dir = data();
    let mut wrong = Vec::new();
    for (run, used) in RUNS {
        let (command, used) = (run.split(' ').next().unwrap(), used.split(' '));
        let used: Vec<&str> = used.collect();
        for option in options(&dir, command) {
            let typed =
                run.contains(&format!("--{option}")) || (option == "model" && command != "hsic");
            if typed || ALWAYS.split_whitespace().any(|name| name == option) {
                continue;
            }
            let told = is_told(&dir, run, &option);
            if told == used.contains(&option.as_str()) {
                wrong.push(format!("{run} --{option}: {}", if told { "told" } else { "silent" }));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn tips_are_near_in_spelling_or_there_are_none() {
    let dir = data();
    let said = |args: &[&str]| dir.run(&[&["fit", "d.parquet", "-o", "m"], args].concat()).stderr;
    for (typed, tip) in [
        ("--gama", "'--gamma'"),
        ("--label-gama", "'--label-gamma'"),
        ("--standardise", "'--standardize'"),
        ("--thread", "'--threads'"),
    ] {
        let said = said(&[typed, "1"]);
        assert!(said.contains(&format!("a similar argument exists: {tip}")), "{said}");
    }
    for typed in ["--foo", "--keep", "-z", "--random", "--output-format", "--x"] {
        let said = said(&[typed]);
        assert!(said.contains(&format!("unexpected argument '{typed}' found")), "{said}");
        assert!(!said.contains("tip:"), "{said}");
        assert!(
            said.contains("Usage: eigenstream fit [OPTIONS] --output <MODEL> <DATA>..."),
            "{said}"
        );
    }
    assert!(said(&["--method", "pac"]).contains("a similar value exists: 'pca'"));
    assert!(!said(&["--method", "umap"]).contains("tip:"));
    assert!(!said(&["--sigma=abc"]).contains("tip:"));
    assert!(dir.run(&["fti"]).stderr.contains("a similar subcommand exists: 'fit'"));
    assert!(!dir.run(&["embed"]).stderr.contains("tip:"), "{}", dir.run(&["embed"]).stderr);
}
