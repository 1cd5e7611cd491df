//! A model as a page of text: what it is, the scree plot, the rules, the loadings.

use super::table::{self, Align};
use crate::model::{BasisReport, Form, Header, KernelReport, LabelReport, Model};
use crate::solve::rules::RuleAnswer;
use crate::solve::supervised::LabelKernel;
use crate::source::Precision;
use crate::words::{
    constant, count, five_digits, list, one_line, passes, products, ranges, short, some, thousands,
};
use std::fmt::Write;

/// Classes listed.
const SHOWN_CLASSES: usize = 12;

/// Components and loadings shown before the rest is only counted.
const SHOWN_COMPONENTS: usize = 20;
const SHOWN_LOADINGS: usize = 5;

/// Columns that a name takes at most.
const SHOWN_WIDTH: usize = 40;
const BAR: usize = 30;

/// The page that `inspect` prints.
pub(crate) fn model(model: &Model) -> String {
    let mut page = String::new();
    head(model, &mut page);
    scree(model, &mut page);
    centroids(model, &mut page);
    rules(model, &mut page);
    loadings(model, &mut page);
    let c = &model.header.certificate;
    let _ = write!(
        page,
        "\ncertificate  residual {:.1e}, orthogonality {:.1e}",
        c.max_residual, c.orthogonality
    );
    if let Some(error) = c.trace_error {
        let _ = write!(page, ", trace {error:.1e}");
    }
    if let Some(correlation) = c.score_correlation {
        let _ = write!(page, ", correlation of scores {correlation:.1e}");
    }
    if let Some(error) = c.mixed_error {
        let _ = write!(page, ", f32 products {error:.1e}");
    }
    page.push('\n');
    if let Some(accurate) = c.accurate_components {
        let _ = writeln!(page, "             {}", accuracy_text(accurate, model.n_components()));
    }
    if let Some(iteration) = &c.iteration {
        let passes = if model.header.form == Form::Exact {
            products(iteration.passes)
        } else {
            passes(iteration.passes)
        };
        let _ = writeln!(page, "             {passes} to a tolerance of {:e}", iteration.tolerance);
        if !iteration.unconverged.is_empty() {
            let _ = writeln!(
                page,
                "             components {} miss the tolerance",
                ranges(&iteration.unconverged)
            );
        }
    }
    page
}

/// Which of the kept eigenvalues are known.
fn accuracy_text(accurate: usize, kept: usize) -> String {
    let which = match accurate {
        accurate if accurate >= kept => "all that are kept".into(),
        0 => "none".into(),
        1 => "the first".into(),
        accurate => format!("the first {accurate}"),
    };
    format!("eigenvalues known to 1e-6 of their own size: {which}")
}

/// What was done to the rows.
fn treatment(h: &Header) -> Vec<String> {
    let centring = match (h.center, h.method.is_kernel()) {
        (true, false) => "centred",
        (true, true) => "centred where the kernel maps to",
        (false, false) => "not centred (LSA)",
        (false, true) => "scores not centred",
    };
    let mut facts = vec![centring.to_string()];
    facts.extend(h.standardize.then(|| "standardized (n−1)".to_string()));
    facts.extend(h.weight.as_ref().map(|w| {
        let (column, sum) = (one_line(&w.column), five_digits(w.sum));
        format!("frequency weights from '{column}' (sum {sum})")
    }));
    match h.precision {
        Precision::Exact => {}
        Precision::Mixed => facts.push("mixed precision".into()),
        Precision::Full => facts.push("full precision".into()),
    }
    facts
}

