//! A model as one safetensors file.
//!
//! Tensors, all f64 little-endian: `mean` (d), `scale` (d, if any), `components` (k × d; of a kernel model those below),
//! `eigenvalues`, `constants`, `variances` (k, if any),
//! `feature_scores` (one per scored feature, if any), `unit_mean` (d, of the cosine kernel). A kernel model has
//! `train_rows` (m × d) or `omega` (d × m) and `phase` (m), `coefficients` (k × m), `offset` (k), `mean_coefficients` (m),
//! `kernel_means` (m, if all pairs were seen); a learned pre-image `preimage_anchors`, `preimage_coefficients` and
//! `preimage_mean`. The header is [`super::Header`]; the
//! container is that of [`super::container`]. A file whose shapes do not fit is refused.

use super::container::{self, Content, Named, Tensors, matrix, vector};
use super::{Header, Model, Projection};
use crate::error::{Error, Result};
use crate::kernel::{Basis, Fourier, KernelMap, Ridge};
use std::path::Path;

impl Model {
    /// Writes the model: temporary file, sync, rename.
    pub fn save(&self, path: &Path) -> Result<()> {
        container::save(path, &self.to_bytes()?)
    }

    /// Reads a model.
    pub fn load(path: &Path) -> Result<Model> {
        let bytes = std::fs::read(path).map_err(Error::io("open", path))?;
        Model::from_bytes(&bytes).map_err(|problem| Error::model(path, problem))
    }

    /// The file's bytes: a function of the model alone.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        container::to_bytes(Content::Model, &self.header, &self.tensors())
    }

    /// Reads the bytes of a model file; the error is what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Model, String> {
        let (header, tensors) = container::open(Content::Model, bytes)?;
        assemble(header, &tensors).map_err(|why| container::damage(Content::Model, &why))
    }

    /// Names, shapes and bytes.
    fn tensors(&self) -> Vec<Named> {
        let mut tensors = vec![
            vector("mean", &self.mean),
            vector("eigenvalues", &self.eigenvalues),
            vector("constants", &self.constants),
        ];
        match &self.map {
            Projection::Linear(components) => tensors.push(matrix("components", components)),
            Projection::Kernel(map) => {
                match &map.basis {
                    Basis::Rows { rows, .. } => tensors.push(matrix("train_rows", rows)),
                    Basis::Fourier(Fourier { omega, phase }) => {
                        tensors.extend([matrix("omega", omega), vector("phase", phase)])
                    }
                }
                tensors.extend([
                    matrix("coefficients", &map.coefficients),
                    vector("offset", &map.offset),
                ]);
                tensors.push(vector("mean_coefficients", &map.mean));
                tensors.extend(map.kernel_means.iter().map(|m| vector("kernel_means", m)));
            }
        }
        tensors.extend(self.variances.iter().map(|v| vector("variances", v)));
        tensors.extend(self.feature_scores.iter().map(|v| vector("feature_scores", v)));
        tensors.extend(self.scale.iter().map(|v| vector("scale", v)));
        tensors.extend(self.unit_mean.iter().map(|v| vector("unit_mean", v)));
        if let Some(Ridge { anchors, coefficients, mean, .. }) = &self.preimage {
            tensors.extend([
                matrix("preimage_anchors", anchors),
                matrix("preimage_coefficients", coefficients),
            ]);
            tensors.push(vector("preimage_mean", mean));
        }
        tensors
    }
}

fn assemble(header: Header, tensors: &Tensors<'_>) -> std::result::Result<Model, String> {
    let map = match &header.kernel {
        Some(report) if tensors.has("coefficients") => {
            let basis = match tensors.has("omega") {
                true => Basis::Fourier(Fourier {
                    omega: tensors.matrix("omega")?,
                    phase: tensors.vector("phase")?,
                }),
                false => Basis::Rows { kernel: report.kernel, rows: tensors.matrix("train_rows")? },
            };
            Projection::Kernel(Box::new(KernelMap {
                basis,
                coefficients: tensors.matrix("coefficients")?,
                offset: tensors.vector("offset")?,
                kernel_means: tensors.optional("kernel_means")?,
                mean: tensors.vector("mean_coefficients")?,
                grand_mean: report.grand_mean,
            }))
        }
        _ => Projection::Linear(tensors.matrix("components")?),
    };
    let preimage = header.kernel.as_ref().and_then(|k| k.preimage.as_ref()).map(|report| {
        let (anchors, coefficients) =
            (tensors.matrix("preimage_anchors")?, tensors.matrix("preimage_coefficients")?);
        Ok::<_, String>(Ridge {
            anchors,
            coefficients,
            mean: tensors.vector("preimage_mean")?,
            gamma: report.gamma,
        })
    });
    let model = Model {
        feature_scores: tensors.optional("feature_scores")?,
        variances: tensors.optional("variances")?,
        unit_mean: tensors.optional("unit_mean")?,
        preimage: preimage.transpose()?,
        mean: tensors.vector("mean")?,
        eigenvalues: tensors.vector("eigenvalues")?,
        constants: tensors.vector("constants")?,
        scale: if header.standardize { Some(tensors.vector("scale")?) } else { None },
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
    if (map.basis.width(), columns, map.offset.len(), map.mean.len(), means) != (d, m, k, m, m)
        || phases != random
    {
        return Err("its rows, coefficients and means do not go together".into());
    }
    let basis: Box<dyn Iterator<Item = &f64>> = match &map.basis {
        Basis::Fourier(fourier) => Box::new(fourier.omega.iter().chain(&fourier.phase)),
        Basis::Rows { rows, .. } => Box::new(rows.iter()),
    };
    let numbers = basis
        .chain(&map.coefficients)
        .chain(&map.offset)
        .chain(&map.mean)
        .chain(map.kernel_means.iter().flatten());
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
        Projection::Linear(components) => components.ncols(),
        Projection::Kernel(map) => {
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
        (
            "variances",
            model.variances.as_ref().map_or(model.n_components(), |v| v.len()),
            model.n_components(),
        ),
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
    if k != header.selection.kept
        || k > header.rank.unwrap_or(k)
        || header.rank.unwrap_or(k) > known
        || k > known
        || known > most
    {
        return Err("its components, rank, eigenvalues and features do not go together".into());
    }
    let numbers = model
        .mean
        .iter()
        .chain(model.components().into_iter().flatten())
        .chain(&model.eigenvalues)
        .chain(&model.constants);
    if !numbers
        .chain(model.scale.iter().flatten())
        .chain(model.variances.iter().flatten())
        .all(|v| v.is_finite())
    {
        return Err("it holds numbers that are not finite".into());
    }
    if let Some(Ridge { anchors, coefficients, mean, gamma }) = &model.preimage {
        let shapes =
            (anchors.ncols(), coefficients.dim(), mean.len()) == (k, (anchors.nrows(), d), d);
        let finite =
            anchors.iter().chain(coefficients).chain(mean).chain([gamma]).all(|v| v.is_finite());
        if !shapes || !finite {
            return Err("its pre-image does not go with its components".into());
        }
    }
    let unit_mean = model.is_normalized() && model.components().is_some();
    if unit_mean != model.unit_mean.is_some()
        || !model.unit_mean.iter().flatten().all(|v| v.is_finite())
    {
        return Err("the mean of its unit rows is missing or out of place".into());
    }
    if model.scale.iter().flatten().any(|s| *s <= 0.0)
        || header.degrees_of_freedom.is_nan()
        || header.degrees_of_freedom <= 0.0
    {
        return Err("a scale or the degrees of freedom is not positive".into());
    }
    Ok(())
}
