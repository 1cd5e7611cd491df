//! Inputs by content; names are labels. Looking up ten thousand files takes no longer than reading
//! their footers.

use super::InputEntry;
use crate::error::{Error, Place, Result};
use std::collections::HashMap;

/// Inputs, to look some up.
#[derive(Debug, Default)]
pub(crate) struct InputIndex<'a> {
    /// By size, rows and footer, which files without statistics may share.
    by_content: HashMap<(u64, u64, &'a str), Vec<&'a InputEntry>>,
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
        self.by_content.entry(content).or_default().push(entry);
        self.by_path.entry(&entry.path).or_insert(entry);
    }

    /// The name under which its content is there.
    pub(crate) fn known(&self, entry: &InputEntry) -> Option<&'a str> {
        let content = (entry.size, entry.rows, entry.footer_hash.as_str());
        let of_path = self.by_path.get(entry.path.as_str());
        let of_content = self.by_content.get(&content).into_iter().flatten();
        let same = of_path.into_iter().chain(of_content).find(|e| e.is_same(entry));
        same.map(|e| e.path.as_str())
    }

    /// True when its name is there, with other content: another file of that name, or the same one
    /// overwritten.
    pub(crate) fn is_another(&self, entry: &InputEntry) -> bool {
        self.by_path.contains_key(entry.path.as_str()) && self.known(entry).is_none()
    }
}

/// Refuses the same content twice, whose rows would count twice; with what to do about it.
pub(crate) fn no_twins(entries: &[InputEntry], advice: &str) -> Result<()> {
    let mut index = InputIndex::default();
    for entry in entries {
        if let Some(other) = index.known(entry) {
            let problem = format!("is the same as {other}; {advice}");
            return Err(Error::data(Place::file(&entry.path), problem));
        }
        index.add(entry);
    }
    Ok(())
}