fn head(model: &Model, page: &mut String) {
    let h = &model.header;
    let rows: u64 = h.ledger.iter().map(|e| e.rows).sum();
    let _ = writeln!(
        page,
        "{}, {} form: {} × {}, {}{}",
        h.method,
        h.form,
        count(h.n_rows, "row"),
        count(model.n_features() as u64, "feature"),
        count(model.n_components() as u64, "component"),
        h.rank.map_or_else(String::new, |rank| format!(" of rank {rank}"))
    );
    let files = h.ledger.len() as u64;
    let read = match files {
        0 => String::new(),
        _ => format!("{} from {}, ", count(rows, "row"), count(files, "file")),
    };
    let _ = writeln!(page, "{}; {read}eigenstream {}", treatment(h).join(", "), h.version);
    if let Some(basis) = &h.basis {
        basis_line(basis, page);
    }
    if let Some(kernel) = &h.kernel {
        kernel_lines(model, kernel, page);
    }
    if let Some(label) = &h.label {
        label_line(label, page);
    }
    missing_lines(h, page);
}

fn basis_line(basis: &BasisReport, page: &mut String) {
    let path =
        basis.path.as_ref().map_or_else(String::new, |path| format!(" in {}", one_line(path)));
    let rows = count(basis.n_rows, "row");
    let _ = writeln!(page, "along the components{path} that {} found in {rows}", basis.method);
}

fn label_line(label: &LabelReport, page: &mut String) {
    let mut constants =
        label.gamma.map_or_else(String::new, |g| format!(", gamma {}", constant(g)));
    if let (Some(c), Some(p)) = (label.coef0, label.degree) {
        constants += &format!(", coef0 {c}, degree {p}");
    }
    let features = label.features.map_or_else(String::new, |f| format!(", by {f} random features"));
    let classes = label.n_classes.map_or_else(String::new, |c| format!(", {c} classes"));
    let _ = writeln!(
        page,
        "label {}: {} kernel{constants}{features}{classes}",
        list(&label.columns),
        label.kernel
    );
}

/// What was left out or filled.
fn missing_lines(h: &Header, page: &mut String) {
    if !h.left_out.is_empty() {
        let _ = writeln!(page, "constant, left out: {}", some(&h.left_out));
    }
    if !h.nulls.missing.is_empty() {
        let cells: u64 = h.nulls.missing.values().sum();
        let policy = match h.nulls.policy {
            crate::source::Nulls::Drop => format!("{} dropped", count(h.nulls.rows_dropped, "row")),
            _ => "filled with the feature's mean".to_string(),
        };
        let columns: Vec<String> =
            h.nulls.missing.iter().map(|(name, n)| format!("{name} ({})", thousands(*n))).collect();
        let _ = writeln!(page, "{}, {policy}: {}", count(cells, "missing value"), some(&columns));
    }
}

fn scree(model: &Model, page: &mut String) {
    match (&model.header.label, model.explained_variance(), model.explained_variance_ratio()) {
        (Some(label), _, ratio) if label.kernel != LabelKernel::Identity => {
            dependence(model, label, ratio, page)
        }
        (_, Some(variance), Some(ratio)) => variances(model, &variance, &ratio, page),
        _ => {}
    }
    let what = model.variance_kind().words();
    match model.header.rank {
        Some(rank) if rank > model.n_components() => {
            let next = model.eigenvalues[model.n_components()];
            let more = rank - model.n_components();
            let (what, next) = match model.header.method.is_supervised() {
                false => (what, next / model.header.degrees_of_freedom),
                true => ("eigenvalue", next),
            };
            let next = five_digits(next);
            let _ = writeln!(page, "      not kept: {more} more, the next with {what} {next}");
        }
        Some(_) => {}
        None if model.header.basis.is_some() => {}
        None => {
            let _ = writeln!(page, "      only the leading eigenvalues were computed");
        }
    }
    if let Some(total) = model.header.total_variance {
        let _ = writeln!(page, "      total {what} {}", five_digits(total));
    }
}

