//! A model as one safetensors file.
//!
//! Tensors, all f64 little-endian: `mean` (d), `scale` (d, if any), `components` (k × d; of a kernel model those below),
//! `eigenvalues`, `constants`, `variances` (k, if any),
//! `feature_scores` (one per scored feature, if any), `unit_mean` (d, of the cosine kernel). A kernel model has
//! `train_rows` (m × d) or `omega` (d × m) and `phase` (m), `coefficients` (k × m), `offset` (k), `mean_coefficients` (m),
//! `kernel_means` (m, if all pairs were seen); a learned pre-image `preimage_anchors`, `preimage_coefficients` and
//! `preimage_mean`. Under `__metadata__`, the key `eigenstream` holds the header as JSON,
//! with the format's version and an xxHash64 of the JSON and all tensors. A newer format is refused
//! with a sentence, and so is a file whose checksum or shapes do not fit.

use super::{Header, Map, Model};
use crate::error::{Error, Result};
use crate::kernel::{Basis, Fourier, KernelMap, Ridge};
use crate::sink::staged::StagedFile;
use ndarray::{Array1, Array2};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// The layout this program writes. Older ones stay readable.
pub const FORMAT: u32 = 3;

/// The key of `__metadata__` that holds our JSON: one key, so that the file's bytes do not depend on
/// the order of a map.
const KEY: &str = "eigenstream";

/// Stands for the checksum while it is computed.
const NO_CHECKSUM: &str = "0000000000000000";

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
struct Document {
    format: u32,
    kind: String,
    checksum: String,
    #[serde(flatten)]
    header: Header,
}

/// Read first, because a newer document may not parse as ours.
#[derive(Deserialize)]
struct Version {
    format: u32,
    kind: Option<String>,
}

impl Model {
    /// Writes the model: temporary file, sync, rename.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        let mut staged = StagedFile::create(path)?;
        staged.file().write_all(&bytes).map_err(Error::io("write", path))?;
        staged.commit()
    }

    /// Reads a model.
    pub fn load(path: &Path) -> Result<Model> {
        let bytes = std::fs::read(path).map_err(Error::io("open", path))?;
        Model::from_bytes(&bytes).map_err(|problem| Error::model(path, problem))
    }

    /// The file's bytes: a function of the model alone.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let blank = Document { format: FORMAT, kind: "model".into(), checksum: NO_CHECKSUM.into(), header: self.header.clone() };
        let blank = serde_json::to_string(&blank).map_err(|e| Error::Internal(format!("model header: {e}")))?;
        let tensors = self.tensors();
        let json =
            blank.replacen(NO_CHECKSUM, &checksum(&blank, tensors.iter().map(|(name, _, data)| (*name, data.as_slice()))), 1);
        let failed = |e: safetensors::SafeTensorError| Error::Internal(format!("model file: {e}"));
        let views = tensors
            .iter()
            .map(|(name, shape, data)| Ok((*name, TensorView::new(Dtype::F64, shape.clone(), data).map_err(failed)?)))
            .collect::<Result<Vec<_>>>()?;
        safetensors::serialize(views, Some(HashMap::from([(KEY.to_string(), json)]))).map_err(failed)
    }

    /// Names, shapes and bytes.
    fn tensors(&self) -> Vec<(&'static str, Vec<usize>, Vec<u8>)> {
        let vector = |name, v: &Array1<f64>| (name, vec![v.len()], le_bytes(v.iter()));
        let matrix = |name, m: &Array2<f64>| (name, m.shape().to_vec(), le_bytes(m.iter()));
        let mut tensors =
            vec![vector("mean", &self.mean), vector("eigenvalues", &self.eigenvalues), vector("constants", &self.constants)];
        match &self.map {
            Map::Linear(components) => tensors.push(matrix("components", components)),
            Map::Kernel(map) => {
                match &map.basis {
                    Basis::Rows { rows, .. } => tensors.push(matrix("train_rows", rows)),
                    Basis::Fourier(Fourier { omega, phase }) => tensors.extend([matrix("omega", omega), vector("phase", phase)]),
                }
                tensors.extend([matrix("coefficients", &map.coefficients), vector("offset", &map.offset)]);
                tensors.push(vector("mean_coefficients", &map.mean));
                tensors.extend(map.kernel_means.iter().map(|m| vector("kernel_means", m)));
            }
        }
        tensors.extend(self.variances.iter().map(|v| vector("variances", v)));
        tensors.extend(self.feature_scores.iter().map(|v| vector("feature_scores", v)));
        tensors.extend(self.scale.iter().map(|v| vector("scale", v)));
        tensors.extend(self.unit_mean.iter().map(|v| vector("unit_mean", v)));
        if let Some(Ridge { anchors, coefficients, mean, .. }) = &self.preimage {
            tensors.extend([matrix("preimage_anchors", anchors), matrix("preimage_coefficients", coefficients)]);
            tensors.push(vector("preimage_mean", mean));
        }
        tensors
    }

    /// Reads the bytes of a model file; the error is what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Model, String> {
        let no_model = |why: String| format!("is not an eigenstream model ({why}); make one with eigenstream fit");
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| no_model(e.to_string()))?;
        let json = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
        let json = json.ok_or_else(|| no_model("it is a safetensors file without our header".into()))?;
        let version: Version = serde_json::from_str(json).map_err(|e| no_model(e.to_string()))?;
        if version.format > FORMAT {
            return Err(format!(
                "has format {}, newer than the {FORMAT} that eigenstream {} reads; use a newer eigenstream",
                version.format,
                env!("CARGO_PKG_VERSION")
            ));
        }
        if let Some(kind) = version.kind.filter(|k| k != "model") {
            return Err(no_model(format!("it holds a {kind}")));
        }
        let damaged = |why: String| format!("is damaged: {why}; fit it again");
        let document: Document = serde_json::from_str(json).map_err(|e| damaged(e.to_string()))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
        let blank = json.replacen(&document.checksum, NO_CHECKSUM, 1);
        let views = tensors.iter().collect::<Vec<_>>();
        if checksum(&blank, views.iter().map(|(name, view)| (*name, view.data()))) != document.checksum {
            return Err(damaged("its checksum does not fit its content".into()));
        }
        let model = assemble(document.header, &tensors).map_err(damaged)?;
        Ok(model)
    }
}

