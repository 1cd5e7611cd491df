//! Labels, and the kernel over them.

use super::numbers::{degree, finite, positive};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::fit::bounds::MOST_LABEL_FEATURES;
use crate::fit::{GivenLabels, LabelOptions, read_kernel_matrix};
use crate::listen::Listener;
use crate::solve::supervised::LabelKernel;
use crate::source::Dataset;
use crate::words::path_text;
use clap::Args;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// The kernel over labels. Shared by `plan`, `fit` and `hsic`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LabelArgs {
    /// Kernel over the labels. Default: delta for strings, bools and --classes, linear for numbers.
    #[arg(long, value_enum)]
    pub(crate) label_kernel: Option<LabelKernel>,

    /// Gamma over labels: of rbf, exp(-gamma ‖y - y'‖²), and of poly, (gamma yᵀy' + coef0)^degree.
    /// Default: 1 over the number of label columns.
    #[arg(long, value_name = "G", value_parser = positive, allow_negative_numbers = true)]
    pub(crate) label_gamma: Option<f64>,

    /// coef0 of poly over labels, 0 or more. Default: 0.
    #[arg(long, value_name = "C", value_parser = finite, allow_negative_numbers = true)]
    pub(crate) label_coef0: Option<f64>,

    /// Degree of poly over labels. Default: 3.
    #[arg(long, value_name = "N", value_parser = degree, allow_negative_numbers = true)]
    pub(crate) label_degree: Option<u32>,

    /// Of --label-kernel precomputed: Parquet with the matrix of the kernel over labels, n rows of
    /// n numbers in the order of the data.
    #[arg(long, value_name = "DATA")]
    pub(crate) label_data: Vec<OsString>,

    /// Numeric labels are classes: equal or not.
    #[arg(long)]
    pub(crate) classes: bool,

    /// Random Fourier features that stand for the rbf kernel over labels. Default: none up to 1000
    /// distinct labels, 1000 where there are more.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=MOST_LABEL_FEATURES as i64)
    )]
    pub(crate) label_features: Option<u32>,
}

impl LabelArgs {
    /// What was typed, as the library takes it; a matrix that is given is read.
    pub(crate) fn options(
        &self,
        columns: Vec<String>,
        memory: Option<Bytes>,
        listener: &dyn Listener,
    ) -> Result<LabelOptions> {
        Ok(LabelOptions {
            columns,
            kernel: self.label_kernel,
            gamma: self.label_gamma,
            coef0: self.label_coef0,
            degree: self.label_degree,
            classes: self.classes,
            features: self.label_features.map(|n| n as usize),
            given: self.given(memory, listener)?,
            ..LabelOptions::default()
        })
    }

    fn given(&self, memory: Option<Bytes>, listener: &dyn Listener) -> Result<Option<GivenLabels>> {
        if self.label_data.is_empty() {
            return Ok(None);
        }
        if self.label_kernel != Some(LabelKernel::Precomputed) {
            return Error::misuse(
                "--label-data is the matrix of --label-kernel precomputed; name it",
            );
        }
        let matrix = read_kernel_matrix(&Dataset::from_paths(&self.label_data)?, memory, listener)?;
        let names: Vec<String> =
            self.label_data.iter().map(|path| path_text(Path::new(path))).collect();
        Ok(Some(GivenLabels { name: names.join(", "), matrix: Arc::new(matrix) }))
    }
}