/// A table under an empty line.
fn put_table(rows: &[Vec<String>], columns: &[(Align, usize)], page: &mut String) {
    page.push('\n');
    for line in table::lines(rows, columns) {
        let _ = writeln!(page, "{line}");
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn variances(model: &Model, variance: &[f64], ratio: &[f64], page: &mut String) {
    let head = ["pc", model.variance_kind().words(), "share", "total", "scree"];
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_string).to_vec()];
    let mut total = 0.0;
    let largest = variance.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (i, (v, r)) in variance.iter().zip(ratio).enumerate() {
        total += r;
        if i < SHOWN_COMPONENTS {
            let (number, size) = ((i + 1).to_string(), five_digits(*v));
            rows.push(vec![number, size, percent(*r), percent(total), bar(v / largest)]);
        }
    }
    use Align::{Left, Right};
    put_table(&rows, &[(Right, 4), (Right, 8), (Right, 8), (Right, 8), (Left, 0)], page);
    let more = model.n_components().saturating_sub(SHOWN_COMPONENTS);
    if more > 0 {
        let _ = writeln!(page, "      … and {more} more, {} in all", percent(total));
    }
}

/// A supervised model: eigenvalue, share of the dependence, share of the variance.
fn dependence(model: &Model, label: &LabelReport, ratio: Option<Vec<f64>>, page: &mut String) {
    let of_variance = ratio.as_ref().map(|_| "of variance");
    let head = ["pc", "eigenvalue", "of HSIC"].into_iter().chain(of_variance).chain(["scree"]);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_string).collect()];
    let largest = model.eigenvalues[0];
    for i in 0..model.n_components().min(SHOWN_COMPONENTS) {
        let value = model.eigenvalues[i];
        let mut row = vec![(i + 1).to_string(), five_digits(value), percent(label.hsic_share[i])];
        row.extend(ratio.as_ref().map(|r| percent(r[i])));
        row.push(bar(value / largest));
        rows.push(row);
    }
    let numbers = [(Align::Right, 4), (Align::Right, 10), (Align::Right, 8)].into_iter();
    let numbers = numbers.chain(ratio.map(|_| (Align::Right, 11)));
    let columns: Vec<(Align, usize)> = numbers.chain([(Align::Left, 0)]).collect();
    put_table(&rows, &columns, page);
    let hsic = five_digits(model.header.hsic.unwrap_or(0.0));
    let _ = writeln!(page, "      HSIC of the scores with the labels {hsic}");
}

/// Where the classes of a supervised model are among its scores.
fn centroids(model: &Model, page: &mut String) {
    let Some(label) = model.header.label.as_ref().filter(|l| !l.classes.is_empty()) else { return };
    let head = ["  class centroids".to_string(), "rows".into()];
    let head = head.into_iter().chain((1..=model.n_components().min(5)).map(|i| format!("pc{i}")));
    let mut rows: Vec<Vec<String>> = vec![head.collect()];
    for class in label.classes.iter().take(SHOWN_CLASSES) {
        let name = class.class.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let name = format!("  {}", short(&name, SHOWN_WIDTH));
        let scores = class.centroid.iter().take(5).map(|z| five_digits(*z));
        rows.push([name, weight(class.weight)].into_iter().chain(scores).collect());
    }
    let scores = std::iter::repeat_n((Align::Right, 8), rows[0].len() - 1);
    let columns: Vec<_> = [(Align::Left, 16)].into_iter().chain(scores).collect();
    put_table(&rows, &columns, page);
    if label.classes.len() > SHOWN_CLASSES {
        let _ = writeln!(page, "  … and {} more", label.classes.len() - SHOWN_CLASSES);
    }
}

/// Eighths of a block, so that small values still show.
fn bar(share: f64) -> String {
    let eighths = ((share * (BAR * 8) as f64).round() as usize).min(BAR * 8);
    let mut bar = "█".repeat(eighths / 8);
    match eighths % 8 {
        0 if eighths == 0 => bar.push('▏'),
        0 => {}
        rest => bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][rest - 1]),
    }
    bar
}