fn assemble(header: Header, tensors: &SafeTensors<'_>) -> std::result::Result<Model, String> {
    let vector = |name: &str| tensor(tensors, name).map(|(_, data)| Array1::from_vec(data));
    let matrix = |name: &str| {
        let (shape, data) = tensor(tensors, name)?;
        let [rows, columns] = shape[..] else { return Err(format!("{name} is not a matrix")) };
        Array2::from_shape_vec((rows, columns), data).map_err(|e| e.to_string())
    };
    let has = |name: &str| tensors.tensor(name).is_ok();
    let optional = |name: &str| has(name).then(|| vector(name)).transpose();
    let map = match &header.kernel {
        Some(report) if has("coefficients") => {
            let basis = match has("omega") {
                true => Basis::Fourier(Fourier { omega: matrix("omega")?, phase: vector("phase")? }),
                false => Basis::Rows { kernel: report.kernel, rows: matrix("train_rows")? },
            };
            Map::Kernel(Box::new(KernelMap {
                basis,
                coefficients: matrix("coefficients")?,
                offset: vector("offset")?,
                kernel_means: optional("kernel_means")?,
                mean: vector("mean_coefficients")?,
                grand_mean: report.grand_mean,
            }))
        }
        _ => Map::Linear(matrix("components")?),
    };
    let preimage = header.kernel.as_ref().and_then(|k| k.preimage.as_ref()).map(|report| {
        let (anchors, coefficients) = (matrix("preimage_anchors")?, matrix("preimage_coefficients")?);
        Ok::<_, String>(Ridge { anchors, coefficients, mean: vector("preimage_mean")?, gamma: report.gamma })
    });
    let model = Model {
        feature_scores: optional("feature_scores")?,
        variances: optional("variances")?,
        unit_mean: optional("unit_mean")?,
        preimage: preimage.transpose()?,
        mean: vector("mean")?,
        eigenvalues: vector("eigenvalues")?,
        constants: vector("constants")?,
        scale: if header.standardize { Some(vector("scale")?) } else { None },
        map,
        header,
    };
    check(&model)?;
    Ok(model)
}

/// The shapes of a kernel map, and what its numbers may be.
fn check_kernel(map: &KernelMap, d: usize) -> std::result::Result<(), String> {
    let m = map.basis.len();
    let (k, columns) = map.coefficients.dim();
    let (phases, random) = match &map.basis {
        Basis::Fourier(fourier) => (fourier.phase.len(), fourier.omega.ncols()),
        Basis::Rows { .. } => (m, m),
    };
    let means = map.kernel_means.as_ref().map_or(m, |v| v.len());
    if (map.basis.width(), columns, map.offset.len(), map.mean.len(), means) != (d, m, k, m, m) || phases != random {
        return Err("its rows, coefficients and means do not go together".into());
    }
    let basis: Box<dyn Iterator<Item = &f64>> = match &map.basis {
        Basis::Fourier(fourier) => Box::new(fourier.omega.iter().chain(&fourier.phase)),
        Basis::Rows { rows, .. } => Box::new(rows.iter()),
    };
    let numbers = basis.chain(&map.coefficients).chain(&map.offset).chain(&map.mean).chain(map.kernel_means.iter().flatten());
    let gamma = match &map.basis {
        Basis::Rows { kernel, .. } => kernel.gamma().unwrap_or(1.0),
        Basis::Fourier(_) => 1.0,
    };
    if !numbers.chain([&map.grand_mean, &gamma]).all(|v| v.is_finite()) || gamma <= 0.0 {
        return Err("it holds numbers that are not finite".into());
    }
    Ok(())
}

