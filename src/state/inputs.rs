//! Inputs by content; names are labels. Looking up ten thousand files takes no longer than reading their
//! footers.

use super::State;
use crate::error::{Error, Place, Result};
use crate::listen::Listener;
use crate::model::InputEntry;
use crate::note::Note;
use crate::words::{count, some};
use std::collections::HashMap;

/// The inputs of a state, to look some up.
#[derive(Debug, Default)]
pub(crate) struct InputIndex<'a> {
    by_content: HashMap<(u64, u64, &'a str), &'a InputEntry>,
    by_path: HashMap<&'a str, &'a InputEntry>,
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

    /// The name under which its content is there.
    pub(crate) fn known(&self, entry: &InputEntry) -> Option<&'a str> {
        let content = (entry.size, entry.rows, entry.footer_hash.as_str());
        let of_content = self.by_content.get(&content);
        let same = [self.by_path.get(entry.path.as_str()), of_content];
        let same = same.into_iter().flatten().find(|e| e.is_same(entry));
        same.map(|e| e.path.as_str())
    }

    /// True when its name is there, with other content: another file of that name, or the same one
    /// overwritten.
    fn is_another(&self, entry: &InputEntry) -> bool {
        self.by_path.contains_key(entry.path.as_str()) && self.known(entry).is_none()
    }
}

/// Refuses the same content twice among the inputs of one scan.
pub(super) fn no_twins(entries: &[InputEntry]) -> Result<()> {
    let mut index = InputIndex::default();
    for entry in entries {
        if let Some(other) = index.known(entry) {
            let problem =
                format!("is the same as {other}; a state counts nothing twice, leave one out");
            return Err(Error::data(Place::file(&entry.path), problem));
        }
        index.add(entry);
    }
    Ok(())
}

impl State {
    /// Refuses inputs whose content is in the state.
    pub fn admit(&self, entries: &[InputEntry]) -> Result<()> {
        let index = InputIndex::of(&self.about.ledger);
        let known = entries.iter().find_map(|entry| Some((entry, index.known(entry)?)));
        let Some((entry, path)) = known else { return Ok(()) };
        let under = if path == entry.path { String::new() } else { format!(" as {path}") };
        let problem = format!("is in the state already{under}; ⟦skip-known⟧ passes it over");
        Err(Error::data(Place::file(&entry.path), problem))
    }

    /// True when all inputs of another state are in this one; where only some are, both cannot be
    /// added up, since a state cannot be taken apart.
    pub fn has_inputs_of(&self, other: &State) -> Result<bool> {
        let index = InputIndex::of(&self.about.ledger);
        let all = &other.about.ledger;
        let known: Vec<&InputEntry> = all.iter().filter(|e| index.known(e).is_some()).collect();
        if known.is_empty() || known.len() == all.len() {
            return Ok(!known.is_empty());
        }
        let names: Vec<String> = known.iter().map(|e| e.path.clone()).collect();
        Error::misuse(format!(
            "{} of its {} are in the state already ({}), and a state cannot be taken apart; scan \
             the others by themselves",
            known.len(),
            count(all.len() as u64, "input"),
            some(&names)
        ))
    }

    /// Tells of inputs whose names are there with other content.
    pub(super) fn tell_others(&self, entries: &[InputEntry], listener: &dyn Listener) {
        let index = InputIndex::of(&self.about.ledger);
        for entry in entries.iter().filter(|entry| index.is_another(entry)) {
            listener.note(&Note::AnotherOfThatName(entry.path.clone()));
        }
    }

    /// Positions of the inputs that the state does not have. Those it has are passed over, and
    /// told, or refused.
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
                Some(_) if skip_known => known += 1,
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