fn rules(model: &Model, page: &mut String) {
    let selection = &model.header.selection;
    if let Some(s) = &selection.scoring {
        let kind =
            if s.score == crate::solve::scoring::Score::Abs { "magnitude of the " } else { "" };
        let raw = if s.center == Some(false) { "raw " } else { "" };
        let _ = writeln!(
            page,
            "\nfeatures by the {kind}{raw}score against {}: kept {} of {}, the least score kept \
             {}: {}",
            one_line(&s.by),
            s.kept,
            s.candidates.len(),
            five_digits(s.cut),
            some(&model.header.features.names().collect::<Vec<_>>())
        );
    }
    let answers: Vec<String> = selection
        .rules
        .iter()
        .map(|a| match a.components {
            Some(k) => format!("{} → {k}", rule_name(a)),
            None => format!("{} → n/a", rule_name(a)),
        })
        .collect();
    let said = match answers.is_empty() {
        true => String::new(),
        false => format!("; the rules say {}", answers.join(", ")),
    };
    let _ = writeln!(page, "\nasked for {}, kept {}{said}", selection.asked, selection.kept);
    for answer in &selection.rules {
        if let Some(reason) = &answer.reason {
            let _ = writeln!(page, "  {}: {reason}", answer.rule);
        }
    }
}

/// A rule as `-k` takes it; what was called so in models of before is named.
fn rule_name(answer: &RuleAnswer) -> String {
    match (answer.rule.as_str(), &answer.by) {
        ("elbow", None) => "elbow (largest relative drop)".into(),
        (rule, _) => rule.into(),
    }
}

/// The kernel, what stands for it, what was left out.
fn kernel_lines(model: &Model, report: &KernelReport, page: &mut String) {
    let from = match report.gamma_from.as_deref() {
        Some("default") => " (1 over the features)",
        Some("median") => " (by the median distance)",
        _ => "",
    };
    let how = match (&report.approximation, model.kernel_map()) {
        (Some(a), _) => format!(
            "; {} {} of rank {} stand for it, off by {:.1e} on a sample",
            a.size, a.kind, a.rank, a.error
        ),
        (None, Some(_)) => {
            format!("; rows are compared with {} of the fit", thousands(report.rows as u64))
        }
        (None, None) if model.is_normalized() => "; PCA of the rows at unit length".to_string(),
        (None, None) => "; the same as PCA".to_string(),
    };
    let _ = writeln!(page, "kernel {}{from}{how}", report.kernel);
    if report.negative_eigenvalues > 0 {
        let least = if report.negative_at_least { "at least " } else { "" };
        let _ = writeln!(
            page,
            "{least}{} dropped",
            count(report.negative_eigenvalues as u64, "negative eigenvalue")
        );
    }
    if let Some(p) = &report.preimage {
        let _ = writeln!(
            page,
            "pre-image by ridge regression, leaves {:.2} % of the spread",
            100.0 * p.loss
        );
    }
}

fn loadings(model: &Model, page: &mut String) {
    let Some(components) = model.components() else { return };
    let _ = writeln!(page, "\ntop loadings");
    let names: Vec<String> = model.header.features.names().collect();
    for (i, row) in components.rows().into_iter().take(SHOWN_COMPONENTS).enumerate() {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|a, b| row[*b].abs().total_cmp(&row[*a].abs()));
        let top: Vec<String> = order
            .iter()
            .take(SHOWN_LOADINGS)
            .map(|j| format!("{:+.3} {}", row[*j], short(&names[*j], SHOWN_WIDTH)))
            .collect();
        let _ = writeln!(page, "{:>4}  {}", i + 1, top.join("  "));
    }
}

/// A weight: rows as they are counted, or a number.
fn weight(w: f64) -> String {
    if w.fract() == 0.0 { thousands(w as u64) } else { five_digits(w) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_the_share() {
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!(bar(0.0), "▏");
        assert_eq!(bar(0.5).chars().count(), 15);
    }
}
