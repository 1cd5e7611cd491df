//! What the README and the pages under docs/ say is what happens.
//!
//! Each page's commands are run in order in a fresh directory of its own and print what the page shows:
//!
//! - a block marked `console` holds commands, each after `$ `, and what each prints on both streams;
//! - a line that ends in ` \` goes on in the next one, in commands and in what they print;
//! - a command that shows `fit: …`, with its own name, fails; any other succeeds;
//! - what belongs to the machine is masked: seconds, threads, residuals, the certificate; sizes may
//!   be off by a hundredth, since the last digits of what is compressed are its BLAS's. Plans are
//!   made for two threads, on any machine.
//!
//! `EIGENSTREAM_PAGES=write cargo test --test integration pages` puts what is printed into the pages.

use crate::workdir::Workdir;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_eigenstream");

/// The most columns of a line in a page.
const WIDTH: usize = 120;

/// Times and threads are the machine's; rounding errors in the certificate are its BLAS's.
fn masked(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_string).collect();
    for i in 0..words.len().saturating_sub(1) {
        let unit = words[i + 1].trim_end();
        let timed = unit == "s" || unit.starts_with("thread");
        if timed && words[i].chars().all(|c| c.is_ascii_digit() || c == '.') {
            words[i] = "N".into();
            words[i + 1] = words[i + 1].replace("threads", "thread");
        }
    }
    for (at, _) in sizes(text) {
        words[at] = "B".into();
    }
    // So are the residuals of an iteration.
    for i in 1..words.len() {
        if words[i - 1] == "residual" {
            words[i] = "R".into();
        }
    }
    let text = words.join(" ");
    if text.starts_with("certificate") {
        "certificate …".into()
    } else if text.starts_with("by 5 folds, ") {
        // Rows are shared out by the hash of a footer, which has the last digits of their numbers.
        "by 5 folds, …".into()
    } else {
        text.replace("2 workers", "N workers")
    }
}

/// The sizes in a text: which word is one, and its number.
fn sizes(text: &str) -> Vec<(usize, f64)> {
    let words: Vec<&str> = text.split(' ').collect();
    let unit = |word: &str| ["kB", "MB", "GB"].iter().any(|unit| word.starts_with(unit));
    let size = |at: usize| {
        let number = words[at].trim_start_matches('(').parse().ok()?;
        unit(words[at + 1]).then_some((at, number))
    };
    (0..words.len() - 1).filter_map(size).collect()
}

/// True when two lines say the same but for what belongs to the machine.
fn same(old: &str, new: &str) -> bool {
    let near = |((_, a), (_, b)): (&(usize, f64), &(usize, f64))| (a - b).abs() <= 0.01 * b.abs();
    masked(old) == masked(new) && sizes(old).iter().zip(&sizes(new)).all(near)
}

/// A page: where it is, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

/// A command of a page: the lines its output has there, and that output, unfolded.
struct Shown {
    command: String,
    lines: Range<usize>,
    output: Vec<String>,
}

/// The README and every page under docs/.
fn pages() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.push(root.join("README.md"));
    paths.sort();
    let read = |path: PathBuf| Page { text: std::fs::read_to_string(&path).unwrap(), path };
    paths.into_iter().map(read).collect()
}

/// Lines as they were before they were folded.
fn unfolded(lines: &[&str]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) if part.ends_with(' ') => (part, true),
            _ => (*line, false),
        };
        match whole.last_mut() {
            Some(last) if goes_on => last.push_str(part.trim_start()),
            _ => whole.push(part.to_string()),
        }
        goes_on = more;
    }
    whole
}

/// A line of output, cut where a page's lines end, what follows indented one step further.
fn folded(line: &str) -> String {
    let indent = " ".repeat(line.len() - line.trim_start().len() + 2);
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let width = word.chars().count();
        if column + width + 1 > WIDTH {
            text.push_str(&format!("\\\n{indent}"));
            column = indent.len();
        }
        text.push_str(word);
        column += width;
    }
    text
}

