//! A model as one safetensors file.
//!
//! Tensors, all f64 little-endian: `mean` (d), `scale` (d, if any), `components` (k × d; of a
//! kernel model those below), `eigenvalues`, `constants`, `variances` (k, if any), `feature_scores`
//! (one per scored feature, if any), `unit_mean` (d, of the cosine kernel). A kernel model has
//! `train_rows` (m × d) or `omega` (d × m) and `phase` (m), `coefficients` (k × m), `offset` (k),
//! `mean_coefficients` (m), `kernel_means` (m, if all pairs were seen); a learned pre-image
//! `preimage_anchors`, `preimage_coefficients` and `preimage_mean`. The header is
//! [`super::Header`]; the container is that of [`super::container`]. A file whose shapes or lengths
//! do not fit is refused (`check`).

use super::check::check;
use super::container::{self, Content, Named, Tensors, matrix, vector};
use super::{Header, Model, Projection};
use crate::error::{Error, Result};
use crate::kernel::{Basis, Fourier, KernelMap, Ridge};
use std::path::Path;

impl Model {
    /// Writes the model: temporary file, sync, rename.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        container::save(path.as_ref(), &self.to_bytes()?)
    }

    /// Reads a model.
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let bytes = container::read(Content::Model, path)?;
        Model::opened(&bytes).map_err(|problem| Error::model(path, problem))
    }

    /// The file's bytes: a function of the model alone.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        container::to_bytes(Content::Model, &self.header, &self.tensors())
    }

    /// Reads the bytes of a model file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        Model::opened(bytes).map_err(|problem| Error::model(Path::new("model"), problem))
    }

    /// The same; the error is what is wrong with them.
    fn opened(bytes: &[u8]) -> std::result::Result<Model, String> {
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
        match &self.projection {
            Projection::Linear(components) => tensors.push(matrix("components", components)),
            Projection::Kernel(map) => {
                match &map.basis {
                    Basis::Given { .. } => {}
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
    let projection = match &header.kernel {
        Some(report) if tensors.has("coefficients") => {
            let kernel = report.kernel;
            let basis = match tensors.has("omega") {
                true => Basis::Fourier(Fourier {
                    omega: tensors.matrix("omega")?,
                    phase: tensors.vector("phase")?,
                }),
                false if kernel.kind().is_given() => Basis::Given { kernel, rows: report.rows },
                false => Basis::Rows { kernel, rows: tensors.matrix("train_rows")? },
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
        projection,
        header,
    };
    check(&model)?;
    Ok(model)
}
