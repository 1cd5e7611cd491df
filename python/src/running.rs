//! A piece of work on a thread of its own, while the caller's thread listens: notes and progress
//! reach Python from there, and Ctrl-C is seen there, whatever the work is busy with.
//!
//! ```text
//! engine thread: work(listener) ─► notes, stages, the result ─► channel ─► caller's thread
//! caller's thread: every 50 ms signals and progress; on an exception, stop ─► engine thread
//! ```
//!
//! The interpreter's lock is held only while Python is told something. Work that is asked to stop
//! and does not within a second (a decomposition asks nobody) is left to end by itself where it
//! writes nothing, and waited for where it does.

use crate::errors::{exception, in_python};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use eigenstream::{Level, Listener, Note, Stage};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often signals are looked for and progress is told.
const TICK: Duration = Duration::from_millis(50);

/// How long work that is to stop is waited for, where it leaves nothing behind in any case.
const PATIENCE: Duration = Duration::from_millis(800);

/// The stack of an engine thread.
const STACK_BYTES: usize = 16 << 20;

/// What comes from the engine's thread.
enum Event<T> {
    Note(Level, String),
    Begin(String, &'static str, u64),
    /// With the items that were done.
    End(u64),
    Done(eigenstream::Result<T>),
}

/// What both threads look at.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    items: AtomicU64,
}

/// The engine's side.
struct Sending<T> {
    events: Sender<Event<T>>,
    shared: Arc<Shared>,
}

impl<T: Send> Listener for Sending<T> {
    fn note(&self, note: &Note) {
        let said = in_python(&note.sentence());
        let _ = self.events.send(Event::Note(note.level(), said));
    }

    fn begin(&self, stage: &Stage) {
        let work = stage.work.to_string();
        let _ = self.events.send(Event::Begin(work, stage.noun, stage.items));
    }

    fn advance(&self, items: u64, _bytes: u64) {
        self.shared.items.fetch_add(items, Ordering::Relaxed);
    }

    fn end(&self) {
        let done = self.shared.items.swap(0, Ordering::Relaxed);
        let _ = self.events.send(Event::End(done));
    }

    fn cancelled(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }
}

/// What work leaves when it is not waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// A result that nobody takes.
    Nothing,
    /// Files, which it removes when it stops.
    Files,
}

/// Does work on a thread of its own. `told` is a Python object with methods `note(level, text)`,
/// `begin(work, noun, total)`, `advance(done)` and `end()`, or `None`.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    told: Option<&Bound<'_, PyAny>>,
    leaves: Leaves,
    work: impl FnOnce(&dyn Listener) -> eigenstream::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, events) = unbounded();
    let shared = Arc::new(Shared::default());
    let listener = Sending { events: sender, shared: shared.clone() };
    let thread = std::thread::Builder::new().name("eigenstream".into()).stack_size(STACK_BYTES);
    let engine = move || {
        let done = eigenstream::caught(|| work(&listener));
        let _ = listener.events.send(Event::Done(done));
    };
    let thread = thread
        .spawn(engine)
        .map_err(|e| PyRuntimeError::new_err(format!("cannot start a thread: {e}")))?;
    let done = Caller { events, shared, told, leaves, last: None, ended: true }.wait(py)?;
    // It has said its last word; what it held is freed when it is gone.
    py.detach(|| thread.join()).map_err(|_| PyRuntimeError::new_err("the engine has panicked"))?;
    done.map_err(exception)
}

/// The caller's side.
struct Caller<'a, 'py, T> {
    events: Receiver<Event<T>>,
    shared: Arc<Shared>,
    told: Option<&'a Bound<'py, PyAny>>,
    leaves: Leaves,
    /// What Python was told last of the stage's items.
    last: Option<u64>,
    /// True between two stages.
    ended: bool,
}

impl<T: Send> Caller<'_, '_, T> {
    /// Until the work is done, or was stopped by an exception of Python's.
    fn wait(mut self, py: Python<'_>) -> PyResult<eigenstream::Result<T>> {
        let mut stopped: Option<(PyErr, Instant)> = None;
        loop {
            let events = &self.events;
            let event = py.detach(|| events.recv_timeout(TICK));
            let heard = match event {
                Ok(Event::Done(done)) => {
                    return match stopped {
                        None => Ok(done),
                        Some((error, _)) => Err(error),
                    };
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the engine has ended without a word"));
                }
                Ok(event) if stopped.is_none() => self.tell(event),
                _ if stopped.is_none() => py.check_signals().and_then(|()| self.advance()),
                _ => Ok(()),
            };
            if let Err(error) = heard {
                self.shared.stop.store(true, Ordering::Relaxed);
                stopped = Some((error, Instant::now()));
            }
            match stopped.take() {
                Some((error, at)) if self.leaves == Leaves::Nothing && at.elapsed() > PATIENCE => {
                    return Err(error);
                }
                other => stopped = other,
            }
        }
    }

    fn tell(&mut self, event: Event<T>) -> PyResult<()> {
        let Some(told) = self.told else { return Ok(()) };
        match event {
            Event::Note(level, said) => {
                let level = match level {
                    Level::Info => "info",
                    Level::Note => "note",
                    Level::Warning => "warning",
                };
                told.call_method1("note", (level, said))?;
            }
            Event::Begin(work, noun, total) => {
                (self.last, self.ended) = (None, false);
                told.call_method1("begin", (work, noun, total))?;
            }
            Event::End(done) => {
                self.tell_items(done)?;
                told.call_method0("end")?;
                self.ended = true;
            }
            Event::Done(_) => {}
        }
        Ok(())
    }

    /// How far the stage is. (Of one that has ended everything is told, and the count is that of
    /// the next, which may not have been told of yet.)
    fn advance(&mut self) -> PyResult<()> {
        match self.ended {
            true => Ok(()),
            false => self.tell_items(self.shared.items.load(Ordering::Relaxed)),
        }
    }

    fn tell_items(&mut self, items: u64) -> PyResult<()> {
        if self.last.is_some_and(|last| items < last) {
            // The engine is ahead, in its next stage.
            return Ok(());
        }
        if let Some(told) = self.told.filter(|_| self.last != Some(items)) {
            told.call_method1("advance", (items,))?;
        }
        self.last = Some(items);
        Ok(())
    }
}
