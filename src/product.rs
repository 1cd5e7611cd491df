//! One pass of the randomized form as a thing of its own, for rows that others read: an operand
//! goes out, sums come back.
//!
//! ```text
//! fit ─► PassSums of no rows ─┬► update, update, … ─┐
//!                             └► update, update, … ─┴► merge, in the order of the rows ─► fit
//! ```
//!
//! Enters: b vectors of d numbers. Leaves: their products with S over all rows, and with the first
//! pass the moments. Held, and written: 2·b·d numbers and some vectors; nothing grows with n or d².
//! Its file is the container of models.

use crate::accumulate::{Accumulate, MOST_ROWS, Parts, Product, Shape, Sketch};
use crate::error::{Error, Result};
use crate::model::InputEntry;
use crate::model::container::{self, Content};
use crate::source::Tally;
use crate::source::{
    BatchReader, Block, Features, Nulls, Precision, ReadLimit, ReadRequest, Shard,
};
use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The sums of one pass so far.
#[derive(Debug, Clone)]
pub struct PassSums {
    /// What they are of.
    pub about: PassAbout,
    pub(crate) sums: Products,
}

/// What the sums of a pass are of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassAbout {
    /// Which pass of the fit it is, counted from 1.
    pub pass: usize,
    /// xxHash64 of what rows are multiplied with, in hexadecimal: of one fit alone.
    pub operand: String,
    /// The features.
    pub columns: Features,
    /// The weight column.
    pub weight: Option<String>,
    /// The policy for missing values.
    pub nulls: Nulls,
    /// Arithmetic of the products.
    pub precision: Precision,
    /// What was met.
    pub tally: Tally,
    /// The files that rows are of, where they are of files.
    pub ledger: Vec<InputEntry>,
    /// Which shards of them; all of them without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The program's version.
    pub version: String,
}

/// Makes the passes of a fit over rows that it does not read itself.
pub trait Passes: Sync {
    /// These sums with all rows added, in their order.
    fn fold(&self, empty: PassSums) -> Result<PassSums>;
}

/// Both kinds of pass.
#[derive(Debug, Clone)]
pub(crate) enum Products {
    /// The first: moments, too.
    First(Sketch),
    /// Every later one.
    Later(Product),
}

impl Accumulate for Products {
    type Output = Products;

    fn update(&mut self, block: Block) {
        match self {
            Products::First(sums) => sums.update(block),
            Products::Later(sums) => sums.update(block),
        }
    }

    fn merge(&mut self, later: Products) {
        match (self, later) {
            (Products::First(sums), Products::First(later)) => sums.merge(later),
            (Products::Later(sums), Products::Later(later)) => sums.merge(later),
            _ => unreachable!("the operands are the same, so are the kinds"),
        }
    }

    fn finish(self) -> Products {
        self
    }

