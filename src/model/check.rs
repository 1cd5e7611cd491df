//! A header and tensors that contradict each other must not reach the arithmetic, nor a report.
//!
//! Enters: a model as it was read. Leaves: what is wrong with it, in words. Every length that is
//! indexed by, or zipped with, another is held against it here.

use super::{Header, KernelReport, LabelReport, Model, Projection};
use crate::kernel::{Basis, KernelMap, Ridge};
use crate::source::{FeatureColumn, Features};

/// What is wrong with a file.
type Checked = std::result::Result<(), String>;

pub(super) fn check(model: &Model) -> Checked {
    let header = &model.header;
    let d = match &model.projection {
        Projection::Linear(components) => components.ncols(),
        Projection::Kernel(map) => {
            check_kernel(map, model.mean.len())?;
            model.mean.len()
        }
    };
    [&header.features, &header.columns].into_iter().try_for_each(check_elements)?;
    check_lengths(model, d)?;
    check_spectrum(model, d)?;
    check_certificate(header, model.n_components())?;
    if let Some(label) = &header.label {
        check_label(label, header, model.n_components())?;
    }
    if let Some(kernel) = &header.kernel {
        check_kernel_report(kernel, model)?;
    }
    check_numbers(model)?;
    check_preimage(model, d)
}

fn agree(what: &str, found: usize, expected: usize) -> Checked {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} has {found} entries where {expected} are expected")),
    }
}

fn finite<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> Checked {
    match numbers.into_iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err("it holds numbers that are not finite".into()),
    }
}

/// Elements of vector columns are within their width.
fn check_elements(features: &Features) -> Checked {
    let fits = |c: &FeatureColumn| match (&c.elements, c.width) {
        (Some(elements), Some(width)) => elements.iter().all(|e| *e < width),
        (Some(_), None) => false,
        (None, _) => true,
    };
    match features.columns.iter().all(fits) {
        true => Ok(()),
        false => Err("an element of a vector column is beyond its width".into()),
    }
}

/// The tensors that go by features or components.
fn check_lengths(model: &Model, d: usize) -> Checked {
    let (header, k) = (&model.header, model.n_components());
    let scored = header.selection.scoring.as_ref();
    let length =
        |v: &Option<ndarray::Array1<f64>>, none: usize| v.as_ref().map_or(none, |v| v.len());
    agree("mean", model.mean.len(), d)?;
    agree("features", header.features.len(), d)?;
    agree("scale", length(&model.scale, d), d)?;
    agree("unit_mean", length(&model.unit_mean, d), d)?;
    agree("constants", model.constants.len(), header.left_out.len())?;
    let candidates = scored.map_or(0, |s| s.candidates.len());
    agree("feature_scores", length(&model.feature_scores, 0), candidates)?;
    agree("variances", length(&model.variances, k), k)?;
    agree("columns", header.columns.len(), d.saturating_add(header.left_out.len()))?;
    match scored.is_some_and(|s| s.kept > candidates) {
        true => Err("more features were kept by their scores than there were".into()),
        false => Ok(()),
    }
}

/// Components, rank and eigenvalues.
fn check_spectrum(model: &Model, d: usize) -> Checked {
    let (header, k, known) = (&model.header, model.n_components(), model.eigenvalues.len());
    // A kernel has as many eigenvalues as rows, or labels.
    let most = if model.kernel_map().is_some() { usize::MAX } else { d };
    let rank = header.rank.unwrap_or(k);
    match k == header.selection.kept && k <= rank && rank <= known && k <= known && known <= most {
        true => Ok(()),
        false => Err("its components, rank, eigenvalues and features do not go together".into()),
    }
}

/// What an iteration tells of each component.
fn check_certificate(header: &Header, k: usize) -> Checked {
    let Some(iteration) = &header.certificate.iteration else { return Ok(()) };
    agree("iteration.residuals", iteration.residuals.len(), k)?;
    agree("iteration.eigenvalue_errors", iteration.eigenvalue_errors.len(), k)?;
    match iteration.unconverged.iter().all(|i| (1..=k).contains(i)) {
        true => Ok(()),
        false => Err("a component that missed its tolerance is not there".into()),
    }
}

