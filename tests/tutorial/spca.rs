//! Section "Supervised Principal Component Analysis Using HSIC", up to dual SPCA.

use super::kernel::kernels;
use super::*;
use eigenstream::{LabelKernel, LabelOptions};

/// Labels as the program is asked for them, and the text's kernel over them.
pub struct Labels {
    pub name: &'static str,
    pub options: LabelOptions,
    pub kernel: Array2<f64>,
    /// Directions that they can tell, of the P that are asked for.
    pub p: usize,
}

/// The kernels over labels of "Supervised PCA", for classification and for regression, and others
/// that "any valid kernel" may be.
pub fn labels(data: &Data) -> [Labels; 8] {
    let linear = LabelKernel::Linear;
    let of = |name, columns: LabelOptions, kernel, ky: Array2<f64>, p| Labels {
        name,
        options: LabelOptions { kernel: Some(kernel), ..columns },
        kernel: ky,
        p,
    };
    let near = |i: usize, j: usize| (-(data.y[i] - data.y[j]).powi(2)).exp();
    let rbf = Array2::from_shape_fn((data.n(), data.n()), |(i, j)| near(i, j));
    let both = one_hot(data).t().dot(&one_hot(data)) + data.regression();
    let poly = data.regression().mapv(|t| t * t);
    let far = data.delta().mapv(|same| (-2.0 * (1.0 - same)).exp());
    let length = both.diag().mapv(f64::sqrt);
    let cosine = &both / &length / length.view().insert_axis(Axis(1));
    let squares = LabelOptions { degree: Some(2), ..["y"].into() };
    [
        of("delta", ["class"].into(), LabelKernel::Delta, data.delta(), CLASSES - 1),
        of("one-hot", ["class"].into(), linear, one_hot(data).t().dot(&one_hot(data)), CLASSES - 1),
        of("regression", ["y"].into(), linear, data.regression(), 1),
        of("regression, Gaussian", ["y"].into(), LabelKernel::Rbf, rbf, P),
        of("one-hot and a number", ["class", "y"].into(), linear, both, P),
        of("polynomial", squares, LabelKernel::Poly, poly, 1),
        of("cosine", ["class", "y"].into(), LabelKernel::Cosine, cosine, P),
        of("Gaussian, one-hot", ["class"].into(), LabelKernel::Rbf, far, CLASSES - 1),
    ]
}

/// Y with one-hot columns: ℓ × n.
fn one_hot(data: &Data) -> Array2<f64> {
    Array2::from_shape_fn((CLASSES, data.n()), |(c, i)| f64::from(u8::from(data.class[i] == c)))
}

/// SPCA as the text writes it: the data are not centred.
fn spca(labels: &Labels, form: Form) -> Fit {
    in_form(Fit::spca(labels.options.clone()), form).uncentered()
}

/// XHK_yHXᵀ.
fn decomposed(data: &Data, labels: &Labels) -> Array2<f64> {
    let h = centring(data.n());
    data.x.dot(&h).dot(&labels.kernel).dot(&h).dot(&data.x.t())
}

/// Every data set and kernel over labels in both forms, with the model and the text's U.
fn fitted(check: impl Fn(&Data, &Labels, &Model, &Array2<f64>)) {
    for (data, form) in cases(&SUPERVISED) {
        for labels in labels(&data) {
            println!("labels: {}", labels.name);
            let model = data.fit(spca(&labels, form));
            assert_eq!(model.n_components(), labels.p);
            let (_, u) = leading(&decomposed(&data, &labels), labels.p);
            check(&data, &labels, &model, &signed_like(&u, &directions(&model)));
        }
    }
}

// "Hilbert-Schmidt Independence Criterion".

