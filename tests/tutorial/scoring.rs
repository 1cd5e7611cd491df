//! Section "Supervised Principal Component Analysis Using Scoring".

use super::*;
use eigenstream::{Keep, Kernel, Score, ScoringOptions};

/// Features that are kept.
const Q: usize = 5;

/// The q features that score best with `y`, as the text sorts them: from largest to smallest, by
/// raw scores.
fn scored(fit: Fit) -> Fit {
    scored_by(fit, Some(false))
}

fn scored_by(fit: Fit, center: Option<bool>) -> Fit {
    let (keep, score) = (Keep::Features(Q), Score::Signed);
    Fit { scoring: Some(ScoringOptions { by: "y".into(), keep, score, center }), ..fit }
}

/// s_j = (x^j)ᵀy / √((x^j)ᵀx^j), x^j being a row of X.
fn score(x: &Array2<f64>, y: &Array1<f64>) -> Array1<f64> {
    x.rows().into_iter().map(|feature| feature.dot(y) / feature.dot(&feature).sqrt()).collect()
}

/// X'' = X'(1:q, :): the features with the largest scores; the program leaves them in their order.
fn best(x: &Array2<f64>, scores: &Array1<f64>) -> Array2<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.truncate(Q);
    order.sort_unstable();
    x.select(Axis(0), &order)
}

/// s_j of the raw features, as the text has it, whatever the method does with them afterwards.
#[test]
fn features_are_scored() {
    let rbf = Kernel::Rbf { gamma: 0.05 };
    for (data, form) in cases(&LINEAR) {
        for fit in [Fit::pca(), Fit::pca().uncentered()] {
            let model = data.fit(scored(in_form(fit, form)));
            near(&model.feature_scores.unwrap(), &score(&data.x, &data.y));
        }
        for fit in [Fit::spca(["class"]), Fit::kpca(rbf), Fit::kspca(rbf, ["class"])] {
            near(&data.fit(scored(fit)).feature_scores.unwrap(), &score(&data.x, &data.y));
        }
    }
}

/// s_j of the centred features, where the method centres them or it is asked for.
#[test]
fn centred_features_are_scored() {
    for (data, form) in cases(&LINEAR) {
        let asked = scored_by(Fit::pca().uncentered(), Some(true));
        for fit in [scored_by(Fit::pca(), None), asked] {
            let model = data.fit(in_form(fit, form));
            near(&model.feature_scores.unwrap(), &score(&data.centred(), &data.y));
        }
    }
}

/// X'' = X'(1:q, :), by name and by what PCA of it without centring gives.
#[test]
fn the_best_features_are_kept() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(scored(in_form(Fit::pca(), form).uncentered()));
        let kept = best(&data.x, &score(&data.x, &data.y));
        assert_eq!(model.n_features(), Q);
        let (lambda, u) = leading(&kept.dot(&kept.t()), P);
        near(&eigenvalues(&model), &lambda);
        let u = signed_like(&u, &directions(&model));
        near(&scores(&model, &data.x), &u.t().dot(&kept));
        near(&restored(&model, &data.x), &u.dot(&u.t()).dot(&kept));
    }
}

/// "Then, we apply PCA on the X''."
#[test]
fn pca_is_applied_to_the_best_features() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(scored(in_form(Fit::pca(), form)));
        let kept = best(&data.x, &score(&data.x, &data.y));
        let h = centring(data.n());
        let (lambda, u) = leading(&kept.dot(&h).dot(&kept.t()), P);
        near(&eigenvalues(&model), &lambda);
        let u = signed_like(&u, &directions(&model));
        near(&scores(&model, &data.x), &u.t().dot(&kept.dot(&h)));
    }
}

/// "Applying PCA and kernel PCA on X'' results in SPCA and kernel [S]PCA."
#[test]
fn kernel_pca_is_applied_to_the_best_features() {
    for (data, form) in cases(&[Form::Exact]) {
        let gamma = 0.05;
        let model = data.fit(scored(in_form(Fit::kpca(Kernel::Rbf { gamma }), form)));
        let kept = best(&data.x, &score(&data.x, &data.y));
        let k = gram(&kept, &kept, &move |x, y| (-gamma * (&x - &y).mapv(|v| v * v).sum()).exp());
        let h = centring(data.n());
        let (lambda, v) = leading(&h.dot(&k).dot(&h), P);
        near(&eigenvalues(&model), &lambda);
        let found = scores(&model, &data.x);
        let v = signed_like(&v, &found.t().to_owned());
        near(&found, &diagonal(&lambda.mapv(f64::sqrt)).dot(&v.t()));
    }
}
