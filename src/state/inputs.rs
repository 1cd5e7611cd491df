//! Which inputs a state has.

use super::State;
use crate::error::{Error, Place, Result};
use crate::listen::Listener;
use crate::model::{InputEntry, InputIndex};
use crate::note::Note;
use crate::words::{count, some};

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

    /// True when both are of the same files, in the same order.
    pub(super) fn has_same_inputs(&self, other: &State) -> bool {
        let (mine, theirs) = (&self.about.ledger, &other.about.ledger);
        mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.is_same(b))
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
