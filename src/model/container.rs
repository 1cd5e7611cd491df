//! The container of models and states: one safetensors file with a JSON header.
//!
//! Tensors are f64 little-endian. Under `__metadata__` the key `eigenstream` holds the header, with
//! the format's version, the kind of content and an xxHash64 of the header and all tensors. A newer
//! format is refused with a sentence, and so is a file whose checksum does not fit, before anything
//! is made of its numbers.

use crate::error::{Error, Result};
use crate::staged::StagedFile;
use ndarray::{Array1, Array2};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The layout this program writes. Older ones stay readable.
pub(crate) const FORMAT: u32 = 3;

/// The key of `__metadata__` that holds our JSON: one key, so that the file's bytes do not depend
/// on the order of a map.
const KEY: &str = "eigenstream";

/// Stands for the checksum while it is computed.
const NO_CHECKSUM: &str = "0000000000000000";

/// What is in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A fitted model.
    Model,
    /// Sufficient statistics.
    State,
    /// The sums of one pass, with what rows are multiplied with.
    Product,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Content::Model => "model",
            Content::State => "state",
            Content::Product => "product",
        }
    }

    fn maker(self) -> &'static str {
        match self {
            Content::Model => "fit",
            Content::State => "scan",
            Content::Product => "product",
        }
    }

    fn again(self) -> &'static str {
        match self {
            Content::Model => "fit it again",
            Content::State => "scan again",
            Content::Product => "make it again",
        }
    }
}

/// A named tensor.
pub(crate) type Named = (String, Vec<usize>, Vec<u8>);

/// A vector's bytes.
pub(crate) fn vector(name: &str, v: &Array1<f64>) -> Named {
    (name.into(), vec![v.len()], le_bytes(v.iter()))
}

/// A matrix's bytes.
pub(crate) fn matrix(name: &str, m: &Array2<f64>) -> Named {
    (name.into(), m.shape().to_vec(), le_bytes(m.iter()))
}

/// The bytes of stored sums.
pub(crate) fn named(numbers: BTreeMap<String, Array2<f64>>) -> Vec<Named> {
    numbers.into_iter().map(|(name, m)| matrix(&name, &m)).collect()
}

fn le_bytes<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<u8> {
    values.flat_map(|v| v.to_le_bytes()).collect()
}

/// xxHash64 of the header and the tensors, by name.
fn checksum<'a>(header: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    use std::hash::Hasher;
    let mut tensors: Vec<_> = tensors.collect();
    tensors.sort_by_key(|(name, _)| *name);
    let mut hash = twox_hash::XxHash64::with_seed(0);
    hash.write(header.as_bytes());
    for (name, data) in tensors {
        hash.write(name.as_bytes());
        hash.write(data);
    }
    format!("{:016x}", hash.finish())
}

#[derive(Serialize, Deserialize)]
struct Document<H> {
    format: u32,
    kind: String,
    checksum: String,
    #[serde(flatten)]
    header: H,
}

/// Read first, because a newer document may not parse as ours.
#[derive(Deserialize)]
struct Version {
    format: u32,
    kind: Option<String>,
}

/// The file's bytes: a function of the content alone.
pub(crate) fn to_bytes<H: Serialize + Clone>(
    content: Content,
    header: &H,
    tensors: &[Named],
) -> Result<Vec<u8>> {
    let blank = Document {
        format: FORMAT,
        kind: content.name().into(),
        checksum: NO_CHECKSUM.into(),
        header: header.clone(),
    };
    let blank = serde_json::to_string(&blank)
        .map_err(|e| Error::Internal(format!("{} header: {e}", content.name())))?;
    let sum =
        checksum(&blank, tensors.iter().map(|(name, _, data)| (name.as_str(), data.as_slice())));
    let json = blank.replacen(NO_CHECKSUM, &sum, 1);
    let failed =
        |e: safetensors::SafeTensorError| Error::Internal(format!("{} file: {e}", content.name()));
    let views = tensors
        .iter()
        .map(|(name, shape, data)| {
            Ok((name.as_str(), TensorView::new(Dtype::F64, shape.clone(), data).map_err(failed)?))
        })
        .collect::<Result<Vec<_>>>()?;
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_string(), json)]))).map_err(failed)
}

