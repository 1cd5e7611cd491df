//! Section "Dual Principal Component Analysis": "the results of PCA and dual PCA are exactly the
//! same", so every form is held to the dual formulas.

use super::*;

fn pca(form: Form) -> Fit {
    in_form(Fit::pca(), form)
}

/// X̆ = UΣVᵀ cut to p: Σ as a matrix, and V with the signs of a model's scores.
fn sigma_and_v(data: &Data, model: &Model) -> (Array2<f64>, Array2<f64>) {
    let (_, sigma, v) = svd(&data.centred(), model.n_components());
    let v = signed_like(&v, &scores(model, &data.x).t().to_owned());
    (diagonal(&sigma), v)
}

/// Eq. (equation_SVD_dual): X̆ = UΣVᵀ, p the number of non-zero singular values: all of the model's
/// pairs give X̆ back, V being Σ⁻¹ times the scores.
#[test]
fn the_incomplete_svd_gives_the_data_back() {
    for (data, form) in cases(&LINEAR) {
        let rank = data.d().min(data.n() - 1);
        let model = data.fit(pca(form).components(rank));
        let sigma = eigenvalues(&model).mapv(f64::sqrt);
        near(&sigma, &svd(&data.centred(), rank).1);
        let v = inverse(&diagonal(&sigma)).dot(&scores(&model, &data.x)).t().to_owned();
        orthonormal(&v);
        near(&directions(&model).dot(&diagonal(&sigma)).dot(&v.t()), &data.centred());
    }
}

/// Eqs. (equation_dual_1) and (equation_projected_dual): X̃ = UᵀX̆ = ΣVᵀ.
#[test]
fn training_points_are_projected_by_sigma_and_v() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (sigma, v) = sigma_and_v(&data, &model);
        near(&scores(&model, &data.x), &sigma.dot(&v.t()));
    }
}

/// Eq. (equation_dual_U): U = X̆VΣ⁻¹.
#[test]
fn directions_come_from_v() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (sigma, v) = sigma_and_v(&data, &model);
        near(&directions(&model), &data.centred().dot(&v).dot(&inverse(&sigma)));
    }
}

/// Eq. (equation_reconstruction_dual): X̂ = X̆VVᵀ + μ_x.
#[test]
fn training_points_are_reconstructed_by_v() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, v) = sigma_and_v(&data, &model);
        near(&restored(&model, &data.x), &(data.centred().dot(&v).dot(&v.t()) + data.mean()));
    }
}

/// Eqs. (equation_U_transpose_dual) and (equation_outOfSample_projection_dual), for one point and
/// for all n_t: X̃_t = Σ⁻¹VᵀX̆ᵀX̆_t.
#[test]
fn new_points_are_projected_by_inner_products() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (sigma, v) = sigma_and_v(&data, &model);
        let products = data.centred().t().dot(&data.new_centred());
        let expected = inverse(&sigma).dot(&v.t()).dot(&products);
        near(&scores(&model, &data.new), &expected);
        near(&scores(&model, &point(&data.new, 2)), &point(&expected, 2));
    }
}

/// Eq. (equation_outOfSample_reconstruct_dual), for one point and for all n_t:
/// X̂_t = X̆VΣ⁻²VᵀX̆ᵀX̆_t + μ_x.
#[test]
fn new_points_are_reconstructed_by_inner_products() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (sigma, v) = sigma_and_v(&data, &model);
        let products = data.centred().t().dot(&data.new_centred());
        let back = data.centred().dot(&v).dot(&inverse(&sigma.dot(&sigma))).dot(&v.t());
        let expected = back.dot(&products) + data.mean();
        near(&restored(&model, &data.new), &expected);
        near(&restored(&model, &point(&data.new, 2)), &point(&expected, 2));
    }
}

/// "Why is Dual PCA Useful?": V are the eigenvectors of X̆ᵀX̆ (n × n), U those of X̆X̆ᵀ (d × d),
/// and the results "are exactly the same".
#[test]
fn every_form_has_the_same_results() {
    for (data, form) in cases(&LINEAR) {
        let x = data.centred();
        let model = data.fit(pca(form));
        near(&eigenvalues(&model), &leading(&x.t().dot(&x), P).0);
        near(&eigenvalues(&model), &leading(&x.dot(&x.t()), P).0);
        let primal = data.fit(pca(Form::Primal));
        near(&directions(&model), &directions(&primal));
        near(&scores(&model, &data.new), &scores(&primal, &data.new));
    }
}
