//! Names from before; each goes with its last user.
#![allow(missing_docs)]

use super::*;
use crate::error::Result;
use std::collections::HashSet;

pub type Want = ReadRequest;
pub type LabelWant = LabelRequest;
pub type FileInfo = InputInfo;
pub type Mapped<'a> = MappedSource<'a>;
pub type DecodeBytes = ReadCost;

pub mod columns {
    pub use super::super::column_choice::{
        ChosenColumns as Chosen, ColumnChoice as Choice, matching, unknown,
    };

    pub fn agree<'n>(
        table: &dyn super::Table,
        names: impl Iterator<Item = &'n str>,
    ) -> crate::error::Result<()> {
        table.check_columns(&names.collect::<Vec<_>>())
    }
}

pub fn decode_bytes(dataset: &Dataset, request: &ReadRequest) -> Result<ReadCost> {
    dataset.cost(request)
}

/// Bytes of a row of these columns, uncompressed, in the largest row group.
pub fn row_bytes(dataset: &Dataset, names: &HashSet<&str>) -> Result<u64> {
    let keep = Some(names.iter().map(|name| name.to_string()).collect());
    Ok(dataset.cost(&ReadRequest { keep, ..ReadRequest::default() })?.kept_row)
}
