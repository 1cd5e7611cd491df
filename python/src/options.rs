//! Keyword arguments as the Python side hands them over → the library's options.
//!
//! The Python side gives every argument, `None` for what was not said; names of choices are text
//! and are the command line's.

use crate::errors::{OrRaise, exception};
use crate::model::PyModel;
use eigenstream::{
    Approximate, Bytes, ColumnOptions, Components, Compression, Dtype, Error, Fit, Form, Gamma,
    GivenBasis, GivenLabels, Hsic, IterationOptions, Keep, KeepColumns, KernelKind, KernelOptions,
    LabelKernel, LabelOptions, LandmarkChoice, Layout, Method, Model, Nulls, ParquetOutput,
    Precision, Preimage, Reconstruct, Resources, RowNulls, ScalingOptions, Scan, Score,
    ScoringOptions, Statistics, Transform,
};
use numpy::PyReadonlyArray2;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments by name.
pub(crate) struct Options<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Options<'_, 'py> {
    fn item(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// The argument, if it was given; a value of another type is told with the argument's name.
    fn get<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'x> FromPyObject<'x, 'py>,
    {
        let Some(value) = self.item(name)? else { return Ok(None) };
        match value.extract::<T>() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(wrong_type(name, &value)),
        }
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        Ok(self.get(name)?.unwrap_or(false))
    }

