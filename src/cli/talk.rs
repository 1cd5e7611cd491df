//! Talk on stderr: notes, and how far a stage is.
//!
//! On a terminal a bar with what is done, bytes, rate and time left, or a spinner where only the
//! end will tell; elsewhere one line per ten seconds, so that a log stays readable. `--quiet`
//! silences both. Lines come from a thread of their own: a decomposition calls nobody while it
//! works.

use super::phrase;
use crate::budget::Bytes;
use crate::listen::{Listener, Stage, Watch};
use crate::note::{Level, Note};
use crate::words::{one_line, thousands};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether a line is due, and a spinner turns.
const TICK: Duration = Duration::from_millis(200);

/// Says things on stderr, or not.
pub(super) struct Talk {
    /// The command.
    what: &'static str,
    quiet: bool,
    /// The stage under way.
    progress: Arc<Current>,
    /// Started by the first stage that is told in lines.
    ticker: OnceLock<()>,
}

/// The stage under way, if there is one.
type Current = RwLock<Option<Progress>>;

fn current(progress: &Current) -> RwLockReadGuard<'_, Option<Progress>> {
    progress.read().unwrap_or_else(|e| e.into_inner())
}

impl Talk {
    /// Of a command; `--quiet` or not.
    pub(super) fn new(what: &'static str, quiet: bool) -> Talk {
        Talk { what, quiet, progress: Arc::default(), ticker: OnceLock::new() }
    }

    /// `--quiet`.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A line on stderr, above the bar if there is one. A closed stderr is no reason to stop.
    pub(super) fn say(&self, line: impl AsRef<str>) {
        if self.quiet {
            return;
        }
        let write = || {
            let _ = writeln!(std::io::stderr(), "{}", one_line(line.as_ref()));
        };
        match &*current(&self.progress) {
            Some(Progress { view: View::Bar(bar), .. }) => bar.suspend(write),
            _ => write(),
        }
    }

    /// Several notes.
    pub(super) fn notes<'a>(&self, notes: impl IntoIterator<Item = &'a Note>) {
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// Does something that tells nothing of itself until it is done.
    pub(super) fn during<T>(&self, work: impl Into<String>, what: impl FnOnce() -> T) -> T {
        let _watch = Watch::new(self, Stage::untold(work.into()));
        what()
    }

    fn set(&self, progress: Option<Progress>) {
        *self.progress.write().unwrap_or_else(|e| e.into_inner()) = progress;
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
        let progress = Progress::new(self.what, stage.clone(), self.quiet);
        if matches!(progress.view, View::Lines(_)) {
            self.ticker.get_or_init(|| tick(Arc::downgrade(&self.progress)));
        }
        self.set(Some(progress));
    }

    fn advance(&self, items: u64, bytes: u64) {
        if let Some(progress) = &*current(&self.progress) {
            progress.advance(items, bytes);
        }
    }

    fn end(&self) {
        self.set(None);
    }
}

/// Writes a line when one is due, as long as somebody has something to tell.
fn tick(progress: Weak<Current>) {
    std::thread::spawn(move || {
        while let Some(progress) = progress.upgrade() {
            if let Some(progress) = &*current(&progress) {
                progress.line_if_due();
            }
            drop(progress);
            std::thread::sleep(TICK);
        }
    });
}

/// How far a stage is.
struct Progress {
    what: &'static str,
    stage: Stage,
    items_done: AtomicU64,
    bytes_done: AtomicU64,
    started: Instant,
    view: View,
}

enum View {
    Bar(ProgressBar),
    /// When the last one was written.
    Lines(Mutex<Instant>),
    Nothing,
}

