//! What people and programs read of a model: a page of text, or JSON.

pub(crate) mod json;
pub(crate) mod text;
