//! The sentence of each note.

use super::Note;
use crate::words::{count, five_digits, passes, products, ranges, some, thousands};

fn by_feature(counts: &[(String, u64)]) -> String {
    let each: Vec<String> =
        counts.iter().map(|(name, n)| format!("{name} ({})", thousands(*n))).collect();
    some(&each)
}

fn cells(missing: &[(String, u64)]) -> String {
    let all = count(missing.iter().map(|(_, n)| n).sum(), "missing value");
    format!("{all}: {}", by_feature(missing))
}

fn as_fitted(asked: bool) -> &'static str {
    if asked { "" } else { ", as in the fit" }
}

fn id_features(names: &[String]) -> String {
    let (is, it) = match names.len() {
        1 => ("is a feature, though its numbers look", "it"),
        _ => ("are features, though their numbers look", "them"),
    };
    format!("{} {is} like those of rows; ⟦exclude⟧ leaves {it} out", some(names))
}

fn widened(columns: &[(String, Vec<String>)], fitted: bool) -> String {
    let each = |(name, types): &(String, Vec<String>)| match (fitted, &types[..]) {
        (true, [then, now]) => format!("{name} (was {then}, is {now})"),
        _ => format!("{name} ({})", types.join(", ")),
    };
    let columns = some(&columns.iter().map(each).collect::<Vec<_>>());
    match fitted {
        true => format!("of another width than in the model, and read all the same: {columns}"),
        false => format!("of several widths, and read as one column each: {columns}"),
    }
}

fn whole_number_label(label: &str, values: &[i64], scanned: bool) -> String {
    let (first, second, last) = match values {
        [first, second, .., last] => (first, second, last),
        _ => return format!("label '{label}' is taken as a number"),
    };
    let all = some(&values.iter().map(ToString::to_string).collect::<Vec<_>>());
    let remedy = match scanned {
        true => "a scan with ⟦classes⟧ takes them as classes",
        false => "⟦classes⟧ takes them as classes",
    };
    format!(
        "label '{label}' has {} distinct whole numbers ({all}) and is taken as a number, so that \
         {first} is farther from {last} than from {second}; {remedy}",
        values.len()
    )
}

fn inaccurate(accurate: usize, wanted: usize, full: bool) -> String {
    let beyond: Vec<usize> = (accurate + 1..=wanted).collect();
    let beyond = ranges(&beyond);
    let why = match full {
        false => "products of such numbers round too much for it; ⟦precision=full⟧ does without",
        true => "they are near the rounding of the numbers themselves",
    };
    format!("eigenvalues not known to 1e-6 of their own size, components {beyond}: {why}")
}

fn mixed_labels(numbers: &[String], classes: &[String], combined: bool) -> String {
    let (numbers, classes) = (some(numbers), some(classes));
    match combined {
        true => format!(
            "labels {classes} (text) and {numbers} (a number) are read together as classes: rows \
             are of one class where all of them are equal"
        ),
        false => format!("of the labels, {classes} is read as classes and {numbers} as a number"),
    }
}

impl Note {
    /// The sentence, options marked for [`crate::error::phrase`].
    pub fn sentence(&self) -> String {
        self.about_data()
            .or_else(|| self.about_incomplete_rows())
            .or_else(|| self.about_components())
            .or_else(|| self.about_bases())
            .or_else(|| self.about_kernels())
            .or_else(|| self.about_iterations())
            .or_else(|| self.about_states())
            .unwrap_or_else(|| self.about_outputs())
    }

    /// What was met in the rows, and what options did.
    fn about_data(&self) -> Option<String> {
        Some(match self {
            Note::NoEffect { sentence, .. } => sentence.clone(),
            Note::IdFeatures(names) => id_features(names),
            Note::Widened { columns, fitted } => widened(columns, *fitted),
            Note::NotInState(names) => {
                format!("not in the state, and passed over: {}", some(names))
            }
            Note::LabelIsFeature(name) => format!("label '{name}' is among the features"),
            Note::RowsDropped { dropped, rows, missing } => {
                let dropped = count(*dropped, "row");
                format!("{dropped} of {} dropped for {}", thousands(*rows), cells(missing))
            }
            Note::CellsFilled { missing } => {
                format!("the feature's mean put for {}", cells(missing))
            }
            Note::Unlabelled(rows) => format!("{} without a label dropped", count(*rows, "row")),
            Note::UnlabelledInScoring(rows) => {
                format!("{} without a label left out of the scoring", count(*rows, "row"))
            }
            Note::Rounded(features) => {
                let features = by_feature(features);
                format!("numbers beyond 2^53 were rounded to the nearest double: {features}")
            }
            Note::ConstantFeatures(names) => {
                format!("constant, so left out of the standardized features: {}", some(names))
            }
            Note::Scored { by, kept, of, cut } => {
                let all = count(*of as u64, "feature");
                format!("scored by {by}: kept {kept} of {all}, the least score kept {cut:.4}")
            }
            Note::WholeNumberLabel { label, values, scanned } => {
                whole_number_label(label, values, *scanned)
            }
            Note::MixedLabels { numbers, classes, combined } => {
                mixed_labels(numbers, classes, *combined)
            }
            Note::ManyClasses { classes, rows } => {
                let rows = count(*rows, "row");
                format!("{classes} classes for {rows}: is the label an id, or a number?")
            }
            _ => return None,
        })
    }