/// What labels tell of each component.
fn check_label(label: &LabelReport, header: &Header, k: usize) -> Checked {
    if !header.method.is_supervised() {
        return Err("it has labels, but its method takes none".into());
    }
    agree("label.hsic_share", label.hsic_share.len(), k)?;
    if label.n_classes.is_some_and(|n| n < label.classes.len()) {
        return Err("it has more classes than it says".into());
    }
    for class in &label.classes {
        agree("a class's centroid", class.centroid.len(), k)?;
        agree("a class", class.class.len(), label.columns.len())?;
    }
    Ok(())
}

/// What the header tells of the kernel, against the map.
fn check_kernel_report(report: &KernelReport, model: &Model) -> Checked {
    if !model.header.method.is_kernel() {
        return Err("it has a kernel, but its method takes none".into());
    }
    if let Some(KernelMap { basis: basis @ Basis::Rows { .. }, .. }) = model.kernel_map() {
        agree("kernel.rows", basis.len(), report.rows)?;
    }
    let basis = model.kernel_map().map(|map| map.basis.len());
    let Some((approximation, size)) = report.approximation.as_ref().zip(basis) else {
        return Ok(());
    };
    agree("kernel.approximation", size, approximation.size)?;
    match approximation.rank <= approximation.size {
        true => Ok(()),
        false => Err("what stands for its kernel has a larger rank than size".into()),
    }
}

/// The shapes of a kernel map, and what its numbers may be.
fn check_kernel(map: &KernelMap, d: usize) -> Checked {
    let m = map.basis.len();
    let (k, columns) = map.coefficients.dim();
    let (phases, random) = match &map.basis {
        Basis::Fourier(fourier) => (fourier.phase.len(), fourier.omega.ncols()),
        Basis::Rows { .. } | Basis::Given { .. } => (m, m),
    };
    let means = map.kernel_means.as_ref().map_or(m, |v| v.len());
    if (map.basis.width(), columns, map.offset.len(), map.mean.len(), means) != (d, m, k, m, m)
        || phases != random
    {
        return Err("its rows, coefficients and means do not go together".into());
    }
    let gamma = match &map.basis {
        Basis::Fourier(fourier) => {
            finite(fourier.omega.iter().chain(&fourier.phase))?;
            1.0
        }
        Basis::Given { .. } => 1.0,
        Basis::Rows { kernel, rows } => {
            finite(rows)?;
            kernel.gamma().unwrap_or(1.0)
        }
    };
    finite(map.coefficients.iter().chain(&map.offset).chain(&map.mean))?;
    finite(map.kernel_means.iter().flatten().chain([&map.grand_mean, &gamma]))?;
    match gamma > 0.0 {
        true => Ok(()),
        false => Err("it holds numbers that are not finite".into()),
    }
}

/// What the numbers may be.
fn check_numbers(model: &Model) -> Checked {
    finite(model.mean.iter().chain(model.components().into_iter().flatten()))?;
    finite(model.eigenvalues.iter().chain(&model.constants))?;
    finite(model.scale.iter().flatten().chain(model.variances.iter().flatten()))?;
    let unit_mean = model.is_normalized() && model.components().is_some();
    if unit_mean != model.unit_mean.is_some() || finite(model.unit_mean.iter().flatten()).is_err() {
        return Err("the mean of its unit rows is missing or out of place".into());
    }
    let freedom = model.header.degrees_of_freedom;
    if model.scale.iter().flatten().any(|s| *s <= 0.0) || freedom.is_nan() || freedom <= 0.0 {
        return Err("a scale or the degrees of freedom is not positive".into());
    }
    Ok(())
}