    /// One of a closed set, by its name.
    fn choice<T: DeserializeOwned>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.item(name)? else { return Ok(None) };
        let Ok(text) = value.extract::<String>() else { return Err(wrong_type(name, &value)) };
        let found = serde_json::from_value(serde_json::Value::String(text.clone()));
        found.map(Some).map_err(|e| {
            let expected = e.to_string();
            let expected = expected.split_once("expected ").map_or("", |(_, rest)| rest);
            PyValueError::new_err(format!("{name}={text:?}: expected {expected}"))
        })
    }

    /// One of these, by its name.
    fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(text) = self.get::<String>(name)? else { return Ok(None) };
        match known.iter().find(|(known, _)| *known == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<String> = known.iter().map(|(k, _)| format!("{k:?}")).collect();
                let known = known.join(", ");
                Err(PyValueError::new_err(format!("{name}={text:?}: expected one of {known}")))
            }
        }
    }

    /// One name or several.
    fn names(&self, name: &str) -> PyResult<Vec<String>> {
        match self.item(name)? {
            None => Ok(Vec::new()),
            Some(value) if value.is_instance_of::<PyString>() => Ok(vec![value.extract()?]),
            Some(value) => value.extract().map_err(|_| wrong_type(name, &value)),
        }
    }

    fn number(&self, name: &str) -> PyResult<Option<f64>> {
        self.get(name)
    }

    fn memory(&self) -> PyResult<Option<Bytes>> {
        match self.item("memory")? {
            None => Ok(None),
            Some(value) if value.is_instance_of::<PyString>() => {
                let text: String = value.extract()?;
                text.parse().map(Some).map_err(|e| PyValueError::new_err(format!("memory: {e}")))
            }
            Some(value) => match value.extract::<u64>() {
                Ok(bytes) => Ok(Some(Bytes(bytes))),
                Err(_) => Err(wrong_type("memory", &value)),
            },
        }
    }

    pub(crate) fn resources(&self) -> PyResult<Resources> {
        Ok(Resources {
            memory: self.memory()?,
            threads: self.get("threads")?,
            temp_dir: self.get::<PathBuf>("temp_dir")?,
        })
    }

    /// A number of components, a share of the variance, or a rule by its name.
    fn components(&self) -> PyResult<Components> {
        let Some(value) = self.item("n_components")? else { return Ok(Components::All) };
        let wrong = |e: String| PyValueError::new_err(format!("n_components: {e}"));
        if value.is_instance_of::<PyBool>() {
            return Err(wrong_type("n_components", &value));
        }
        if value.is_instance_of::<PyString>() {
            return value.extract::<String>()?.parse().map_err(wrong);
        }
        if let Ok(count) = value.extract::<i64>().and_then(|_| value.extract::<isize>()) {
            return count.to_string().parse().map_err(wrong);
        }
        match value.extract::<f64>() {
            Ok(ratio) => format!("{ratio:?}").parse().map_err(wrong),
            Err(_) => Err(wrong_type("n_components", &value)),
        }
    }

    fn columns(&self) -> PyResult<ColumnOptions> {
        let (include, exclude) = (self.names("columns")?, self.names("exclude")?);
        Ok(ColumnOptions { include, exclude, exactly: None })
    }

    fn labels(&self) -> PyResult<LabelOptions> {
        let given = match self.item("label_matrix")? {
            None => None,
            Some(value) => {
                let Ok(matrix) = value.extract::<PyReadonlyArray2<'_, f64>>() else {
                    return Err(wrong_type("label_matrix", &value));
                };
                let matrix = Arc::new(matrix.as_array().to_owned());
                Some(GivenLabels { name: "label_matrix".into(), matrix })
            }
        };
        Ok(LabelOptions {
            columns: self.names("label")?,
            kernel: self.choice::<LabelKernel>("label_kernel")?,
            gamma: self.number("label_gamma")?,
            coef0: self.number("label_coef0")?,
            degree: self.get("label_degree")?,
            features: self.get("label_features")?,
            classes: self.flag("classes")?,
            with_variance: self.flag("with_variance")?,
            given,
        })
    }

    fn kernel(&self) -> PyResult<KernelOptions> {
        let gamma = match self.item("gamma")? {
            None => None,
            Some(value) if value.is_instance_of::<PyString>() => {
                match value.extract::<String>()?.as_str() {
                    "median" => Some(Gamma::Median),
                    other => {
                        let said = format!("gamma={other:?}: expected a number or \"median\"");
                        return Err(PyValueError::new_err(said));
                    }
                }
            }
            Some(value) => {
                Some(Gamma::Value(value.extract().map_err(|_| wrong_type("gamma", &value))?))
            }
        };
        Ok(KernelOptions {
            kind: self.choice::<KernelKind>("kernel")?,
            gamma,
            sigma: self.number("sigma")?,
            coef0: self.number("coef0")?,
            degree: self.get("degree")?,
            approximation: self.approximation()?,
            preimage: self.get::<String>("preimage")?.is_some(),
        })
    }

    fn approximation(&self) -> PyResult<Option<Approximate>> {
        let choices = [("kmeans++", LandmarkChoice::KMeans), ("uniform", LandmarkChoice::Uniform)];
        let choice = self.one_of("landmark_choice", &choices)?.unwrap_or_default();
        match (self.get::<usize>("landmarks")?, self.get::<usize>("random_features")?) {
            (None, None) => Ok(None),
            (Some(count), None) => Ok(Some(Approximate::Landmarks { count, choice })),
            (None, Some(count)) => Ok(Some(Approximate::Fourier(count))),
            (Some(_), Some(_)) => Err(PyValueError::new_err(
                "landmarks and random_features both stand for the kernel; give one",
            )),
        }
    }

    fn scoring(&self) -> PyResult<Option<ScoringOptions>> {
        let cut = (self.get::<usize>("keep_features")?, self.number("score_threshold")?);
        let Some(by) = self.get::<String>("score_by")? else {
            return match cut {
                (None, None) => Ok(None),
                _ => Err(PyValueError::new_err(
                    "keep_features and score_threshold need a label to score by; name it with \
                     score_by",
                )),
            };
        };
        let keep = match cut {
            (Some(q), None) => Keep::Features(q),
            (None, Some(least)) => Keep::Threshold(least),
            (None, None) => {
                return Err(PyValueError::new_err(
                    "score_by needs keep_features or score_threshold",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err(
                    "keep_features and score_threshold are two ways to cut; give one",
                ));
            }
        };
        let score = self.choice::<Score>("score")?.unwrap_or_default();
        Ok(Some(ScoringOptions { by, keep, score, center: self.get("score_center")? }))
    }

    fn basis(&self) -> PyResult<Option<GivenBasis>> {
        let Some(value) = self.item("basis")? else { return Ok(None) };
        if let Ok(path) = value.extract::<PathBuf>() {
            let basis = Model::load(&path).and_then(|model| GivenBasis::of(&model));
            return Ok(Some(basis.or_raise()?.from_file(&path)));
        }
        let Ok(model) = value.cast::<PyModel>() else {
            return Err(wrong_type("basis", &value));
        };
        GivenBasis::of(&model.get().model).or_raise().map(Some)
    }

    fn form(&self) -> PyResult<Option<Form>> {
        match self.get::<String>("form")?.as_deref() {
            None | Some("auto") => Ok(None),
            Some(_) => self.choice::<Form>("form"),
        }
    }

    pub(crate) fn fit(&self) -> PyResult<Fit> {
        let defaults = IterationOptions::default();
        Ok(Fit {
            method: self.choice::<Method>("method")?.unwrap_or_default(),
            form: self.form()?,
            components: self.components()?,
            basis: self.basis()?,
            columns: self.columns()?,
            scaling: ScalingOptions {
                center: self.get("center")?.unwrap_or(true),
                standardize: self.flag("standardize")?,
                center_scores: self.flag("center_scores")?,
            },
            weight: self.get("weight")?,
            nulls: self.choice::<Nulls>("nulls")?.unwrap_or_default(),
            precision: self.choice::<Precision>("precision")?.unwrap_or_default(),
            labels: self.labels()?,
            kernel: self.kernel()?,
            scoring: self.scoring()?,
            iteration: IterationOptions {
                tolerance: self.number("tolerance")?,
                max_passes: self.get("max_passes")?.unwrap_or(defaults.max_passes),
                allow_unconverged: self.flag("allow_unconverged")?,
            },
            seed: self.get("seed")?.unwrap_or_default(),
            allow_duplicates: self.flag("allow_duplicates")?,
            resources: self.resources()?,
        })
    }

    pub(crate) fn scan(&self) -> PyResult<Scan> {
        let kept = [
            ("all", Statistics::All),
            ("pca", Statistics::Covariance),
            ("spca", Statistics::Labels),
            ("pca,spca", Statistics::CovarianceAndLabels),
        ];
        Ok(Scan {
            columns: self.columns()?,
            labels: self.names("label")?,
            classes: self.flag("classes")?,
            weight: self.get("weight")?,
            nulls: self.choice::<Nulls>("nulls")?.unwrap_or_default(),
            precision: self.choice::<Precision>("precision")?.unwrap_or_default(),
            keep: self.one_of("keep", &kept)?.unwrap_or_default(),
            folds: self.get("folds")?,
            seed: self.get("seed")?.unwrap_or_default(),
            by: self.get("by")?,
            shard: None,
            resources: self.resources()?,
        })
    }

    fn keep(&self) -> PyResult<KeepColumns> {
        match self.item("keep")? {
            None => Ok(KeepColumns::None),
            Some(value) if value.extract::<String>().is_ok_and(|text| text == "all") => {
                Ok(KeepColumns::All)
            }
            Some(_) => Ok(KeepColumns::Columns(self.names("keep")?)),
        }
    }

    fn row_nulls(&self) -> PyResult<Option<RowNulls>> {
        let known = [
            ("error", RowNulls::Error),
            ("drop", RowNulls::Drop),
            ("mean", RowNulls::Mean),
            ("null", RowNulls::Null),
        ];
        self.one_of("nulls", &known)
    }

    fn dtype(&self) -> PyResult<Dtype> {
        Ok(self.one_of("dtype", &[("f64", Dtype::F64), ("f32", Dtype::F32)])?.unwrap_or_default())
    }

    pub(crate) fn transform(&self) -> PyResult<Transform> {
        let layouts = [("columns", Layout::Columns), ("list", Layout::List)];
        let defaults = Transform::default();
        Ok(Transform {
            components: self.get("n_components")?,
            keep: self.keep()?,
            layout: self.one_of("layout", &layouts)?.unwrap_or_default(),
            dtype: self.dtype()?,
            prefix: self.get("prefix")?.unwrap_or(defaults.prefix),
            diagnostics: self.flag("diagnostics")?,
            residuals: self.flag("residuals")?,
            whiten: self.flag("whiten")?,
            by_position: self.flag("by_position")?,
            shard: None,
            nulls: self.row_nulls()?,
            resources: self.resources()?,
        })
    }

    pub(crate) fn reconstruct(&self) -> PyResult<Reconstruct> {
        let ways = [("fixed-point", Preimage::FixedPoint), ("ridge", Preimage::Ridge)];
        let defaults = Reconstruct::default();
        Ok(Reconstruct {
            components: self.get("n_components")?,
            keep: self.keep()?,
            dtype: self.dtype()?,
            prefix: self.get("prefix")?.unwrap_or(defaults.prefix),
            from_scores: self.flag("from_scores")?,
            whitened: self.flag("whiten")?,
            by_position: self.flag("by_position")?,
            preimage: self.one_of("preimage", &ways)?,
            nulls: self.row_nulls()?,
            resources: self.resources()?,
        })
    }

    pub(crate) fn hsic(&self) -> PyResult<Hsic> {
        Ok(Hsic {
            labels: self.labels()?,
            kernel: self.kernel()?,
            columns: self.columns()?,
            standardize: self.flag("standardize")?,
            weight: self.get("weight")?,
            nulls: self.choice::<Nulls>("nulls")?.unwrap_or_default(),
            exact: self.flag("exact")?,
            permutations: self.get("permutations")?.unwrap_or_default(),
            seed: self.get("seed")?.unwrap_or_default(),
            allow_duplicates: self.flag("allow_duplicates")?,
            resources: self.resources()?,
        })
    }

    pub(crate) fn output(&self, path: PathBuf) -> PyResult<ParquetOutput> {
        let known = [
            ("auto", Compression::Auto),
            ("zstd", Compression::Zstd),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("gzip", Compression::Gzip),
            ("none", Compression::None),
        ];
        let compression = self.one_of("compression", &known)?.unwrap_or_default();
        Ok(ParquetOutput { path, compression })
    }
}

/// What is told of a value that an argument cannot be.
fn wrong_type(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    let shown = value.repr().map_or_else(|_| kind.clone(), |r| r.to_string());
    let shown: String = shown.chars().take(60).collect();
    if value.is_instance_of::<PyFloat>() || value.extract::<i128>().is_ok() {
        return PyValueError::new_err(format!("{name}={shown} is not among what it can be"));
    }
    PyTypeError::new_err(format!("{name}={shown}: a {kind} cannot be given here"))
}

/// Refuses what the library would call misuse.
pub(crate) fn misuse(problem: &str) -> PyErr {
    exception(Error::Misuse(problem.into()))
}