impl Progress {
    fn new(what: &'static str, stage: Stage, quiet: bool) -> Progress {
        let started = Instant::now();
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::Nothing,
            (false, true) => View::Bar(bar(what, &stage)),
            (false, false) => View::Lines(Mutex::new(started)),
        };
        let (items_done, bytes_done) = (AtomicU64::new(0), AtomicU64::new(0));
        Progress { what, stage, items_done, bytes_done, started, view }
    }

    fn line(&self, done: u64, bytes: u64) -> String {
        let Stage { work, noun, items, bytes: all } = &self.stage;
        let (what, elapsed) = (self.what, self.started.elapsed());
        if *items == 0 {
            return format!("{what}: {work}, {} s so far", elapsed.as_secs());
        }
        let of_bytes = match all {
            0 => String::new(),
            all => format!(", {} of {}", Bytes(bytes), Bytes(*all)),
        };
        let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
        format!(
            "{what}: {work}: {} of {} {noun} ({} %){of_bytes}, {} {noun}/s, {}",
            thousands(done),
            thousands(*items),
            percent(done, *items),
            thousands(rate as u64),
            left(elapsed, done, *items)
        )
    }

    fn advance(&self, items: u64, bytes: u64) {
        let done = self.items_done.fetch_add(items, Ordering::Relaxed) + items;
        let bytes = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let View::Bar(bar) = &self.view {
            bar.set_position(done);
            if self.stage.bytes > 0 {
                bar.set_message(format!("{} of {}", Bytes(bytes), Bytes(self.stage.bytes)));
            }
        }
    }

    fn line_if_due(&self) {
        let View::Lines(shown) = &self.view else { return };
        let mut shown: MutexGuard<'_, Instant> = shown.lock().unwrap_or_else(|e| e.into_inner());
        if shown.elapsed() < EVERY {
            return;
        }
        *shown = Instant::now();
        let load = |done: &AtomicU64| done.load(Ordering::Relaxed);
        let line = self.line(load(&self.items_done), load(&self.bytes_done));
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

/// Rounded down: 100 is the end.
fn percent(done: u64, of: u64) -> u64 {
    (u128::from(done) * 100 / u128::from(of.max(1))) as u64
}

/// As long as what is left takes if it goes on as it went so far.
fn left(elapsed: Duration, done: u64, of: u64) -> String {
    if done == 0 {
        return "time left unknown".into();
    }
    let left = elapsed.as_secs_f64() / done as f64 * of.saturating_sub(done) as f64;
    format!("{left:.0} s left")
}

fn bar(what: &'static str, stage: &Stage) -> ProgressBar {
    let Stage { work, noun, items, .. } = stage;
    let (work, noun) = (work.replace(['{', '}'], ""), *noun);
    let rate = move |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        let rate = state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-9);
        let _ = write!(w, "{} {noun}/s", thousands(rate as u64));
    };
    let until = |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        let left = left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
        let _ = write!(w, "{left}");
    };
    let (length, template) = match items {
        0 => (None, format!("{what}: {work} {{spinner}} {{elapsed}}")),
        items => {
            let counts = "{wide_bar} {percent} %  {msg}  {rate}  {until}";
            (Some(*items), format!("{what}: {work} {counts}"))
        }
    };
    let style =
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5))
        .with_style(style.with_key("rate", rate).with_key("until", until));
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: Stage) -> Progress {
        let progress = Progress::new("fit", stage, true);
        std::thread::sleep(Duration::from_millis(2));
        progress
    }

    #[test]
    fn a_line_says_what_is_done_rows_bytes_rate_and_time_left() {
        let stage = Stage { bytes: 2_000_000, ..Stage::new("reading", "rows", 1_000_000) };
        let line = progress(stage.clone()).line(500_000, 1_000_000);
        assert!(
            line.starts_with("fit: reading: 500,000 of 1,000,000 rows (50 %), 1.0 MB of 2.0 MB, "),
            "{line}"
        );
        assert!(line.contains("rows/s") && line.ends_with("s left"), "{line}");
        let early = progress(stage).line(0, 0);
        assert!(early.ends_with("0 rows/s, time left unknown"), "{early}");
    }

    #[test]
    fn a_line_without_a_length_says_for_how_long() {
        let line = progress(Stage::decomposing(4_000)).line(0, 0);
        assert_eq!(line, "fit: decomposing 4,000 × 4,000, 0 s so far");
    }

    #[test]
    fn a_hundred_percent_is_the_end() {
        assert_eq!((percent(999_999, 1_000_000), percent(7, 7), percent(0, 0)), (99, 100, 0));
    }

    #[test]
    fn what_is_left_goes_by_what_was_done() {
        assert_eq!(left(Duration::from_secs(10), 25, 100), "30 s left");
        assert_eq!(left(Duration::from_secs(10), 100, 100), "0 s left");
    }

    #[test]
    fn every_stage_can_be_drawn() {
        for stage in [Stage::new("a {b}", "rows", 9), Stage::untold("x")] {
            let bar = bar("fit", &stage);
            bar.set_draw_target(ProgressDrawTarget::hidden());
            bar.set_position(3);
            bar.finish_and_clear();
        }
    }
}
