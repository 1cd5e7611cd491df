//! Talk on stderr: notes, and how far a pass is.
//!
//! On a terminal a bar with rows/s, bytes and time left; elsewhere one line per ten seconds, so
//! that a log stays readable. `--quiet` silences both.

use super::phrase;
use crate::budget::Bytes;
use crate::listen::{Listener, Stage};
use crate::note::{Level, Note};
use crate::words::{one_line, thousands};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Says things on stderr, or not.
pub(super) struct Talk {
    /// The command.
    what: &'static str,
    quiet: bool,
    /// The pass under way.
    progress: RwLock<Option<Progress>>,
}

impl Talk {
    /// Of a command; `--quiet` or not.
    pub(super) fn new(what: &'static str, quiet: bool) -> Talk {
        Talk { what, quiet, progress: RwLock::new(None) }
    }

    /// `--quiet`.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A line on stderr. A closed stderr is no reason to stop.
    pub(super) fn say(&self, line: impl AsRef<str>) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{}", one_line(line.as_ref()));
        }
    }

    /// Several notes.
    pub(super) fn notes<'a>(&self, notes: impl IntoIterator<Item = &'a Note>) {
        notes.into_iter().for_each(|note| self.note(note));
    }
}

impl Listener for Talk {
    fn note(&self, note: &Note) {
        let level = match note.level() {
            Level::Info => "",
            Level::Note => "note: ",
            Level::Warning => "warning: ",
        };
        self.say(format!("{level}{}", phrase(&note.sentence())));
    }

    fn begin(&self, stage: &Stage) {
        let progress = Progress::new(self.what, *stage, self.quiet);
        *self.progress.write().unwrap_or_else(|e| e.into_inner()) = Some(progress);
    }

    fn advance(&self, items: u64, bytes: u64) {
        let progress = self.progress.read().unwrap_or_else(|e| e.into_inner());
        if let Some(progress) = &*progress {
            progress.advance(items, bytes);
        }
    }

    fn end(&self) {
        *self.progress.write().unwrap_or_else(|e| e.into_inner()) = None;
    }
}

/// How far a pass is.
struct Progress {
    what: &'static str,
    stage: Stage,
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
    fn new(what: &'static str, stage: Stage, quiet: bool) -> Progress {
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::Nothing,
            (false, true) => View::Bar(bar(what, stage.noun, stage.items)),
            (false, false) => View::Lines,
        };
        let started = Instant::now();
        Progress {
            what,
            stage,
            rows_done: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            started,
            shown: Mutex::new(started),
            view,
        }
    }

    fn line(&self, done: u64, bytes: u64) -> String {
        let Stage { noun, items, bytes: all } = self.stage;
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = done as f64 / seconds.max(1e-9);
        let left = (items.saturating_sub(done)) as f64 / rate.max(1e-9);
        format!(
            "{}: {} of {} {noun} ({:.0} %), {} of {}, {} {noun}/s, {left:.0} s left",
            self.what,
            thousands(done),
            thousands(items),
            100.0 * done as f64 / items.max(1) as f64,
            Bytes(bytes.min(all)),
            Bytes(all),
            thousands(rate as u64),
        )
    }

    fn advance(&self, items: u64, bytes: u64) {
        let done = self.rows_done.fetch_add(items, Ordering::Relaxed) + items;
        let bytes = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match &self.view {
            View::Bar(bar) => {
                let all = self.stage.bytes;
                bar.set_position(done);
                bar.set_message(format!("{} of {}", Bytes(bytes.min(all)), Bytes(all)));
            }
            View::Lines => {
                // Whoever finds another worker here leaves the line to it.
                if let Ok(mut shown) = self.shown.try_lock()
                    && shown.elapsed() >= EVERY
                {
                    *shown = Instant::now();
                    let _ = writeln!(std::io::stderr(), "{}", self.line(done, bytes));
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
        let _ = write!(w, "{} {noun}/s", thousands(state.per_sec() as u64));
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
        let progress =
            Progress::new("fit", Stage { noun: "rows", items: 1_000_000, bytes: 2_000_000 }, true);
        std::thread::sleep(Duration::from_millis(2));
        let line = progress.line(500_000, 1_000_000);
        assert!(
            line.starts_with("fit: 500,000 of 1,000,000 rows (50 %), 1.0 MB of 2.0 MB, "),
            "{line}"
        );
        assert!(line.contains("rows/s") && line.ends_with("s left"), "{line}");
    }
}