/// Writes a file: temporary file, sync, rename.
pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut staged = StagedFile::create(path)?;
    staged.file().write_all(bytes).map_err(Error::io("write", path))?;
    staged.commit()
}

/// The bytes of a file. A pipe is refused: it would be waited for.
pub(crate) fn read(content: Content, path: &Path) -> Result<Vec<u8>> {
    let failed = || Error::io("open", path);
    let flags = libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(path).map_err(failed())?;
    let found = file.metadata().map_err(failed())?;
    if !found.is_file() && !found.is_dir() {
        let problem = format!("is a device or pipe; a {} is a regular file", content.name());
        return Err(Error::model(path, problem));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed())?;
    Ok(bytes)
}

/// Takes a container apart; the error is what is wrong with it.
pub(crate) fn open<H: DeserializeOwned>(
    content: Content,
    bytes: &[u8],
) -> std::result::Result<(H, Tensors<'_>), String> {
    let name = content.name();
    let none = |why: String| {
        format!(
            "is not an eigenstream {name} ({why}); make one with eigenstream {}",
            content.maker()
        )
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| none(e.to_string()))?;
    let json = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
    let json = json.ok_or_else(|| none("it is a safetensors file without our header".into()))?;
    let version: Version = serde_json::from_str(json).map_err(|e| none(e.to_string()))?;
    if version.format > FORMAT {
        return Err(format!(
            "has format {}, newer than the {FORMAT} that eigenstream {} reads; use a newer \
             eigenstream",
            version.format,
            env!("CARGO_PKG_VERSION")
        ));
    }
    if let Some(kind) = version.kind.filter(|k| k != name) {
        return Err(none(format!("it holds a {kind}")));
    }
    let damaged = |why: String| damage(content, &why);
    let document: Document<H> = serde_json::from_str(json).map_err(|e| damaged(e.to_string()))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
    let blank = json.replacen(&document.checksum, NO_CHECKSUM, 1);
    let views = tensors.iter().collect::<Vec<_>>();
    let found = checksum(&blank, views.iter().map(|(name, view)| (*name, view.data())));
    // A fuzzer does not find checksums, and what they stand before is what it is to try.
    if found != document.checksum && !cfg!(fuzzing) {
        return Err(damaged("its checksum does not fit its content".into()));
    }
    Ok((document.header, Tensors(tensors)))
}

/// What is said of a file whose content contradicts itself.
pub(crate) fn damage(content: Content, why: &str) -> String {
    format!("is damaged: {why}; {}", content.again())
}

/// The tensors of a container.
pub(crate) struct Tensors<'a>(SafeTensors<'a>);

impl Tensors<'_> {
    /// True when there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }

    fn get(&self, name: &str) -> std::result::Result<(Vec<usize>, Vec<f64>), String> {
        let view = self.0.tensor(name).map_err(|_| format!("tensor '{name}' is missing"))?;
        if view.dtype() != Dtype::F64 {
            return Err(format!("tensor '{name}' is {:?} where F64 is expected", view.dtype()));
        }
        let data = view
            .data()
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]));
        Ok((view.shape().to_vec(), data.collect()))
    }

    /// A vector; a matrix is taken as one.
    pub(crate) fn vector(&self, name: &str) -> std::result::Result<Array1<f64>, String> {
        self.get(name).map(|(_, data)| Array1::from_vec(data))
    }

    /// The same, if it is there.
    pub(crate) fn optional(&self, name: &str) -> std::result::Result<Option<Array1<f64>>, String> {
        self.has(name).then(|| self.vector(name)).transpose()
    }

    /// All of them, vectors as one row.
    pub(crate) fn matrices(
        &self,
    ) -> std::result::Result<std::collections::BTreeMap<String, Array2<f64>>, String> {
        let all = self.0.iter().map(|(name, _)| Ok((name.to_string(), self.matrix(name)?)));
        all.collect()
    }

    /// A matrix.
    pub(crate) fn matrix(&self, name: &str) -> std::result::Result<Array2<f64>, String> {
        let (shape, data) = self.get(name)?;
        let [rows, columns] = shape[..] else { return Err(format!("{name} is not a matrix")) };
        Array2::from_shape_vec((rows, columns), data).map_err(|e| e.to_string())
    }
}