/// A header and tensors that contradict each other must not reach the arithmetic.
fn check(model: &Model) -> std::result::Result<(), String> {
    let header = &model.header;
    let d = match &model.map {
        Map::Linear(components) => components.ncols(),
        Map::Kernel(map) => {
            check_kernel(map, model.mean.len())?;
            model.mean.len()
        }
    };
    for features in [&header.features, &header.columns] {
        let fits = |c: &crate::source::FeatureColumn| match (&c.elements, c.width) {
            (Some(elements), Some(width)) => elements.iter().all(|e| *e < width),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !features.columns.iter().all(fits) {
            return Err("an element of a vector column is beyond its width".into());
        }
    }
    let agree = [
        ("mean", model.mean.len(), d),
        ("features", header.features.len(), d),
        ("scale", model.scale.as_ref().map_or(d, |s| s.len()), d),
        ("unit_mean", model.unit_mean.as_ref().map_or(d, |s| s.len()), d),
        ("constants", model.constants.len(), header.left_out.len()),
        (
            "feature_scores",
            model.feature_scores.as_ref().map_or(0, |s| s.len()),
            header.selection.scoring.as_ref().map_or(0, |s| s.candidates.len()),
        ),
        ("variances", model.variances.as_ref().map_or(model.n_components(), |v| v.len()), model.n_components()),
        ("columns", header.columns.len(), d + header.left_out.len()),
    ];
    for (what, found, expected) in agree {
        if found != expected {
            return Err(format!("{what} has {found} entries where {expected} are expected"));
        }
    }
    let k = model.n_components();
    let known = model.eigenvalues.len();
    // A kernel has as many eigenvalues as rows, or labels.
    let most = if model.kernel_map().is_some() { usize::MAX } else { d };
    if k != header.selection.kept || k > header.rank.unwrap_or(k) || header.rank.unwrap_or(k) > known || k > known || known > most
    {
        return Err("its components, rank, eigenvalues and features do not go together".into());
    }
    let numbers =
        model.mean.iter().chain(model.components().into_iter().flatten()).chain(&model.eigenvalues).chain(&model.constants);
    if !numbers.chain(model.scale.iter().flatten()).chain(model.variances.iter().flatten()).all(|v| v.is_finite()) {
        return Err("it holds numbers that are not finite".into());
    }
    if let Some(Ridge { anchors, coefficients, mean, gamma }) = &model.preimage {
        let shapes = (anchors.ncols(), coefficients.dim(), mean.len()) == (k, (anchors.nrows(), d), d);
        let finite = anchors.iter().chain(coefficients).chain(mean).chain([gamma]).all(|v| v.is_finite());
        if !shapes || !finite {
            return Err("its pre-image does not go with its components".into());
        }
    }
    let unit_mean = model.is_normalized() && model.components().is_some();
    if unit_mean != model.unit_mean.is_some() || !model.unit_mean.iter().flatten().all(|v| v.is_finite()) {
        return Err("the mean of its unit rows is missing or out of place".into());
    }
    if model.scale.iter().flatten().any(|s| *s <= 0.0) || header.degrees_of_freedom.is_nan() || header.degrees_of_freedom <= 0.0 {
        return Err("a scale or the degrees of freedom is not positive".into());
    }
    Ok(())
}

fn tensor(tensors: &SafeTensors<'_>, name: &str) -> std::result::Result<(Vec<usize>, Vec<f64>), String> {
    let view = tensors.tensor(name).map_err(|_| format!("tensor '{name}' is missing"))?;
    if view.dtype() != Dtype::F64 {
        return Err(format!("tensor '{name}' is {:?} where F64 is expected", view.dtype()));
    }
    let data = view.data().chunks_exact(8).map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]));
    Ok((view.shape().to_vec(), data.collect()))
}

fn le_bytes<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<u8> {
    values.flat_map(|v| v.to_le_bytes()).collect()
}