/// A learned way back goes from k scores to d features.
fn check_preimage(model: &Model, d: usize) -> Checked {
    let Some(Ridge { anchors, coefficients, mean, gamma }) = &model.preimage else { return Ok(()) };
    let shapes = (anchors.ncols(), coefficients.dim(), mean.len())
        == (model.n_components(), (anchors.nrows(), d), d);
    match shapes && finite(anchors.iter().chain(coefficients).chain(mean).chain([gamma])).is_ok() {
        true => Ok(()),
        false => Err("its pre-image does not go with its components".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClassReport, Method, Provenance};
    use super::*;
    use crate::accumulate::{Accumulate, Covariance};
    use crate::solve::supervised::LabelKernel;
    use crate::solve::{Iteration, Scaling, rules::Components, solve};
    use crate::source::block::Precision;
    use crate::source::labels::ClassValue;
    use crate::source::{Block, Nulls, Tally};
    use ndarray::Array2;

    /// Two components of three features, with labels.
    fn delta_label() -> LabelReport {
        let class = |name: &str| ClassReport {
            class: vec![ClassValue::Text(name.into())],
            weight: 4.5,
            centroid: vec![1.0, 2.0],
        };
        LabelReport {
            columns: vec!["species".into()],
            kernel: LabelKernel::Delta,
            gamma: None,
            coef0: None,
            degree: None,
            features: None,
            approximation: None,
            n_classes: Some(2),
            classes: vec![class("a"), class("b")],
            hsic_share: vec![0.7, 0.3],
            unlabelled: 0,
        }
    }

    fn model() -> Model {
        let x = Array2::from_shape_fn((9, 3), |(i, j)| ((i * 7 + j * 5 + i * j) % 11) as f64);
        let mut sums = Covariance::new(3);
        sums.update(Block::dense(x));
        let scaling = Scaling { center: true, standardize: false };
        let (moments, solution) =
            solve(sums.finish(), scaling, Components::Count(2), 1).expect("nine rows");
        let column = |name: &str| FeatureColumn {
            name: name.into(),
            value: "Float64".into(),
            width: None,
            elements: None,
        };
        let from = Provenance {
            columns: Features { columns: ["x", "y", "z"].map(column).to_vec() },
            asked: Components::Count(2),
            scaling,
            nulls: Nulls::Error,
            weight: None,
            precision: Precision::Exact,
            seed: None,
            method: Method::Spca,
            label: Some(delta_label()),
            hsic: Some(1.0),
            kernel: None,
            total_variance: None,
            variances: None,
            scoring: None,
            feature_scores: None,
            ledger: Vec::new(),
            tally: Tally::default(),
        };
        Model::new(&moments, solution, from)
    }

    fn refused(change: impl FnOnce(&mut Header)) -> String {
        let mut model = model();
        change(&mut model.header);
        let bytes = model.to_bytes().expect("any header can be written");
        Model::from_bytes(&bytes).expect_err("a header that contradicts the numbers").to_string()
    }

    fn label(header: &mut Header) -> &mut LabelReport {
        header.label.as_mut().expect("a supervised model")
    }

    #[test]
    fn a_model_comes_back() {
        let bytes = model().to_bytes().unwrap();
        assert_eq!(Model::from_bytes(&bytes).unwrap().to_bytes().unwrap(), bytes);
    }

    #[test]
    fn lengths_in_the_header_are_checked() {
        assert!(refused(|h| label(h).hsic_share.truncate(1)).contains("label.hsic_share has 1"));
        assert!(refused(|h| label(h).classes[1].centroid.clear()).contains("centroid has 0"));
        assert!(refused(|h| label(h).classes[0].class.clear()).contains("a class has 0"));
        assert!(refused(|h| label(h).n_classes = Some(1)).contains("more classes"));
        assert!(refused(|h| h.method = Method::Pca).contains("takes none"));
        assert!(refused(|h| h.selection.kept = 3).contains("do not go together"));
        assert!(refused(|h| h.left_out.push("w".into())).contains("constants has 0"));
        let short = Iteration {
            passes: 1,
            tolerance: 1e-6,
            eigenvalue_errors: vec![0.0; 2],
            residuals: vec![0.0],
            unconverged: vec![],
        };
        let missed = Iteration { residuals: vec![0.0; 2], unconverged: vec![3], ..short.clone() };
        let residuals = refused(|h| h.certificate.iteration = Some(short));
        assert!(residuals.contains("iteration.residuals has 1"), "{residuals}");
        assert!(refused(|h| h.certificate.iteration = Some(missed)).contains("tolerance"));
    }

    #[test]
    fn old_models_stay_readable() {
        let mut dirs = vec![std::path::PathBuf::from("fixtures/models")];
        let mut read = 0;
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("the models of old versions") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|e| e == "safetensors") {
                    Model::load(&path).unwrap_or_else(|e| panic!("{e}"));
                    read += 1;
                }
            }
        }
        assert!(read > 0);
    }
}