    fn bytes(shape: Shape) -> u64 {
        Sketch::bytes(shape)
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct PassHeader {
    #[serde(flatten)]
    about: PassAbout,
    vectors: usize,
    first: bool,
    sums: BTreeMap<String, serde_json::Value>,
}

/// Where the sums are in a file.
const AT: &str = "pass";

impl PassSums {
    /// Of no rows yet; `request` says what is read of each.
    pub(crate) fn new(pass: usize, sums: Products, request: &ReadRequest) -> Result<PassSums> {
        let about = PassAbout {
            pass,
            operand: String::new(),
            columns: request.features.clone(),
            weight: request.weight.clone(),
            nulls: request.nulls,
            precision: request.precision,
            tally: Tally::default(),
            ledger: Vec::new(),
            shard: None,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let mut empty = PassSums { about, sums };
        let bytes = empty.to_bytes()?;
        empty.about.operand = format!("{:016x}", twox_hash::XxHash64::oneshot(0, &bytes));
        Ok(empty)
    }

    /// What is read of each row.
    pub(crate) fn request(&self) -> ReadRequest {
        ReadRequest {
            features: self.about.columns.clone(),
            weight: self.about.weight.clone(),
            labels: None,
            keep: None,
            nulls: self.about.nulls,
            precision: self.about.precision,
            advice: "leave the row out, or fit with ⟦nulls=drop⟧",
            limit: ReadLimit::default(),
        }
    }

    /// Adds rows. Columns are found by name; rows that cannot be read leave it as it was.
    pub fn update(&mut self, rows: &RecordBatch) -> Result<()> {
        let request = self.request();
        let reader = BatchReader::new(&request, &rows.schema(), Path::new("record batch"))?;
        let mut block = reader.block(rows, self.about.tally.rows)?;
        self.about.tally.add(std::mem::take(&mut block.tally));
        self.sums.update(block);
        Ok(())
    }

    /// Adds the sums of rows that come after these.
    pub fn merge(&mut self, later: PassSums) -> Result<()> {
        if later.about.operand != self.about.operand {
            return Error::misuse(format!(
                "these are of pass {} and of pass {} of different fits, or of different operands",
                self.about.pass, later.about.pass
            ));
        }
        self.about.shard = match (&self.about.shard, &later.about.shard) {
            (None, None) => None,
            (Some(these), Some(next)) => these.followed_by(next)?,
            _ => return Error::misuse("one of them is a shard, and the other has all rows"),
        };
        if self.about.ledger.is_empty() {
            self.about.ledger = later.about.ledger;
        }
        self.about.tally.add(later.about.tally);
        self.sums.merge(later.sums);
        Ok(())
    }

    /// How many vectors rows are multiplied with.
    pub(crate) fn vectors(&self) -> usize {
        match &self.sums {
            Products::First(sums) => sums.vectors(),
            Products::Later(sums) => sums.vectors(),
        }
    }

    /// Rows that were read.
    pub fn rows(&self) -> u64 {
        self.about.tally.rows
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<PassSums> {
        let path = path.as_ref();
        let bytes = container::read(Content::Product, path)?;
        PassSums::opened(&bytes).map_err(|problem| Error::model(path, problem))
    }

    /// Writes a file: whole, or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        container::save(path.as_ref(), &self.to_bytes()?)
    }

    /// The file's bytes: a function of the sums alone.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut parts = Parts::default();
        match &self.sums {
            Products::First(sums) => sums.store(AT, &mut parts),
            Products::Later(sums) => sums.store(AT, &mut parts),
        }
        let (first, vectors) = (matches!(self.sums, Products::First(_)), self.vectors());
        let Parts { numbers, facts } = parts;
        let about = self.about.clone();
        let header = PassHeader { about, vectors, first, sums: facts };
        container::to_bytes(Content::Product, &header, &container::named(numbers))
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<PassSums> {
        PassSums::opened(bytes).map_err(|problem| Error::model(Path::new("product"), problem))
    }

    fn opened(bytes: &[u8]) -> std::result::Result<PassSums, String> {
        let (PassHeader { about, vectors, first, sums }, tensors) =
            container::open::<PassHeader>(Content::Product, bytes)?;
        let damaged = |why: String| container::damage(Content::Product, &why);
        let mut parts = Parts { numbers: tensors.matrices().map_err(damaged)?, facts: sums };
        let shape = (vectors, about.columns.len());
        let shard = about.shard.is_none_or(|shard| shard.is_possible());
        if !shard || !about.tally.is_possible(shape.1, MOST_ROWS) {
            return Err(damaged("it counts what cannot be".into()));
        }
        let sums = match first {
            true => Products::First(Sketch::restore(AT, shape, &mut parts).map_err(damaged)?),
            false => {
                let product = Product::restore(AT, shape, about.precision, &mut parts);
                Products::Later(product.map_err(damaged)?)
            }
        };
        Ok(PassSums { about, sums })
    }
}
