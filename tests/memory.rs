//! Out of core: ten times the rows, the same peak memory, and no more than the plan said.

use crate::skips::skipped;
use crate::workdir::Workdir;

/// Peak resident bytes of a run that succeeds.
fn peak(dir: &Workdir, args: &[&str]) -> u64 {
    peak_of(dir, args, true)
}

/// Peak resident bytes of a run, to the page.
pub fn peak_of(dir: &Workdir, args: &[&str], succeeds: bool) -> u64 {
    let (succeeded, used) = usage_of(dir, args, None);
    assert_eq!(succeeded, succeeds, "{args:?}");
    used.ru_maxrss as u64 * 1024
}

/// Whether a run succeeded, and what the kernel counted when it ended (`wait4`).
///
/// The count starts from the memory of whoever called exec, which here is a test runner of any
/// size. So a small shell starts the run and ends, and its orphan becomes our child.
pub fn usage_of(dir: &Workdir, args: &[&str], cage: Option<&Cage>) -> (bool, libc::rusage) {
    // SAFETY: a flag of this process, without pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }, 0);
    let enter = cage.map(Cage::enter).unwrap_or_default();
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &format!("({enter}exec \"$@\" > /dev/null 2>&1) & echo $!"), "sh"])
        .arg(env!("CARGO_BIN_EXE_eigenstream"))
        .args(args)
        .current_dir(dir.path("."));
    let told = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let process: i32 = told.trim().parse().unwrap();
    let mut status = 0;
    // SAFETY: numbers only, for which all zeros are values.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are ours and live; the process is our child since the shell has ended.
    assert_eq!(unsafe { libc::wait4(process, &mut status, 0, &mut used) }, process);
    (status == 0, used)
}

#[test]
fn a_peak_is_that_of_the_run_alone() {
    let dir = Workdir::new();
    let large = std::hint::black_box(vec![1u8; 300 << 20]);
    let idle = peak(&dir, &["--version"]);
    assert!(idle > 1 << 20 && idle < 60 << 20, "{idle} bytes beside {}", large.len());
}

pub const SLACK: u64 = 12 << 20;

#[test]
fn peak_memory_does_not_grow_with_rows() {
    let dir = Workdir::new();
    for (name, rows) in [("small", "60000"), ("large", "600000")] {
        dir.ok(&[
            "generate",
            "lowrank",
            "--rows",
            rows,
            "--columns",
            "24",
            "--files",
            "3",
            "--row-group",
            "10000",
            "-o",
            name,
        ]);
    }
    let fit = |data: &str| peak(&dir, &["fit", data, "-o", "m", "--quiet"]);
    let transform =
        |data: &str, out: &str| peak(&dir, &["transform", "m", data, "-o", out, "--quiet"]);
    let (small, large) = (fit("small"), fit("large"));
    assert!(large < small + SLACK, "fit: {small} bytes, ten times the rows {large}");
    let (small, large) = (transform("small", "a.parquet"), transform("large", "b.parquet"));
    assert!(large < small + SLACK, "transform: {small} bytes, ten times the rows {large}");
}

