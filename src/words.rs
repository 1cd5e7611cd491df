//! Numbers and lists as people read them. Enters: values. Leaves: words, for every room's messages.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// 4000000 → 4,000,000.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// "1 file", "3 files".
pub(crate) fn count(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// Five significant digits, in the notation that is shorter to read.
pub(crate) fn five_digits(x: f64) -> String {
    let magnitude = x.abs();
    if x == 0.0 {
        "0".into()
    } else if (1e-4..1e7).contains(&magnitude) {
        let decimals = (4 - magnitude.log10().floor() as i32).max(0) as usize;
        format!("{x:.decimals$}")
    } else {
        format!("{x:.4e}")
    }
}

/// A constant as it is, in scientific notation where that is shorter to read.
pub(crate) fn constant(x: f64) -> String {
    match x == 0.0 || (1e-4..1e7).contains(&x.abs()) {
        true => format!("{x}"),
        false => format!("{x:e}"),
    }
}

/// Text on a line of its own: what would break the line, move the cursor or turn the order of
/// letters around is escaped. The one place that decides what a terminal is shown.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |c: char| if is_hidden(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect()
}

/// Control characters, ends of lines and of paragraphs, and marks of direction.
pub(crate) fn is_hidden(c: char) -> bool {
    let marks = '\u{202a}'..='\u{202e}';
    let isolates = '\u{2066}'..='\u{2069}';
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || marks.contains(&c)
        || isolates.contains(&c)
}

/// Names, each as it can be shown: "a, b".
pub(crate) fn list(names: &[String]) -> String {
    one_line(&names.join(", "))
}

/// Columns that text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A name as it can be shown in a table: at most `most` columns, with … where it goes on.
pub(crate) fn short(name: &str, most: usize) -> String {
    let name = one_line(name);
    if width(&name) <= most {
        return name;
    }
    let mut cut = String::new();
    for c in name.chars() {
        if width(&cut) + c.width().unwrap_or(0) >= most {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

/// A path as text that keeps all of it: of one that is not UTF-8, bytes that are none, and the sign
/// itself, as %XX.
pub(crate) fn path_text(path: &Path) -> String {
    if let Some(text) = path.to_str() {
        return text.into();
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

/// 25.2 MB.
pub(crate) fn bytes(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", b / 1e9),
        _ => format!("{:.1} TB", b / 1e12),
    }
}

/// Bytes as whole megabytes, rounded up: what a user can ask for.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{}MB", bytes.div_ceil(1_000_000))
}

/// "7 products with the kernel matrix".
pub(crate) fn products(n: usize) -> String {
    format!("{} with the kernel matrix", count(n as u64, "product"))
}

/// "1 pass", "3 passes".
pub(crate) fn passes(n: usize) -> String {
    if n == 1 { "1 pass".into() } else { format!("{n} passes") }
}

/// "1, 4 to 7, 9" of ascending numbers.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[usize]| match run {
        [one] => one.to_string(),
        [a, b] => format!("{a}, {b}"),
        _ => format!("{} to {}", run[0], run[run.len() - 1]),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

/// The first few of many.
pub(crate) fn some(names: &[String]) -> String {
    const FEW: usize = 6;
    if names.len() <= FEW {
        return list(names);
    }
    format!("{} and {} more", list(&names[..FEW]), names.len() - FEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(4_000_000), "4,000,000");
        assert_eq!(five_digits(123.456789), "123.46");
        assert_eq!(five_digits(0.000123456), "0.00012346");
        assert_eq!(five_digits(1.5e-9), "1.5000e-9");
        assert_eq!(count(1, "row"), "1 row");
    }

    #[test]
    fn constants_and_names_are_readable() {
        let shown = [0.25, 1.0, 1.5e-9, 3e8].map(constant);
        assert_eq!(shown, ["0.25", "1", "1.5e-9", "3e8"]);
        assert_eq!(one_line("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(one_line("größe"), "größe");
        assert_eq!(one_line("a\u{202e}b\u{2028}\u{9b}2J"), "a\\u{202e}b\\u{2028}\\u{9b}2J");
        assert_eq!((width("größe"), width("名前")), (5, 4));
        assert_eq!(short("名前名前", 8), "名前名前");
        assert_eq!(short("名前名前名", 8), "名前名…");
        assert_eq!(short("a\nb", 8), "a\\nb");
    }

    #[test]
    fn paths_that_are_no_text_keep_their_bytes() {
        let path = |bytes: &[u8]| path_text(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        assert_eq!(path("größe 5%.parquet".as_bytes()), "größe 5%.parquet");
        assert_eq!(path(b"a%/b\xff\xc3.parquet"), "a%25/b%FF%C3.parquet");
        assert_ne!(path(b"b\xfe"), path(b"b\xff"));
    }

    #[test]
    fn runs_are_shortened() {
        assert_eq!(ranges(&[1, 2, 4, 5, 6, 9]), "1, 2, 4 to 6, 9");
        assert_eq!(ranges(&[]), "");
    }
}