/// Eq. (equation_HSIC): HSIC = tr(K̈_xHK_yH) / (n − 1)².
#[test]
fn hsic_is_a_trace() {
    for data in data() {
        let (h, freedom) = (centring(data.n()), (data.n() - 1) as f64);
        for labels in labels(&data) {
            for case in kernels(data.d()) {
                let k = gram(&data.x, &data.x, &*case.k);
                let expected = trace(&k.dot(&h).dot(&labels.kernel).dot(&h)) / freedom.powi(2);
                let hsic = Hsic::new(labels.options.clone()).kernel(case.options);
                let found = data.hsic(hsic, None);
                // A mean of products of either's elements.
                vanishes(&array![[found - expected]], size(&k) * size(&labels.kernel));
            }
        }
    }
}

// "Supervised PCA".

/// K_y = δ of the labels, and the linear kernel YᵀY over one-hot labels, are one matrix.
#[test]
fn one_hot_labels_have_the_delta_kernel() {
    for (data, form) in cases(&SUPERVISED) {
        let [delta, one_hot, ..] = labels(&data);
        near(&one_hot.kernel, &delta.kernel);
        let models = [delta, one_hot].map(|labels| data.fit(spca(&labels, form)));
        near(&eigenvalues(&models[0]), &eigenvalues(&models[1]));
        near(&directions(&models[0]), &directions(&models[1]));
    }
}

/// Eqs. (equation_SPCA_kernel_of_projection) and (equation_HSIC_SPCA): with K̈_x = XᵀUUᵀX,
/// HSIC = tr(XᵀUUᵀXHK_yH) / (n − 1)².
#[test]
fn hsic_of_the_projections_is_that_of_the_model() {
    fitted(|data, labels, model, u| {
        let (h, freedom) = (centring(data.n()), (data.n() - 1) as f64);
        let k = data.x.t().dot(u).dot(&u.t()).dot(&data.x);
        let expected = trace(&k.dot(&h).dot(&labels.kernel).dot(&h)) / freedom.powi(2);
        equal(model.header.hsic.unwrap(), expected);
        equal(data.hsic(Hsic::new(labels.options.clone()), Some(model)), expected);
    });
}

/// "maximize tr(XᵀUUᵀXHK_yH) subject to UᵀU = I": no other orthonormal columns have more.
#[test]
fn the_directions_have_the_most_dependence() {
    fitted(|data, labels, model, _| {
        let (u, a) = (directions(model), decomposed(data, labels));
        let most = trace(&u.t().dot(&a).dot(&u));
        orthonormal(&u);
        equal(most, leading(&a, labels.p).0.sum());
        for other in 0..20 {
            let any = Array2::from_shape_fn((data.d(), labels.p), |(j, k)| noise(j + other, k));
            let v = svd(&any, labels.p).0;
            assert!(trace(&v.t().dot(&a).dot(&v)) < most);
        }
    });
}

/// Eq. (eqaution_SPCA_eigendecomposition): XHK_yHXᵀU = UΛ, sorted.
#[test]
fn the_supervised_directions_are_the_sorted_eigenvectors() {
    fitted(|data, labels, model, u| {
        let a = decomposed(data, labels);
        let (lambda, _) = leading(&a, labels.p);
        near(&eigenvalues(model), &lambda);
        near(&directions(model), u);
        near(&a.dot(&directions(model)), &u.dot(&diagonal(&lambda)));
    });
}

/// Eq. (equation_SPCA_projection): X̃ = UᵀX.
#[test]
fn training_points_are_projected_uncentred() {
    fitted(|data, _, model, u| near(&scores(model, &data.x), &u.t().dot(&data.x)));
}

/// Eq. (equation_SPCA_projection_outOfSample), for one point and for all n_t: X̃_t = UᵀX_t.
#[test]
fn new_points_are_projected_uncentred() {
    fitted(|data, _, model, u| {
        near(&scores(model, &data.new), &u.t().dot(&data.new));
        let x = point(&data.new, 2);
        near(&scores(model, &x), &u.t().dot(&x));
    });
}

/// Eq. (equation_SPCA_reconstruction): X̂ = UUᵀX = UX̃.
#[test]
fn training_points_are_reconstructed_uncentred() {
    fitted(|data, _, model, u| {
        near(&restored(model, &data.x), &u.dot(&u.t()).dot(&data.x));
        near(&restored(model, &data.x), &u.dot(&scores(model, &data.x)));
    });
}

