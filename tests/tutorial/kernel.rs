//! Section "Kernel Principal Component Analysis".

use super::*;
use eigenstream::{Approximate, Components, Kernel, KernelKind, KernelOptions, LandmarkChoice};

/// A kernel as the program is asked for it and as the text writes it.
pub struct Case {
    pub name: &'static str,
    pub options: KernelOptions,
    pub k: Box<Comparison>,
    /// No eigenvalue of the kernel matrix is negative.
    pub semidefinite: bool,
}

/// The kernels of "Kernels and Hilbert Space", and the cosine of "Projection of Facial Images".
/// Their constants are for d features.
pub fn kernels(d: usize) -> Vec<Case> {
    let (c1, c2, c3) = (0.1 / d as f64, 0.5, 3);
    let sigma = d as f64 / 4.0;
    let case = |name, options: KernelOptions, k: Box<Comparison>, semidefinite| Case {
        name,
        options,
        k,
        semidefinite,
    };
    vec![
        case(
            "linear",
            Kernel::Linear { coef0: 2.0 }.into(),
            Box::new(|x, y| x.dot(&y) + 2.0),
            true,
        ),
        case(
            "polynomial",
            Kernel::Poly { gamma: c1, coef0: c2, degree: c3 }.into(),
            Box::new(move |x, y| (c1 * x.dot(&y) + c2).powi(c3 as i32)),
            true,
        ),
        case(
            "Gaussian",
            KernelOptions { sigma: Some(sigma), ..KernelKind::Rbf.into() },
            Box::new(move |x, y| (-squared_distance(x, y) / (2.0 * sigma * sigma)).exp()),
            true,
        ),
        case(
            "Gaussian by its gamma",
            Kernel::Rbf { gamma: c1 }.into(),
            Box::new(move |x, y| (-c1 * squared_distance(x, y)).exp()),
            true,
        ),
        case(
            "sigmoid",
            Kernel::Sigmoid { gamma: c1, coef0: c2 }.into(),
            Box::new(move |x, y| (c1 * x.dot(&y) + c2).tanh()),
            false,
        ),
        case(
            "cosine",
            KernelKind::Cosine.into(),
            Box::new(|x, y| x.dot(&y) / (x.dot(&x) * y.dot(&y)).sqrt()),
            true,
        ),
    ]
}

fn squared_distance(x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
    (&x - &y).mapv(|v| v * v).sum()
}

/// Every data set with every kernel, and the fits that are to give the same: the exact form, what
/// the plan chooses (PCA, for linear and cosine), and all points as landmarks, which then stand for
/// nothing but themselves.
fn kernel_cases() -> impl Iterator<Item = (Data, Case, Vec<Fit>)> {
    data().into_iter().flat_map(|data| {
        kernels(data.d()).into_iter().map(move |case| {
            println!("data {}, {} kernel", data.name, case.name);
            let plain = Fit::kpca(case.options.clone());
            let choice = LandmarkChoice::Uniform;
            let all = Approximate::Landmarks { count: data.n(), choice };
            let landmarks = KernelOptions { approximation: Some(all), ..case.options.clone() };
            let mut fits = vec![in_form(plain.clone(), Form::Exact), plain.components(P)];
            if case.semidefinite {
                fits.push(Fit::kpca(landmarks).components(P));
            }
            (data.clone(), case, fits)
        })
    })
}

/// K̆_x = HK_xH.
fn double_centred(k: &Array2<f64>) -> Array2<f64> {
    let h = centring(k.nrows());
    h.dot(k).dot(&h)
}

/// K̆_xV = VΣ², the p leading: Σ as a matrix, and V with the signs of a model's scores.
fn sigma_and_v(k: &Array2<f64>, model: &Model, x: &Array2<f64>) -> (Array2<f64>, Array2<f64>) {
    let (lambda, v) = leading(&double_centred(k), P);
    let v = signed_like(&v, &scores(model, x).t().to_owned());
    (diagonal(&lambda.mapv(f64::sqrt)), v)
}

// "Kernels and Hilbert Space".

/// Eq. (equation_kernel_matrix_of_X) with the linear, polynomial, Gaussian, sigmoid and cosine
/// k(x₁, x₂): the trace of K̆_xK_y, which HSIC is made of, has every element of the program's K_x.
#[test]
fn the_kernels_are_those_of_the_text() {
    for (data, case, _) in kernel_cases() {
        let k = gram(&data.x, &data.x, &*case.k);
        let freedom = (data.n() - 1) as f64;
        for (label, ky) in [("class", data.delta()), ("y", data.regression())] {
            let hsic = data.hsic(Hsic::new([label]).kernel(case.options.clone()), None);
            let expected = trace(&double_centred(&k).dot(&ky)) / freedom.powi(2);
            // A mean of products of either's elements.
            vanishes(&array![[hsic - expected]], size(&k) * size(&ky));
        }
    }
}

/// Eq. (equation_doubleCentered_kernel): K̆_x = HK_xH = Φ̆(X)ᵀΦ̆(X), the inner products of all
/// scores of the training points.
#[test]
fn inner_products_of_scores_are_the_double_centred_kernel() {
    for (data, case, fits) in kernel_cases().filter(|(_, case, _)| case.semidefinite) {
        let expected = double_centred(&gram(&data.x, &data.x, &*case.k));
        for fit in fits {
            let phi = scores(&data.fit(fit.components(Components::All)), &data.x);
            near(&phi.t().dot(&phi), &expected);
        }
    }
}

