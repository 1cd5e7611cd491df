//! One dataset, several processes: shards of a scan, of a transform, and of each pass of the
//! randomized form. Any of them may be killed and run again; what comes of them is what one process
//! makes of all rows.

use crate::faults::strike;
use crate::workdir::{Workdir, array, close, names};
use arrow_select::concat::concat_batches;
use std::process::Stdio;

const SHARDS: usize = 4;

fn data() -> Workdir {
    let dir = Workdir::new();
    let words = "generate lowrank --rows 60000 --columns 40 --files 7 --seed 3 -o data";
    dir.ok(&words.split(' ').collect::<Vec<_>>());
    dir
}

/// All shards at once, of which the second is killed when it begins; then that one again.
fn in_processes(dir: &Workdir, words: &str) {
    let started = (1..=SHARDS).map(|i| {
        let words = format!("{words} --shard {i}/{SHARDS} --quiet");
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = dir.command(&words);
        (i, command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    });
    let mut children: Vec<_> = started.collect();
    strike(&children[1].1, libc::SIGKILL);
    for (i, child) in &mut children {
        let done = child.wait().unwrap();
        assert!(done.success() || *i == 2, "{words}: shard {i}");
    }
    let words = format!("{words} --shard 2/{SHARDS} --quiet");
    dir.ok(&words.split(' ').collect::<Vec<_>>());
}

fn bytes(dir: &Workdir, name: &str) -> Vec<u8> {
    std::fs::read(dir.path(name)).unwrap()
}

fn eigenvalues(dir: &Workdir, model: &str) -> Vec<f64> {
    array(&dir.json(&["inspect", model])["eigenvalues"])
}

#[test]
fn a_scan_in_shards_is_the_scan_of_all_rows() {
    let dir = data();
    in_processes(&dir, "scan data --exclude id -o shards");
    assert!(dir.path("shards/_SUCCESS").exists());
    let run = dir.ok(&["merge", "shards", "-o", "merged.state"]);
    assert!(run.stderr.contains("60,000 rows × 40 features from 7 files"), "{}", run.stderr);
    // Without a kill, one after the other, backwards.
    for i in (1..=SHARDS).rev() {
        let shard = format!("{i}/{SHARDS}");
        dir.ok(&["scan", "data", "--exclude", "id", "--shard", &shard, "-o", "again"]);
    }
    dir.ok(&["merge", "again", "-o", "again.state"]);
    assert_eq!(bytes(&dir, "merged.state"), bytes(&dir, "again.state"));

    dir.ok(&["scan", "data", "--exclude", "id", "-o", "whole.state"]);
    for state in ["merged", "whole"] {
        let words = format!("solve {state}.state -k 5 -o {state}.model");
        dir.ok(&words.split(' ').collect::<Vec<_>>());
    }
    let (merged, whole) = (eigenvalues(&dir, "merged.model"), eigenvalues(&dir, "whole.model"));
    close(&merged, &whole, 1e-12, whole[0]);
}

/// Sums are added up unit by unit, in file order, wherever they were made: where no shard has more
/// than one unit of row groups, the state is that of one process to the last bit.
#[test]
fn shards_of_one_unit_give_the_bytes_of_the_whole() {
    let dir = data();
    for i in 1..=7 {
        let shard = format!("{i}/7");
        dir.ok(&["scan", "data", "--exclude", "id", "--shard", &shard, "-o", "shards"]);
    }
    dir.ok(&["merge", "shards", "-o", "merged.state"]);
    dir.ok(&["scan", "data", "--exclude", "id", "-o", "whole.state"]);
    assert_eq!(bytes(&dir, "merged.state"), bytes(&dir, "whole.state"));
}

#[test]
fn scores_in_shards_are_the_scores_of_all_rows() {
    let dir = data();
    dir.ok(&["fit", "data", "--exclude", "id", "-k", "3", "-o", "m"]);
    dir.ok(&["transform", "m", "data", "--keep", "id", "-o", "whole.parquet"]);
    in_processes(&dir, "transform m data --keep id -o shards");
    let parts: Vec<_> =
        (1..=SHARDS).map(|i| dir.read(&format!("shards/shard-{i:05}-of-00004.parquet"))).collect();
    let all = concat_batches(&parts[0].schema(), &parts).unwrap();
    assert_eq!(all, dir.read("whole.parquet"));
    // As a dataset it is read like any other.
    let said = dir.json(&["fit", "shards", "--columns", "pc*", "-k", "1", "-o", "again"]);
    assert_eq!(said["n_rows"], 60_000);
}

#[test]
fn passes_in_shards_give_the_model_of_the_randomized_form() {
    let dir = data();
    let fit = ["fit", "data", "--exclude", "id", "--form", "randomized", "-k", "2"];
    let options = ["--standardize", "--passes", "work", "-o", "sharded.model"];
    let mut passes = 0;
    let sharded = [&fit[..], &options].concat();
    loop {
        let run = dir.run(&sharded);
        if run.code == Some(0) {
            break;
        }
        assert_eq!(run.code, Some(75), "{}", run.stderr);
        passes += 1;
        let operand = run.stdout.trim();
        assert_eq!(operand, format!("work/pass-{passes:03}/operand"));
        in_processes(&dir, &format!("product data --operand {operand}"));
    }
    assert!(passes > 1, "{passes}");
    let before = bytes(&dir, "sharded.model");
    dir.ok(&sharded);
    assert_eq!(bytes(&dir, "sharded.model"), before, "all passes are there");

    dir.ok(&[&fit[..], &["--standardize", "-o", "whole.model"]].concat());
    let (found, whole) = (eigenvalues(&dir, "sharded.model"), eigenvalues(&dir, "whole.model"));
    close(&found[..2], &whole[..2], 1e-12, whole[0]);
    let model = dir.json(&["inspect", "sharded.model"]);
    assert_eq!(model["certificate"]["iteration"]["passes"], passes);
    for model in ["sharded", "whole"] {
        let (of, out) = (format!("{model}.model"), format!("{model}.parquet"));
        dir.ok(&["transform", &of, "data", "-o", &out]);
    }
    let scores = |name: &str| dir.numbers(name, &names("pc", 1, 2));
    let (a, b) = (scores("sharded.parquet"), scores("whole.parquet"));
    close(a.iter(), b.iter(), 1e-9, 1.0);
}

#[test]
fn what_is_missing_or_of_another_cut_is_named() {
    let dir = data();
    let scan = |shard: &str, out: &str| -> Vec<String> {
        let words = format!("scan data --exclude id --shard {shard} -o {out}");
        words.split(' ').map(str::to_string).collect()
    };
    let words = |w: &[String]| w.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let run = |w: Vec<String>| dir.run(&w.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(run(scan("1/3", "s")).stderr.contains("s: 2 shards of 3 to come: 2/3, 3/3"));
    assert!(run(scan("3/3", "s")).stderr.contains("s: 1 shard of 3 to come: 2/3"));
    let said = dir.fails(1, &["merge", "s", "-o", "all.state"]);
    assert_eq!(said, "merge: s: 1 shard of 3 not there: 2/3; run with --shard for each");
    let said = dir.fails(
        2,
        &["merge", "s/shard-00001-of-00003.state", "s/shard-00003-of-00003.state", "-o", "x"],
    );
    assert!(said.contains("shard 1 of 3 and shard 3 of 3 do not follow each other"), "{said}");
    let said = dir.fails(2, &["solve", "s/shard-00001-of-00003.state", "-o", "m"]);
    assert!(said.contains("this is shard 1 of 3, not all rows"), "{said}");
    let other = run(scan("1/2", "s"));
    assert!(other.stderr.contains("has shard 1 of 3 in it"), "{}", other.stderr);
    for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
        let refused = run(scan(wrong, "t"));
        assert_eq!(refused.code, Some(2), "{}", words(&scan(wrong, "t")));
    }
    // More shards than there are units: some have no rows, and all add up.
    (1..=20).for_each(|i| assert!(run(scan(&format!("{i}/20"), "many")).code == Some(0)));
    let all = dir.ok(&["merge", "many", "-o", "many.state"]);
    assert!(all.stderr.contains("60,000 rows"), "{}", all.stderr);
}

#[test]
fn passes_of_another_fit_are_not_taken() {
    let dir = data();
    let fit = |left_out: &str| {
        dir.run(&[
            "fit",
            "data",
            "--exclude",
            left_out,
            "--form",
            "randomized",
            "-k",
            "2",
            "--passes",
            "work",
            "-o",
            "m",
        ])
    };
    let run = fit("id");
    assert_eq!(run.code, Some(75));
    let operand = run.stdout.trim().to_string();
    let other = fit("id,x3");
    assert!(other.stderr.contains("operand: is of another fit"), "{}", other.stderr);
    dir.ok(&["generate", "lowrank", "--rows", "500", "--columns", "40", "-o", "others"]);
    dir.ok(&["product", "others", "--operand", &operand]);
    let said = fit("id").stderr;
    assert!(said.contains("is of other files or of another operand"), "{said}");
    let said = dir.fails(2, &["fit", "data", "--exclude", "id", "--passes", "w2", "-o", "m"]);
    assert!(said.contains("those of pca with --form randomized"), "{said}");
    assert_eq!(dir.fails(1, &["product", "data", "--operand", "m.nothing"]).lines().count(), 1);
}