/// Eq. (equation_SPCA_reconstruction_outOfSample), for one point and for all n_t: X̂_t = UUᵀX_t.
#[test]
fn new_points_are_reconstructed_uncentred() {
    fitted(|data, _, model, u| {
        near(&restored(model, &data.new), &u.dot(&u.t()).dot(&data.new));
        let x = point(&data.new, 2);
        near(&restored(model, &x), &u.dot(&u.t()).dot(&x));
    });
}

/// "although not necessary, we can center the data and in that case, the mean of embedding in the
/// subspace will be zero": the same U, around μ_x.
#[test]
fn centred_data_have_an_embedding_of_mean_zero() {
    fitted(|data, labels, model, u| {
        let form = model.header.form;
        let centred = data.fit(in_form(Fit::spca(labels.options.clone()), form));
        near(&directions(&centred), u);
        let z = scores(&centred, &data.x);
        near(&z, &u.t().dot(&data.centred()));
        vanishes(&z.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1)), size(&data.x));
        near(&scores(&centred, &data.new), &u.t().dot(&data.new_centred()));
        let hat = u.dot(&u.t()).dot(&data.new_centred()) + data.mean();
        near(&restored(&centred, &data.new), &hat);
    });
}

/// What the text does not say: the delta kernel of c classes has no more than c − 1 directions,
/// since rank(HK_yH) ≤ c − 1; all other eigenvalues are rounding.
#[test]
fn classes_have_one_direction_less_than_there_are() {
    for (data, form) in cases(&SUPERVISED) {
        let [delta, ..] = labels(&data);
        let (lambda, _) = leading(&decomposed(&data, &delta), data.d());
        assert!(lambda[CLASSES - 2] > 0.01 * lambda[0]);
        assert!(size(lambda.slice(s![CLASSES - 1..])) < ROUNDING * lambda[0]);
        let model = data.fit(spca(&delta, form).components(10));
        assert_eq!(model.n_components(), CLASSES - 1);
    }
}

// "PCA is a special case of SPCA!".

/// With K_y = I, XHK_yHXᵀ = X̆X̆ᵀ = S: the directions are those of PCA, in all its forms.
#[test]
fn pca_is_a_special_case() {
    for (data, form) in cases(&LINEAR) {
        let h = centring(data.n());
        let identity = Array2::<f64>::eye(data.n());
        near(&data.x.dot(&h).dot(&identity).dot(&h).dot(&data.x.t()), &data.covariance());
        let kernel = Some(LabelKernel::Identity);
        let spca = Fit::spca(LabelOptions { kernel, ..["class"].into() });
        let model = data.fit(in_form(spca, form).uncentered());
        let pca = data.fit(in_form(Fit::pca(), form));
        let (lambda, u) = leading(&data.covariance(), P);
        let u = signed_like(&u, &directions(&model));
        near(&eigenvalues(&model), &lambda);
        near(&directions(&model), &u);
        near(&directions(&pca), &u);
        near(&scores(&model, &data.new), &u.t().dot(&data.new));
    }
}

// "Dual Supervised PCA".

/// Δ = QΩ^½ of K_y = QΩQᵀ.
pub fn delta(ky: &Array2<f64>) -> Array2<f64> {
    let (q, omega, _) = svd(ky, ky.nrows());
    q.dot(&diagonal(&omega.mapv(f64::sqrt)))
}

/// Ψ = XHΔ = UΣVᵀ, cut to p: HΔ, Σ as a matrix, and V with the signs of a model's U = ΨVΣ⁻¹.
fn dual(data: &Data, labels: &Labels, model: &Model) -> [Array2<f64>; 3] {
    let factor = centring(data.n()).dot(&delta(&labels.kernel));
    let (u, sigma, v) = svd(&data.x.dot(&factor), labels.p);
    // The sign of a column of V is that of the same column of U.
    let signs = (&signed_like(&u, &directions(model)) * &u).sum_axis(Axis(0));
    [factor, diagonal(&sigma), v * &signs.mapv(f64::signum)]
}