// "Projection".

/// Eqs. (equation_kernelPCA_SVD_Phi), (equation_kernelPCA_eigen_centered_kernel) and its second:
/// K̆_xV = VΛ = VΣ².
#[test]
fn the_double_centred_kernel_is_what_is_decomposed() {
    for (data, case, fits) in kernel_cases() {
        let k = double_centred(&gram(&data.x, &data.x, &*case.k));
        for fit in fits {
            let model = data.fit(fit);
            let lambda = eigenvalues(&model);
            near(&lambda, &leading(&k, P).0);
            let sigma = diagonal(&lambda.mapv(f64::sqrt));
            let v = inverse(&sigma).dot(&scores(&model, &data.x)).t().to_owned();
            within(DIVIDED, &k.dot(&v), &v.dot(&sigma.dot(&sigma)));
        }
    }
}

/// Eq. (equation_projected_kernel_PCA): Φ(X̃) = UᵀΦ̆(X) = ΣVᵀ.
#[test]
fn training_points_are_projected_by_the_kernel() {
    for (data, case, fits) in kernel_cases() {
        let k = gram(&data.x, &data.x, &*case.k);
        for fit in fits {
            let model = data.fit(fit);
            let (sigma, v) = sigma_and_v(&k, &model, &data.x);
            within(DIVIDED, &scores(&model, &data.x), &sigma.dot(&v.t()));
        }
    }
}

// "Reconstruction".

/// Eq. (equation_kernel_U): U = Φ̆(X)VΣ⁻¹, to be seen where Φ is: with a linear kernel it is the U
/// of PCA, and with it alone there is a reconstruction.
#[test]
fn a_linear_kernel_has_the_directions_of_pca() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(in_form(Fit::kpca(KernelKind::Linear), form));
        let k = gram(&data.x, &data.x, &|x, y| x.dot(&y));
        let (sigma, v) = sigma_and_v(&k, &model, &data.x);
        near(&directions(&model), &data.centred().dot(&v).dot(&inverse(&sigma)));
        near(&restored(&model, &data.x), &(data.centred().dot(&v).dot(&v.t()) + data.mean()));
    }
}

/// The sentence that a kernel model gives instead of a reconstruction.
pub fn refuses_to_reconstruct(model: &Model, x: &Array2<f64>) {
    let refused = model.reconstruct(&batch(x)).unwrap_err().to_string();
    let sentences = ["a kernel model has no reconstruction", "the cosine kernel forgets"];
    assert!(sentences.iter().any(|s| refused.starts_with(s)), "{refused}");
}

/// Eq. (equation_reconstruction_kernel_PCA): Φ(X̂) = Φ̆(X)VVᵀ + μ_x, but "we cannot reconstruct the
/// training data in kernel PCA".
#[test]
fn training_points_are_not_reconstructed() {
    for (data, case, fits) in kernel_cases() {
        let hidden = fits.into_iter().filter(|fit| {
            case.name != "linear" || fit.form.is_some() || fit.kernel.approximation.is_some()
        });
        for fit in hidden {
            refuses_to_reconstruct(&data.fit(fit), &data.x);
        }
    }
}

// "Out-of-sample Projection".

/// Eq. (equation_outOfSample_projection_kernel_PCA), for one point and for all n_t:
/// φ(X̃_t) = Σ⁻¹VᵀK̆_t with K̆_t of Eq. (equation_appendix_doubleCentered_outOfSample_kernel).
#[test]
fn new_points_are_projected_by_the_kernel() {
    for (data, case, fits) in kernel_cases() {
        let k = gram(&data.x, &data.x, &*case.k);
        let k_t = gram(&data.x, &data.new, &*case.k);
        let (n, n_t) = (data.n(), data.new.ncols());
        let (ones, ones_t) = (Array2::<f64>::ones((n, n)) / n as f64, Array2::ones((n, n_t)));
        let means = k.dot(&ones_t) / n as f64;
        let centred = &k_t - &ones.dot(&k_t) - &means + ones.dot(&means);
        for fit in fits {
            let model = data.fit(fit);
            let (sigma, v) = sigma_and_v(&k, &model, &data.x);
            let expected = inverse(&sigma).dot(&v.t()).dot(&centred);
            within(DIVIDED, &scores(&model, &data.new), &expected);
            within(DIVIDED, &scores(&model, &point(&data.new, 2)), &point(&expected, 2));
        }
    }
}

// "Out-of-sample Reconstruction".

/// Eq. (equation_outOfSample_reconstruct_kernel_PCA): φ(x̂_t) = Φ̆(X)VΣ⁻²Vᵀk̆_t + μ_x, but
/// "kernel PCA is not able to reconstruct any data, whether training or out-of-sample".
#[test]
fn new_points_are_not_reconstructed() {
    for (data, _, fits) in kernel_cases() {
        refuses_to_reconstruct(&data.fit(fits[0].clone()), &data.new);
    }
}
