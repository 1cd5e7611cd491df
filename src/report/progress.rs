//! Talk on stderr: notes, and how far a pass is.
//!
//! On a terminal a bar with rows/s, bytes and time left; elsewhere one line per ten seconds, so that
//! a log stays readable. `--quiet` silences both.

use crate::budget::Bytes;
use crate::listen::Listener;
use crate::note::{Level, Note};
use crate::pass::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Says things on stderr, or not.
#[derive(Debug, Clone, Copy)]
pub struct Talk {
    quiet: bool,
}

impl Talk {
    /// `--quiet` or not.
    pub fn new(quiet: bool) -> Talk {
        Talk { quiet }
    }

    /// `--quiet`.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A line on stderr. A closed stderr is no reason to stop.
    pub fn say(&self, line: impl AsRef<str>) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{}", line.as_ref());
        }
    }

    /// Watches a pass over this many rows (or features: the noun says) and bytes.
    pub fn progress(
        &self,
        what: &'static str,
        noun: &'static str,
        rows: u64,
        bytes: u64,
    ) -> Progress {
        Progress::new(what, noun, rows, bytes, self.quiet)
    }
}

impl Listener for Talk {
    fn note(&self, note: &Note) {
        let prefix = match note.level() {
            Level::Info => "",
            Level::Note => "note: ",
            Level::Warning => "warning: ",
        };
        self.say(format!("{prefix}{}", crate::cli::phrase(&note.sentence())));
    }
}

/// How far a pass is.
pub struct Progress {
    what: &'static str,
    noun: &'static str,
    rows: u64,
    bytes: u64,
    rows_done: AtomicU64,
    bytes_done: AtomicU64,
    started: Instant,
    shown: Mutex<Instant>,
    view: View,
}

enum View {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

impl Progress {
    fn new(what: &'static str, noun: &'static str, rows: u64, bytes: u64, quiet: bool) -> Progress {
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::Nothing,
            (false, true) => View::Bar(bar(what, noun, rows)),
            (false, false) => View::Lines,
        };
        let (started, zero) = (Instant::now(), || AtomicU64::new(0));
        Progress {
            what,
            noun,
            rows,
            bytes,
            rows_done: zero(),
            bytes_done: zero(),
            started,
            shown: Mutex::new(started),
            view,
        }
    }

    fn line(&self, rows: u64, bytes: u64) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = rows as f64 / seconds.max(1e-9);
        let left = (self.rows.saturating_sub(rows)) as f64 / rate.max(1e-9);
        format!(
            "{}: {} of {} {noun} ({:.0} %), {} of {}, {} {noun}/s, {:.0} s left",
            self.what,
            crate::words::thousands(rows),
            crate::words::thousands(self.rows),
            100.0 * rows as f64 / self.rows.max(1) as f64,
            Bytes(bytes.min(self.bytes)),
            Bytes(self.bytes),
            crate::words::thousands(rate as u64),
            left,
            noun = self.noun
        )
    }
}

impl Watch for Progress {
    fn advance(&self, rows: u64, bytes: u64) {
        let rows = self.rows_done.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match &self.view {
            View::Bar(bar) => {
                bar.set_position(rows);
                bar.set_message(format!(
                    "{} of {}",
                    Bytes(bytes.min(self.bytes)),
                    Bytes(self.bytes)
                ));
            }
            View::Lines => {
                // Whoever finds another worker here leaves the line to it.
                if let Ok(mut shown) = self.shown.try_lock()
                    && shown.elapsed() >= EVERY
                {
                    *shown = Instant::now();
                    let _ = writeln!(std::io::stderr(), "{}", self.line(rows, bytes));
                }
            }
            View::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, noun: &'static str, rows: u64) -> ProgressBar {
    let rate = move |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        let _ = write!(w, "{} {noun}/s", crate::words::thousands(state.per_sec() as u64));
    };
    let template = format!("{what} {{wide_bar}} {{percent}} %  {{msg}}  {{rate}}  {{eta}} left");
    let style =
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr_with_hz(5))
        .with_style(style.with_key("rate", rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_rows_bytes_rate_and_time_left() {
        let progress = Progress::new("fit", "rows", 1_000_000, 2_000_000, true);
        std::thread::sleep(Duration::from_millis(2));
        let line = progress.line(500_000, 1_000_000);
        assert!(
            line.starts_with("fit: 500,000 of 1,000,000 rows (50 %), 1.0 MB of 2.0 MB, "),
            "{line}"
        );
        assert!(line.contains("rows/s") && line.ends_with("s left"), "{line}");
    }
}
