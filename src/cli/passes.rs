//! Passes that other processes make: `fit --passes DIR` asks for one at a time.
//!
//! ```text
//! DIR/pass-001/operand                          what is wanted
//! DIR/pass-001/shard-00001-of-00004.product     what came of it
//! ```
//!
//! A fit that is run again reads the passes that are there, in no time, and asks for the next one.

use super::product::PRODUCT;
use super::shards;
use super::talk::Talk;
use crate::error::{Error, Result};
use crate::model::InputEntry;
use crate::product::{PassSums, Passes};
use std::path::{Path, PathBuf};

/// What is asked for, in the folder of a pass.
const OPERAND: &str = "operand";

/// A directory with a folder for each pass.
pub(super) struct PassFiles<'a> {
    pub(super) dir: &'a Path,
    /// The files that rows are to be of.
    pub(super) inputs: Vec<InputEntry>,
    pub(super) talk: &'a Talk,
}

impl Passes for PassFiles<'_> {
    fn fold(&self, empty: PassSums) -> Result<PassSums> {
        let dir = self.dir.join(format!("pass-{:03}", empty.about.pass));
        std::fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        let operand = dir.join(OPERAND);
        if !operand.exists() {
            empty.save(&operand)?;
            return Err(Error::PassWanted { pass: empty.about.pass, operand });
        }
        if PassSums::load(&operand)?.about.operand != empty.about.operand {
            let problem = "is of another fit, of other data or options; name another directory";
            return Err(Error::model(&operand, problem));
        }
        let files = shards::complete(&dir, PRODUCT)?;
        let Some(files) = files else {
            return Err(Error::PassWanted { pass: empty.about.pass, operand });
        };
        self.added(empty, &files)
    }
}

impl PassFiles<'_> {
    fn added(&self, empty: PassSums, files: &[PathBuf]) -> Result<PassSums> {
        let mut total: Option<PassSums> = None;
        for path in files {
            let part = PassSums::load(path)?;
            let same = part.about.ledger.len() == self.inputs.len()
                && part.about.ledger.iter().zip(&self.inputs).all(|(a, b)| a.is_same(b));
            if !same || part.about.operand != empty.about.operand {
                let problem = "is of other files or of another operand; make it again";
                return Err(Error::model(path, problem));
            }
            match &mut total {
                None => total = Some(part),
                Some(total) => total.merge(part).map_err(|e| Error::model(path, e.to_string()))?,
            }
        }
        self.talk.say(format!("pass {}: {} rows", empty.about.pass, rows(&total)));
        total.ok_or_else(|| Error::Internal("a pass without a shard".into()))
    }
}

fn rows(total: &Option<PassSums>) -> String {
    crate::words::thousands(total.as_ref().map_or(0, PassSums::rows))
}