/// Eq. (equation_SPCA_decompose_kernelOfLabels): K_y = (QΩ^½)(QΩ^½)ᵀ = ΔΔᵀ, so that XHK_yHXᵀ = ΨΨᵀ
/// with Ψ = XHΔ of Eq. (equation_Psi_dual_SPCA).
#[test]
fn the_kernel_over_labels_is_factored() {
    fitted(|data, labels, model, _| {
        let factor = delta(&labels.kernel);
        near(&factor.dot(&factor.t()), &labels.kernel);
        let psi = data.x.dot(&centring(data.n())).dot(&factor);
        near(&psi.dot(&psi.t()), &decomposed(data, labels));
        let projected = psi.dot(&psi.t()).dot(&directions(model));
        near(&projected, &directions(model).dot(&diagonal(&eigenvalues(model))));
    });
}

/// Eqs. (equation_Psi_SVD_dual_SPCA) and (equation_U_dual_SPCA): Ψ = UΣVᵀ and U = ΨVΣ⁻¹.
#[test]
fn supervised_directions_come_from_v() {
    fitted(|data, labels, model, _| {
        let [factor, sigma, v] = dual(data, labels, model);
        near(&eigenvalues(model), &sigma.dot(&sigma).diag().to_owned());
        near(&directions(model), &data.x.dot(&factor).dot(&v).dot(&inverse(&sigma)));
    });
}

/// Eq. (equation_projected_dual_SPCA): X̃ = Σ⁻¹VᵀΔᵀHXᵀX.
#[test]
fn training_points_are_projected_by_the_dual() {
    fitted(|data, labels, model, _| {
        let [factor, sigma, v] = dual(data, labels, model);
        let back = inverse(&sigma).dot(&v.t()).dot(&factor.t());
        near(&scores(model, &data.x), &back.dot(&data.x.t()).dot(&data.x));
    });
}

/// Eq. (equation_outOfSample_projected_dual_SPCA), for one point and for all n_t:
/// X̃_t = Σ⁻¹VᵀΔᵀHXᵀX_t.
#[test]
fn new_points_are_projected_by_the_dual() {
    fitted(|data, labels, model, _| {
        let [factor, sigma, v] = dual(data, labels, model);
        let back = inverse(&sigma).dot(&v.t()).dot(&factor.t()).dot(&data.x.t());
        near(&scores(model, &data.new), &back.dot(&data.new));
        near(&scores(model, &point(&data.new, 2)), &back.dot(&point(&data.new, 2)));
    });
}

/// Eq. (equation_reconstruction_dual_SPCA): X̂ = XHΔVΣ⁻²VᵀΔᵀHXᵀX.
#[test]
fn training_points_are_reconstructed_by_the_dual() {
    fitted(|data, labels, model, _| {
        near(&restored(model, &data.x), &twice(data, labels, model).dot(&data.x));
    });
}

/// Eq. (equation_outOfSample_reconstruction_dual_SPCA), for one point and for all n_t:
/// X̂_t = XHΔVΣ⁻²VᵀΔᵀHXᵀX_t.
#[test]
fn new_points_are_reconstructed_by_the_dual() {
    fitted(|data, labels, model, _| {
        let back = twice(data, labels, model);
        near(&restored(model, &data.new), &back.dot(&data.new));
        near(&restored(model, &point(&data.new, 2)), &back.dot(&point(&data.new, 2)));
    });
}

/// XHΔVΣ⁻²VᵀΔᵀHXᵀ.
fn twice(data: &Data, labels: &Labels, model: &Model) -> Array2<f64> {
    let [factor, sigma, v] = dual(data, labels, model);
    let psi = data.x.dot(&factor);
    psi.dot(&v).dot(&inverse(&sigma.dot(&sigma))).dot(&v.t()).dot(&psi.t())
}