/// The commands of a page, in order.
fn commands(text: &str) -> Vec<Shown> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut shown, mut console, mut at) = (Vec::new(), false, 0);
    while at < lines.len() {
        let start = at;
        at += 1;
        if let Some(language) = lines[start].strip_prefix("```") {
            console = language == "console";
        } else if console {
            assert!(lines[start].starts_with("$ "), "line {at} is of no command: {}", lines[start]);
            while lines[at - 1].ends_with('\\') {
                at += 1;
            }
            let command = unfolded(&lines[start..at])[0][2..].to_string();
            let ends = |line: &&str| line.starts_with("$ ") || line.starts_with("```");
            let end = at + lines[at..].iter().position(ends).unwrap();
            shown.push(Shown { command, lines: at..end, output: unfolded(&lines[at..end]) });
            at = end;
        }
    }
    shown
}

/// What a command prints in a directory, on both streams. It fails where it complains, and only there.
fn printed(dir: &Workdir, command: &str) -> Vec<String> {
    let path = std::env::var("PATH").unwrap();
    let binaries = Path::new(BINARY).parent().unwrap().display();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .env("PATH", format!("{binaries}:{path}"))
        .current_dir(dir.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let name = command.split(' ').skip_while(|word| *word != "eigenstream").nth(1);
    let complaint = name.map(|name| format!("{name}: "));
    let complains = complaint.is_some_and(|c| said.lines().any(|line| line.starts_with(&c)));
    assert_eq!(output.status.success(), !complains, "{command}: {said}");
    said.lines().map(str::to_string).collect()
}

/// A plan counts the buffers of its threads: it gets two, as on the machine that wrote the pages.
fn on_two_threads(command: &str) -> String {
    match command.contains("--threads") {
        true => command.into(),
        false => command.replace("eigenstream plan ", "eigenstream plan --threads 2 "),
    }
}

/// Runs a page; what its commands print goes into its text where it is not what the page shows.
fn replayed(page: &Page) -> String {
    let dir = Workdir::new();
    let mut lines: Vec<String> = page.text.lines().map(str::to_string).collect();
    let mut changes = Vec::new();
    for shown in commands(&page.text) {
        let said = printed(&dir, &on_two_threads(&shown.command));
        let mut differs = said.len() != shown.output.len();
        let kept = said.into_iter().enumerate().map(|(at, line)| match shown.output.get(at) {
            Some(old) if same(old, &line) => old.clone(),
            _ => {
                differs = true;
                line
            }
        });
        let kept: Vec<String> = kept.collect();
        if differs {
            changes.push((shown.lines, kept));
        }
    }
    for (range, kept) in changes.into_iter().rev() {
        lines.splice(range, kept.iter().map(|line| folded(line)));
    }
    lines.join("\n") + "\n"
}

#[test]
fn pages_show_what_happens() {
    let write = std::env::var_os("EIGENSTREAM_PAGES").is_some_and(|v| v == "write");
    let run = |page: Page| {
        let text = replayed(&page);
        if write {
            std::fs::write(&page.path, text).unwrap();
        } else {
            for (at, (found, shown)) in text.lines().zip(page.text.lines()).enumerate() {
                assert_eq!(found, shown, "{}:{}", page.path.display(), at + 1);
            }
            assert_eq!(text, page.text, "{}", page.path.display());
        }
    };
    if write {
        // One after the other: times that are shown are of a machine that does nothing else.
        pages().into_iter().for_each(run);
    } else {
        std::thread::scope(|scope| {
            for page in pages() {
                scope.spawn(move || run(page));
            }
        });
    }
}

#[test]
fn pages_have_commands_that_are_run() {
    let mut total = 0;
    for page in pages() {
        total += commands(&page.text).len();
        // A command outside of a console block would not be run.
        let (mut console, name) = (false, page.path.display());
        for (at, line) in page.text.lines().enumerate() {
            if let Some(language) = line.strip_prefix("```") {
                // Scripts are those of docs/schedulers, which `make test-spark` runs.
                console = matches!(language, "console" | "sh");
            }
            let typed = line.starts_with("$ ") || line.starts_with("eigenstream ");
            assert!(console || !typed, "{name}:{}: {line}", at + 1);
            assert!(line.chars().count() <= WIDTH, "{name}:{}: {line}", at + 1);
        }
    }
    assert!(total >= 60, "{total} commands were found");
}

#[test]
fn pages_name_options_that_exist() {
    let help = |args: &[&str]| {
        let output = Command::new(BINARY).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    let names = all.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let mut known: BTreeSet<String> = options(&all).collect();
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        known.extend(options(&help(&[name, "--help"])));
    }
    // Those of cargo, and of schedulers.
    let cargo = ["--path", "--release", "--open", "--no-default-features"];
    let schedulers = ["--retries", "--array", "--cpus-per-task", "--mem", "--requeue"];
    let others = ["--dependency", "--wrap", "--py-files", "--archives", "--conf", "--master"];
    known.extend(cargo.iter().chain(&schedulers).chain(&others).map(|name| name.to_string()));
    for page in pages() {
        for option in options(&page.text) {
            assert!(known.contains(&option), "{}: {option}", page.path.display());
        }
    }
}

/// Every `--option` in a text.
fn options(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.filter(|w| w.len() > 2 && w.starts_with("--") && !w.starts_with("---")).map(String::from)
}

#[test]
fn pages_link_to_headings_that_exist() {
    let anchor = |heading: &str| -> String {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
    };
    for page in pages() {
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if !(file.is_empty() || file.ends_with(".md")) {
                continue;
            }
            let own = file.is_empty();
            let target = if own { page.path.clone() } else { page.path.with_file_name(file) };
            let text = std::fs::read_to_string(&target).unwrap_or_default();
            let mut headings = text.lines().filter(|l| l.starts_with('#'));
            let found = headings.any(|l| {
                heading.is_empty() || anchor(l.trim_start_matches('#').trim_start()) == heading
            });
            assert!(found, "{}: {link}", page.path.display());
        }
    }
}