#[test]
#[ignore = "slow: make test-slow"]
fn the_plan_keeps_its_word() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        "100000",
        "--columns",
        "100",
        "--files",
        "2",
        "-o",
        "tall",
    ]);
    dir.ok(&[
        "generate",
        "embedding",
        "--rows",
        "20000",
        "--columns",
        "700",
        "--files",
        "2",
        "-o",
        "vectors",
    ]);
    dir.ok(&[
        "generate",
        "nulls",
        "--rows",
        "20000",
        "--columns",
        "300",
        "--files",
        "2",
        "-o",
        "nulls",
    ]);
    dir.ok(&["generate", "wide", "--rows", "503", "-o", "wide"]);
    dir.ok(&[
        "generate",
        "embedding",
        "--rows",
        "1500",
        "--columns",
        "4000",
        "--row-group",
        "100",
        "-o",
        "spooled",
    ]);
    dir.ok(&["generate", "smallgroups", "--rows", "400000", "--files", "1", "-o", "groups"]);
    for (data, options) in [
        ("tall", vec![]),
        ("groups", vec![]),
        ("wide", vec![]),
        ("wide", vec!["--memory", "230MB"]),
        ("vectors", vec!["--precision", "mixed", "--exclude", "id"]),
        ("nulls", vec!["--nulls", "mean"]),
        ("nulls", vec!["--nulls", "mean", "--precision", "full"]),
        ("tall", vec!["--precision", "full"]),
        ("vectors", vec!["--precision", "full", "--exclude", "id", "-k", "all"]),
        ("wide", vec!["--form", "primal"]),
        ("wide", vec!["--form", "primal", "--nulls", "mean"]),
        ("wide", vec!["--form", "dual", "--threads", "1"]),
        ("wide", vec!["--form", "dual", "-k", "all"]),
        ("wide", vec!["--form", "randomized", "--tolerance", "1e-2"]),
        ("spooled", vec!["--form", "dual", "--exclude", "id"]),
        ("vectors", vec!["--form", "randomized", "--tolerance", "1e-2", "--exclude", "id"]),
        (
            "vectors",
            vec![
                "--form",
                "randomized",
                "--tolerance",
                "1e-2",
                "--exclude",
                "id",
                "--precision",
                "mixed",
            ],
        ),
    ] {
        let plan: Vec<&str> = ["plan", data].iter().chain(&options).copied().collect();
        let planned = dir.json(&plan)["peak_bytes"].as_u64().unwrap();
        let fit: Vec<&str> =
            ["fit", data, "-o", "m", "--quiet"].iter().chain(&options).copied().collect();
        let held = peak(&dir, &fit);
        assert!(held <= planned + SLACK, "{data}: planned {planned} bytes, held {held}");
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_second_pass_stays_within_its_budget() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        "200000",
        "--columns",
        "60",
        "--files",
        "3",
        "-o",
        "d",
    ]);
    dir.ok(&["fit", "d", "--exclude", "id", "-k", "40", "-o", "m"]);
    for options in [
        vec!["--keep-all"],
        vec!["--compression", "zstd"],
        vec!["--keep", "id", "--diagnostics"],
        vec!["--residuals"],
        vec!["--residuals", "--diagnostics", "--layout", "list"],
    ] {
        let small: Vec<&str> = ["transform", "m", "d", "-o", "s.parquet", "--memory", "40MB"]
            .iter()
            .chain(&options)
            .copied()
            .collect();
        let said = dir.fails(1, &small);
        let allowed: u64 =
            said.split("allow --memory ").nth(1).unwrap().trim_end_matches("MB").parse().unwrap();
        let memory = format!("{allowed}MB");
        let args: Vec<&str> =
            ["transform", "m", "d", "-o", "s.parquet", "--quiet", "--memory", &memory]
                .iter()
                .chain(&options)
                .copied()
                .collect();
        let held = peak(&dir, &args);
        assert!(
            held <= allowed * 1_000_000 + SLACK,
            "{options:?}: allowed {allowed} MB, held {held}"
        );
    }
}

#[test]
fn a_small_budget_means_fewer_threads_not_more_memory() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        "100000",
        "--columns",
        "200",
        "--files",
        "4",
        "-o",
        "d",
    ]);
    let plan = dir.json(&["plan", "d", "--threads", "4"]);
    let (wanted, budget) =
        (plan["peak_bytes"].as_u64().unwrap(), plan["peak_bytes"].as_u64().unwrap() * 2 / 3);
    let memory = budget.to_string();
    let tight = dir.json(&["plan", "d", "--threads", "4", "--memory", &memory]);
    assert!(tight["threads"].as_u64().unwrap() < 4, "{wanted}: {tight}");
    let held =
        peak(&dir, &["fit", "d", "--threads", "4", "--memory", &memory, "-o", "m", "--quiet"]);
    assert!(held <= budget + SLACK, "budget {budget}, held {held}");
}