    /// What a second pass made of incomplete rows.
    fn about_incomplete_rows(&self) -> Option<String> {
        Some(match self {
            Note::RowsDroppedAgain { dropped, rows, asked } => format!(
                "{} of {} dropped for nulls{} (⟦nulls=drop⟧)",
                count(*dropped, "row"),
                thousands(*rows),
                as_fitted(*asked)
            ),
            Note::CellsFilledAgain { cells, asked } => format!(
                "{} filled with the training mean{} (⟦nulls=mean⟧)",
                count(*cells, "missing value"),
                as_fitted(*asked)
            ),
            Note::RowsNull { null, rows } => format!(
                "{} of {} kept with nulls, for missing values (⟦nulls=null⟧)",
                count(*null, "row"),
                thousands(*rows)
            ),
            _ => return None,
        })
    }

    /// What a decomposition gave.
    fn about_components(&self) -> Option<String> {
        Some(match self {
            Note::CappedAtRank { kept, asked, of, rank, rows, features } => {
                let (rows, features) = (count(*rows, "row"), count(*features, "feature"));
                format!(
                    "kept {kept} of {asked} components: the {of} has rank {rank} \
                     ({rows} × {features})"
                )
            }
            Note::RankDeficient { kept, features } => {
                let all = count(*features, "feature");
                format!("rank {kept} of {all}: the other directions vary by no more than rounding")
            }
            Note::ScalesDiffer { largest, smallest, times } => format!(
                "'{largest}' varies {times:.0e} times as widely as '{smallest}', whose directions \
                 are lost in the rounding of its own; ⟦standardize⟧ gives features the same scale"
            ),
            Note::CappedByLabels { kept, asked, why } => {
                format!("kept {kept} of {asked} components: {why}")
            }
            Note::LabelFeatures { exact, features, another_pass } => format!(
                "{} is approximated by {features} random features (an entry is off by about \
                 {:.1e}){}",
                match exact {
                    Some(n) =>
                        format!("more than {n} distinct labels, so the rbf kernel over them"),
                    None => "as ⟦label-features⟧ asks, the rbf kernel over labels".into(),
                },
                (1.0 / *features as f64).sqrt(),
                if *another_pass { "; one more pass" } else { "" }
            ),
            Note::LabelKernelIsDelta { kernel, scale } => format!(
                "labels are classes, over which the {kernel} kernel is the delta kernel times {}: \
                 the directions are the same",
                five_digits(*scale)
            ),
            Note::NotOrthonormal(by) => format!(
                "ΘᵀKΘ differs from I by {by:.1e}: the last components are near rounding, ask for \
                 fewer with ⟦components⟧"
            ),
            Note::InaccurateComponents { accurate, wanted, full } => {
                inaccurate(*accurate, *wanted, *full)
            }
            Note::MixedError(error) => {
                format!("products in f32, largest relative error of those checked {error:.1e}")
            }
            _ => return None,
        })
    }

    /// What given directions are to other rows.
    fn about_bases(&self) -> Option<String> {
        Some(match self {
            Note::AlongBasis { residual, correlation } => format!(
                "along the given basis: scores correlate by up to {correlation:.1e}, residual \
                 {residual:.1e} (both are rounding where its directions are components still)"
            ),
            Note::BasisOrder(at) => format!(
                "components keep the order of their basis, and vary more than the one before: {}",
                ranges(at)
            ),
            Note::BasisFlat(at) => format!(
                "rows do not vary along components {} of the basis; any that does is infinitely \
                 far by T²",
                ranges(at)
            ),
            _ => return None,
        })
    }

