//! A part of the rows for one of several processes, decided by the files alone.
//!
//! Units of row groups are shared out in their order, so that every shard is a run of them and adds
//! up in file order; a unit goes where the bytes before it are, so that shards are of about the
//! same size.

use super::Unit;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// More processes than this work on no dataset.
const MOST_SHARDS: usize = 1_000_000;

/// One of some shards, or neighbours of them that were added up; counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The first.
    pub from: usize,
    /// The last.
    pub to: usize,
    /// Of so many.
    pub of: usize,
}

impl Shard {
    /// One of so many.
    pub fn new(index: usize, of: usize) -> Result<Shard> {
        match (1..=of).contains(&index) && of <= MOST_SHARDS {
            true => Ok(Shard { from: index, to: index, of }),
            false => Error::misuse(format!(
                "there is no shard {index}/{of}: they are counted from 1, as in 1/4 to 4/4, and \
                 there are at most {MOST_SHARDS}"
            )),
        }
    }

    /// True when they are numbers of shards that there can be.
    pub(crate) fn is_possible(&self) -> bool {
        1 <= self.from && self.from <= self.to && self.to <= self.of && self.of <= MOST_SHARDS
    }

    /// The units that are its own.
    pub(crate) fn units(&self, units: &[Unit]) -> Range<usize> {
        let bytes: Vec<u128> = units.iter().map(|unit| u128::from(unit.bytes.max(1))).collect();
        let all = bytes.iter().sum::<u128>().max(1);
        let mut before = 0;
        // Where the middle of each unit is, among so many shards.
        let places: Vec<usize> = bytes
            .iter()
            .map(|bytes| {
                let middle = 2 * before + bytes;
                before += bytes;
                (middle * self.of as u128 / (2 * all)) as usize
            })
            .collect();
        let start = places.partition_point(|place| place + 1 < self.from);
        start..places.partition_point(|place| place < &self.to)
    }

    /// This one and the next, as one; nothing once all are there.
    pub(crate) fn followed_by(&self, next: &Shard) -> Result<Option<Shard>> {
        if next.of != self.of || next.from != self.to + 1 {
            return Error::misuse(format!(
                "{self} and {next} do not follow each other; add up shards of one dataset in their \
                 order, as merging their directory does"
            ));
        }
        let both = Shard { to: next.to, ..*self };
        Ok((both.from > 1 || both.to < both.of).then_some(both))
    }

    /// "shard-00002-of-00004.state".
    pub fn file_name(&self, extension: &str) -> String {
        format!("shard-{:05}-of-{:05}.{extension}", self.from, self.of)
    }

    /// What [`Shard::file_name`] named, if it did.
    pub fn of_file_name(name: &str, extension: &str) -> Option<Shard> {
        let numbers = name.strip_prefix("shard-")?.strip_suffix(extension)?.strip_suffix('.')?;
        let (index, of) = numbers.split_once("-of-")?;
        Shard::new(index.parse().ok()?, of.parse().ok()?).ok()
    }
}

/// "shard 2 of 4", "shards 1 to 3 of 4".
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shard { from, to, of } = self;
        match from == to {
            true => write!(f, "shard {from} of {of}"),
            false => write!(f, "shards {from} to {to} of {of}"),
        }
    }
}

/// "2/4".
impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Shard, String> {
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let (index, of) = numbers.ok_or("expected i/N, as in 1/4")?;
        Shard::new(index, of).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(bytes: &[u64]) -> Vec<Unit> {
        bytes.iter().map(|bytes| Unit { input: 0, first_row: 0, rows: 1, bytes: *bytes }).collect()
    }

    #[test]
    fn shards_are_runs_of_units_of_about_the_same_size() {
        for bytes in [vec![5; 12], vec![100, 1, 1, 1, 1, 100, 50], vec![7], vec![], vec![0; 9]] {
            let units = units(&bytes);
            for of in 1..=10 {
                let mut next = 0;
                for index in 1..=of {
                    let part = Shard::new(index, of).unwrap().units(&units);
                    assert_eq!(part.start, next, "{bytes:?} {index}/{of}");
                    next = part.end;
                }
                assert_eq!(next, units.len());
            }
        }
        let third = Shard::new(2, 3).unwrap().units(&units(&[5; 12]));
        assert_eq!(third, 4..8);
    }

    #[test]
    fn shards_that_follow_each_other_add_up() {
        let shard = |i| Shard::new(i, 3).unwrap();
        let two = shard(1).followed_by(&shard(2)).unwrap().unwrap();
        assert_eq!(two.to_string(), "shards 1 to 2 of 3");
        assert_eq!(two.followed_by(&shard(3)).unwrap(), None);
        assert!(shard(1).followed_by(&shard(3)).is_err());
        assert!(Shard::new(0, 3).is_err() && "4/3".parse::<Shard>().is_err());
        let name = shard(2).file_name("state");
        assert_eq!(name, "shard-00002-of-00003.state");
        assert_eq!(Shard::of_file_name(&name, "state"), Some(shard(2)));
        assert_eq!(Shard::of_file_name("shard-2.state", "state"), None);
    }
}
