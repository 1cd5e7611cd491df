//! Inputs by content and by name: looking up ten thousand files takes no longer than reading their
//! footers.

use super::State;
use crate::error::{Error, Place, Result};
use crate::listen::Listener;
use crate::model::InputEntry;
use crate::note::Note;
use std::collections::HashMap;

/// The inputs of a state, to look some up.
#[derive(Debug, Default)]
pub(crate) struct InputIndex<'a> {
    by_content: HashMap<(u64, u64, &'a str), &'a InputEntry>,
    by_path: HashMap<&'a str, &'a InputEntry>,
}

/// What is known of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is there, under this name.
    Same(String),
    /// Its name is there, with other content.
    Changed,
}

impl<'a> InputIndex<'a> {
    pub(crate) fn of(entries: &'a [InputEntry]) -> InputIndex<'a> {
        let mut index = InputIndex::default();
        entries.iter().for_each(|entry| index.add(entry));
        index
    }

    fn add(&mut self, entry: &'a InputEntry) {
        let content = (entry.size, entry.rows, entry.footer_hash.as_str());
        self.by_content.entry(content).or_insert(entry);
        self.by_path.entry(&entry.path).or_insert(entry);
    }

    pub(crate) fn known(&self, entry: &InputEntry) -> Option<Known> {
        let named = self.by_path.get(entry.path.as_str());
        let content = (entry.size, entry.rows, entry.footer_hash.as_str());
        let content = self.by_content.get(&content);
        let same = [named, content].into_iter().flatten().find(|e| e.is_same(entry));
        match same {
            Some(e) => Some(Known::Same(e.path.clone())),
            None => named.map(|_| Known::Changed),
        }
    }
}

/// Refuses the same content twice among the inputs of one scan.
pub(super) fn no_twins(entries: &[InputEntry]) -> Result<()> {
    let mut index = InputIndex::default();
    for entry in entries {
        if let Some(Known::Same(other)) = index.known(entry) {
            let problem =
                format!("is the same as {other}; a state counts nothing twice, leave one out");
            return Err(Error::data(Place::file(&entry.path), problem));
        }
        index.add(entry);
    }
    Ok(())
}

impl State {
    /// Refuses inputs that are in the state, or whose name is there with other content.
    pub fn admit(&self, entries: &[InputEntry]) -> Result<()> {
        let index = InputIndex::of(&self.about.ledger);
        let known = entries.iter().find_map(|entry| Some((entry, index.known(entry)?)));
        let (entry, problem) = match known {
            None => return Ok(()),
            Some((entry, Known::Same(path))) => {
                let under = if path == entry.path { String::new() } else { format!(" as {path}") };
                let problem =
                    format!("is in the state already{under}; ⟦skip-known⟧ passes it over");
                (entry, problem)
            }
            Some((entry, Known::Changed)) => {
                let problem = "has changed since it was added to the state; take the old one out \
                               with subtract, or scan again";
                (entry, problem.to_string())
            }
        };
        Err(Error::data(Place::file(&entry.path), problem))
    }

    /// True when all inputs of another state are in this one.
    pub fn has_inputs_of(&self, other: &State) -> bool {
        let index = InputIndex::of(&self.about.ledger);
        let known = |entry: &InputEntry| index.known(entry).is_some();
        !other.about.ledger.is_empty() && other.about.ledger.iter().all(known)
    }

    /// Positions of the inputs that the state does not have. Those it has are passed over, and
    /// told, or refused; changed ones are refused.
    pub fn new_inputs(
        &self,
        entries: &[InputEntry],
        skip_known: bool,
        listener: &dyn Listener,
    ) -> Result<Vec<usize>> {
        let index = InputIndex::of(&self.about.ledger);
        let (mut new, mut known) = (Vec::new(), 0);
        for (at, entry) in entries.iter().enumerate() {
            match index.known(entry) {
                Some(Known::Same(_)) if skip_known => known += 1,
                Some(_) => self.admit(std::slice::from_ref(entry))?,
                None => new.push(at),
            }
        }
        if known > 0 {
            listener.note(&Note::KnownFiles(known));
        }
        Ok(new)
    }
}