    /// What a kernel is, and what stands for it.
    fn about_kernels(&self) -> Option<String> {
        Some(match self {
            Note::DefaultGamma { features } => {
                format!("gamma is 1/{features} unless ⟦gamma⟧ says otherwise")
            }
            Note::KernelIsIdentity { gamma } => format!(
                "with gamma {} no row is like another, the kernel matrix is the identity, and its \
                 components tell nothing; try ⟦gamma=median⟧ or ⟦standardize⟧",
                five_digits(*gamma)
            ),
            Note::KernelIsConstant { gamma } => format!(
                "with gamma {} all rows are alike but for the last digits, of which the \
                 components are made; try ⟦gamma=median⟧ or ⟦standardize⟧",
                five_digits(*gamma)
            ),
            Note::MedianGamma(gamma) => format!(
                "gamma {}: 1 over twice the median squared distance of a sample",
                five_digits(*gamma)
            ),
            Note::KernelIsPca => "with a linear kernel kernel PCA is PCA, and is fitted as such \
                                  (⟦form=exact⟧ goes by the kernel matrix)"
                .into(),
            Note::NegativeEigenvalues { count: n, at_least } => format!(
                "{}{} dropped: the kernel is not positive semidefinite on these rows, and shares \
                 are of what is positive",
                if *at_least { "at least " } else { "" },
                count(*n as u64, "negative eigenvalue")
            ),
            Note::FewerLandmarks { found, asked } => {
                let few = count(*found as u64, "landmark");
                format!("{few} instead of {asked}: there are no more rows that differ")
            }
            Note::KernelApproximated { kind, size, rank, error, sample } => format!(
                "{} (rank {rank}) stand for the kernel: off by {error:.2e} of its size on {}",
                count(*size as u64, kind),
                count(*sample as u64, "sampled row")
            ),
            Note::PreimageLearned { anchors, loss } => format!(
                "pre-image: ridge over {anchors} anchors, leaves {:.2} % of the spread of rows \
                 it was not learned from",
                100.0 * loss
            ),
            _ => return None,
        })
    }

    /// How an iteration went.
    fn about_iterations(&self) -> Option<String> {
        Some(match self {
            Note::Residual { what, number, residual } => {
                format!("{what} {number}: residual {residual:.1e}")
            }
            Note::Iterated { count, products: by_products, residual } => {
                let done = if *by_products { products(*count) } else { passes(*count) };
                format!("{done}, largest residual {residual:.1e}")
            }
            Note::KeptUnconverged(iteration) => iteration.outcome(),
            Note::PrimalTakesOver(iteration) => {
                format!("{}; the primal form fits and takes over", iteration.outcome())
            }
            Note::DenseTakesOver { products, out_of_reach: Some(asked) } => format!(
                "{products} products do not reach ⟦components={asked}⟧; the whole matrix fits and \
                 is decomposed"
            ),
            Note::DenseTakesOver { products, out_of_reach: None } => format!(
                "after {products} products some components miss the tolerance; the whole matrix \
                 fits and is decomposed"
            ),
            _ => return None,
        })
    }

    /// What was met in states.
    fn about_states(&self) -> Option<String> {
        Some(match self {
            Note::DigitsLost(digits) => format!(
                "subtractions have cost this state about {digits:.0} of 16 digits; scan again for \
                 a better one"
            ),
            Note::LittleLeft(digits) => format!(
                "what is left is so little of what was there that about {digits:.0} of 16 digits \
                 are lost"
            ),
            Note::DroppedForOthers(rows) => format!(
                "{} were dropped for nulls in any feature of the state, also those that are left \
                 out here",
                count(*rows, "row")
            ),
            Note::NoCovariance => "this state has no covariance to tell variances by; scan with \
                                   ⟦for=pca,spca⟧"
                .into(),
            Note::LabelNotKept => "⟦for=pca⟧ keeps nothing of the label".into(),
            Note::Resumed { units, of } => format!("going on after {units} of {of} units"),
            Note::KnownFiles(files) => {
                format!("{} in the state already, passed over", count(*files, "file"))
            }
            Note::AnotherOfThatName(path) => format!(
                "{path} is in the state with other content, which stays in the sums; if it was \
                 overwritten, take that out with subtract and a state of the old content"
            ),
            Note::WaitingFor(path) => format!("waiting for another run that writes {path}"),
            Note::KnownState(path) => {
                format!("{path}: all its inputs are there already, passed over")
            }
            Note::GroupsSwapped { groups, swaps } => format!(
                "{groups} groups did not fit the memory together, {} swaps",
                thousands(*swaps)
            ),
            Note::NoModel { state, why } => format!("{state}: no model: {why}"),
            _ => return None,
        })
    }

    /// What a second pass wrote.
    fn about_outputs(&self) -> String {
        match self {
            Note::ModelHasFewer { asked, has } => {
                format!("asked for {asked} components, the model has {has}")
            }
            Note::NoHotelling => "hotelling_t2 is left out: it needs the variance along each \
                                  component, which this supervised model does not have; fit it \
                                  with ⟦with-variance⟧"
                .into(),
            Note::FilesKept { kept, of } => {
                format!("{kept} of {} complete already and kept", count(*of, "file"))
            }
            Note::RidgeLoss(share) => format!(
                "pre-images by ridge: {:.2} % of the rows' spread is not brought back",
                100.0 * share
            ),
            Note::FixedPointLoss { distance, unsettled } => {
                let unsettled = match unsettled {
                    0 => String::new(),
                    n => format!("; the iteration of {} did not come to rest", count(*n, "row")),
                };
                format!(
                    "pre-images by fixed point: mean squared distance {distance:.3e} from the \
                     projections, where the kernel maps to{unsettled}"
                )
            }
            Note::Overflowed { numbers, dtype } => format!(
                "{} beyond the range of {dtype} written as inf or NaN",
                count(*numbers, "computed number")
            ),
            _ => String::new(),
        }
    }
}
