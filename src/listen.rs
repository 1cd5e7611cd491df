//! What a run tells while it works, and whether it may go on.
//!
//! A front end implements [`Listener`]; every part of it may be left out. Held: nothing.

use crate::error::{Error, Result};
use crate::note::Note;
use crate::words::thousands;
use std::borrow::Cow;

/// Told what a run does. Called from several threads.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, Listener, Note};
/// use std::sync::Mutex;
///
/// struct Notes(Mutex<Vec<String>>);
///
/// impl Listener for Notes {
///     fn note(&self, note: &Note) {
///         self.0.lock().unwrap().push(note.to_string());
///     }
/// }
///
/// let notes = Notes(Mutex::default());
/// let table = ArrowTable::from(ndarray::array![[1.0, 2.0], [2.0, 4.1], [3.0, 5.8]]);
/// Fit::pca().components(5).plan(&table)?.run(&notes)?;
/// let told = &notes.0.lock().unwrap()[0];
/// assert_eq!(told, "kept 2 of 5 components: the data has rank 2 (3 rows × 2 features)");
/// # Ok::<(), eigenstream::Error>(())
/// ```
pub trait Listener: Sync {
    /// Something a user should know.
    fn note(&self, _note: &Note) {}

    /// A stage begins. Stages follow each other, they do not nest.
    fn begin(&self, _stage: &Stage) {}

    /// Some more of the stage's items, of some stored bytes, are done: read, and worked on.
    fn advance(&self, _items: u64, _bytes: u64) {}

    /// The stage has ended.
    fn end(&self) {}

    /// True when the run is to stop. Asked once a block; the run then ends with
    /// [`Error::Cancelled`] and leaves nothing behind but the checkpoint of a scan that has one.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Listener for Quiet {}

/// One reading of the data, or another piece of work that may take a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// What is done: "reading", "comparing", "product 3 of at most 40".
    pub work: Cow<'static, str>,
    /// What is counted: "rows", "features", "pairs".
    pub noun: &'static str,
    /// How many there are; 0 where only the end will tell.
    pub items: u64,
    /// Their stored bytes; 0 where nothing is read.
    pub bytes: u64,
}

impl Stage {
    /// Work of so many items, which are called so.
    pub fn new(work: impl Into<Cow<'static, str>>, noun: &'static str, items: u64) -> Stage {
        Stage { work: work.into(), noun, items, bytes: 0 }
    }

    /// Work that tells nothing until it is done, like a decomposition.
    pub fn untold(work: impl Into<Cow<'static, str>>) -> Stage {
        Stage::new(work, "", 0)
    }

    /// Of a symmetric n × n matrix.
    pub(crate) fn decomposing(n: usize) -> Stage {
        let n = thousands(n as u64);
        Stage::untold(format!("decomposing {n} × {n}"))
    }
}

/// A stage under way: begun when made, ended when dropped.
pub struct Watch<'a> {
    listener: &'a dyn Listener,
}

impl<'a> Watch<'a> {
    /// Begins a stage.
    pub fn new(listener: &'a dyn Listener, stage: Stage) -> Watch<'a> {
        listener.begin(&stage);
        Watch { listener }
    }

    /// Tells how far it is, and asks whether to go on.
    pub fn advance(&self, items: u64, bytes: u64) -> Result<()> {
        self.listener.advance(items, bytes);
        go_on(self.listener)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.listener.end();
    }
}

/// An error once the listener wants to stop.
pub(crate) fn go_on(listener: &dyn Listener) -> Result<()> {
    if listener.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}
