//! The rooms of `src/` import in one direction, and stay small enough to read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn source_files() -> Vec<PathBuf> {
    let pattern = concat!(env!("CARGO_MANIFEST_DIR"), "/src/**/*.rs");
    glob::glob(pattern).unwrap().map(Result::unwrap).collect()
}

/// The first part of a path below `src/`: the room a file is in.
fn room(path: &Path) -> String {
    let below = path.strip_prefix(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_string()
}

/// The code of a file without its comments and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = own.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn rooms_import_only_what_stands_before_them() {
    let lib = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).unwrap();
    let declared = lib.lines().filter_map(|l| {
        l.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';').map(str::to_string)
    });
    let order: HashMap<String, usize> = declared.enumerate().map(|(i, room)| (room, i)).collect();
    assert!(order.len() > 20, "{order:?}");
    for path in source_files() {
        let here = room(&path);
        let Some(at) = order.get(&here) else { continue };
        for used in code(&path).split("crate::").skip(1) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
            let Some(of) = order.get(&used[..end]) else { continue };
            let (from, path) = (&used[..end], path.display());
            assert!(of <= at, "{path}: {here} imports {from}, which stands after it in lib.rs");
        }
    }
}

#[test]
fn files_lines_and_functions_fit_a_reader() {
    for path in source_files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let shown = path.display();
        assert!(text.lines().count() <= 500, "{shown} has {} lines", text.lines().count());
        for (number, line) in text.lines().enumerate() {
            // A table in a comment cannot be broken.
            let table = line.trim_start().starts_with("//! |");
            let long = line.chars().count() > 100 && !table;
            assert!(!long, "{shown}:{}: {} columns", number + 1, line.chars().count());
        }
        for (name, lines) in functions(&text) {
            assert!(lines <= 50, "{shown}: {name} has {lines} lines");
        }
    }
}

/// Functions with their lengths: from `fn` to the brace that closes at its indent.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start().trim_start_matches("pub(crate) ");
        let words = words.trim_start_matches("pub(super) ").trim_start_matches("pub ");
        let Some(rest) = words.trim_start_matches("unsafe ").strip_prefix("fn ") else { continue };
        let name = rest.split(['(', '<']).next().unwrap_or_default().to_string();
        let close = format!("{}}}", " ".repeat(indent));
        let declared_only = lines[at..].iter().take(12).any(|l| {
            l.ends_with(';')
                && l.starts_with(&" ".repeat(indent))
                && !l.contains('{')
                && l.trim_start().starts_with(')')
        });
        let end = lines[at..].iter().position(|l| *l == close);
        if let (Some(end), false) = (end, declared_only || line.ends_with(';')) {
            found.push((name, end + 1));
        }
    }
    found
}