#[test]
fn the_tables_are_those_of_the_last_benchmark() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let results = read("bench/results.md");
    let (_machine, tables) = results.split_once('\n').unwrap();
    assert!(read("docs/benchmarks.md").contains(tables.trim()), "bench/readme.py puts them there");
}

/// Numbered equations of the tutorial.
const EQUATIONS: usize = 141;

/// The sources under tests/tutorial/, in the order of the tutorial.
const TUTORIAL: [&str; 7] = ["pca", "dual", "kernel", "scoring", "spca", "kernel_spca", "appendix"];

#[test]
fn the_tutorial_page_has_every_equation_and_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: String| std::fs::read_to_string(root.join(name)).unwrap();
    let page = read("docs/tutorial.md".into());
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| eq."))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut equations: Vec<usize> = rows.iter().flat_map(|row| numbers(row[1])).collect();
    equations.sort_unstable();
    assert_eq!(equations, (1..=EQUATIONS).collect::<Vec<_>>());
    let named = rows.iter().map(|row| row[4].trim_matches('`').to_string());
    let named: Vec<String> = named.filter(|name| !name.is_empty()).collect();
    let sources = TUTORIAL.map(|name| read(format!("tests/tutorial/{name}.rs")));
    assert_eq!(named, sources.iter().flat_map(|text| tests_of(text)).collect::<Vec<_>>());
}

/// The numbers of `1–3, 7`.
fn numbers(cell: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let range = |part: &str| match part.split_once('–') {
        Some((first, last)) => number(first)..=number(last),
        None => number(part)..=number(part),
    };
    cell.split(',').filter(|part| !part.is_empty()).flat_map(range).collect()
}

/// Names of the tests of a source.
fn tests_of(text: &str) -> Vec<String> {
    let after = text.split("#[test]\n").skip(1).map(|rest| rest.trim_start());
    after.map(|rest| rest[3..rest.find('(').unwrap()].to_string()).collect()
}