/// A control group with a hard limit: a child that holds more is killed. Not by setrlimit, which
/// counts address space, of which OpenBLAS reserves 128 MB a thread that it never touches.
pub struct Cage {
    path: std::path::PathBuf,
}

impl Cage {
    /// `None` where this user may not make one.
    pub fn new(name: &str, bytes: u64) -> Option<Cage> {
        let name = format!("eigenstream-test-{}-{name}", std::process::id());
        for (root, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let path = std::path::Path::new(root).join(&name);
            if std::fs::create_dir(&path).is_ok() {
                let cage = Cage { path };
                if std::fs::write(cage.path.join(limit), bytes.to_string()).is_ok() {
                    return Some(cage);
                }
            }
        }
        None
    }

    /// How a shell puts itself into it, be it one that another has forked.
    fn enter(&self) -> String {
        format!("echo 0 > '{}/cgroup.procs' && ", self.path.display())
    }

    pub fn run(&self, dir: &Workdir, args: &[&str]) -> (Option<i32>, String) {
        let script = format!("{}exec \"$@\"", self.enter());
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_eigenstream")])
            .args(args)
            .current_dir(dir.path("."));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn every_form_lives_under_a_hard_limit() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "wide",
        "--rows",
        "700",
        "--columns",
        "3000",
        "--row-group",
        "100",
        "-o",
        "wide",
    ]);
    dir.ok(&[
        "generate",
        "embedding",
        "--rows",
        "900",
        "--columns",
        "3000",
        "--row-group",
        "100",
        "-o",
        "vectors",
    ]);
    let cases = ["primal", "dual", "randomized"].map(|form| [("wide", form), ("vectors", form)]);
    for (data, form) in cases.into_iter().flatten() {
        let columns = if data == "wide" { "x*" } else { "embedding" };
        let spec = [data, "--form", form, "-k", "3", "--tolerance", "1e-2", "--columns", columns];
        let plan: Vec<&str> = ["plan"].iter().chain(&spec).copied().collect();
        let budget = dir.json(&plan)["peak_bytes"].as_u64().unwrap();
        let memory = budget.to_string();
        let fit: Vec<&str> = ["fit", "-o", "m", "--quiet", "--memory", &memory]
            .iter()
            .chain(&spec)
            .copied()
            .collect();
        let Some(cage) = Cage::new(&format!("{data}-{form}"), budget + SLACK) else {
            skipped("every_form_lives_under_a_hard_limit", "no permission to make a control group");
            return;
        };
        let (code, said) = cage.run(&dir, &fit);
        assert_eq!(code, Some(0), "{data}, {form}, {budget} bytes: {said}");
    }
    let cage = Cage::new("small", 60 << 20).unwrap();
    let (code, _) = cage.run(&dir, &["fit", "wide", "--form", "primal", "-o", "m", "--quiet"]);
    assert_ne!(code, Some(0), "the limit bites where the plan did not know of it");
}

/// Without a row in memory, whatever the kernel, and with shuffles as many at a time as there is
/// room for.
#[test]
fn dependence_stays_within_its_budget() {
    let dir = Workdir::new();
    let rows = ["--rows", "300000", "--columns", "8", "--row-group", "20000", "-o", "d"];
    dir.ok(&[&["generate", "labels"], &rows[..]].concat());
    let text = ["--label", "label_string"];
    let number = ["--label", "x7", "--label-kernel", "rbf", "--label-features", "200"];
    let cases: [(&[&str], &[&str], u64); 4] = [
        (&text, &["--permutations", "40"], 80),
        (&text, &["--kernel", "rbf", "--landmarks", "100"], 120),
        (&text, &["--kernel", "rbf", "--random-features", "100", "--permutations", "8"], 120),
        (&number, &["--permutations", "3"], 90),
    ];
    for (labels, options, most) in cases {
        let memory = format!("{most}MB");
        let fixed = ["hsic", "d", "--columns", "x[0-6]", "--quiet", "--memory", &memory];
        let peak = peak(&dir, &[&fixed[..], labels, options].concat());
        assert!(peak <= most * 1_000_000, "{options:?}: {peak} bytes of {memory}");
    }
}
