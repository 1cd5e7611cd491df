//! Appendices: "Centering Matrix", "Singular Value Decomposition", "Centring the Kernel Matrix for
//! Training and Out-of-sample Data".

use super::kernel::kernels;
use super::*;
use eigenstream::Components;
use ndarray::concatenate;

// "Centering Matrix".

/// A of the illustration; its columns are three points of two features.
fn illustration() -> Array2<f64> {
    array![[1.0, 2.0, 3.0], [4.0, 3.0, 1.0]]
}

/// What the program subtracts from the columns of A.
fn subtracted(a: &Array2<f64>) -> Array2<f64> {
    let model = Fit::pca().plan(&ArrowTable::from(batch(a))).unwrap().run(&Quiet).unwrap();
    model.mean.insert_axis(Axis(1))
}

/// The matrices of the tests below: the illustration and both data sets.
fn matrices() -> Vec<Array2<f64>> {
    let [a, b] = data();
    vec![illustration(), a.x, b.x]
}

/// Eqs. (equation_left_centering_matrix) and (equation_left_centered_matrix):
/// HA = (Aᵀ − μ_rows)ᵀ.
#[test]
fn the_left_centring_matrix_removes_the_mean_row() {
    for a in matrices() {
        let rows = subtracted(&a.t().to_owned());
        near(&centring(a.nrows()).dot(&a), &(&a - &rows.t()));
    }
}

/// Eqs. (equation_right_centering_matrix) and (equation_right_centered_matrix): AH = A − μ_cols.
#[test]
fn the_right_centring_matrix_removes_the_mean_column() {
    for a in matrices() {
        near(&a.dot(&centring(a.ncols())), &(&a - &subtracted(&a)));
    }
}

/// Eq. (equation_appendix_doubleCentered_A) and after:
/// HAH = (Aᵀ − μ_rows)ᵀ − μ_cols + μ_all.
#[test]
fn both_remove_both_means_and_add_the_overall_one() {
    for a in matrices() {
        let (rows, columns) = (subtracted(&a.t().to_owned()), subtracted(&a));
        let all = a.sum() / a.len() as f64;
        let double = centring(a.nrows()).dot(&a).dot(&centring(a.ncols()));
        near(&double, &(&a - &rows.t() - &columns + all));
    }
}

/// Eqs. (equation_centeringMatrix_is_symmetric) and (equation_centeringMatrix_is_idempotent):
/// Hᵀ = H and Hᵏ = H; what is centred keeps its scores.
#[test]
fn the_centring_matrix_is_symmetric_and_idempotent() {
    for (data, form) in cases(&LINEAR) {
        let h = centring(data.n());
        near(&h.t().to_owned(), &h);
        near(&h.dot(&h), &h);
        near(&h.dot(&h).dot(&h), &h);
        let again = Data { x: data.centred(), ..data.clone() };
        let models = [data.fit(in_form(Fit::pca(), form)), again.fit(in_form(Fit::pca(), form))];
        near(&scores(&models[0], &data.x), &scores(&models[1], &again.x));
    }
}

/// "For illustration, we provide a simple example", to the two digits that are printed.
#[test]
fn the_illustration_has_its_numbers() {
    let (a, two, three) = (illustration(), centring(2), centring(3));
    let printed = |found: &Array2<f64>, text: Array2<f64>| {
        assert!(size(&(found - &text)) < 0.01, "{found} and {text}");
    };
    printed(&subtracted(&a.t().to_owned()), array![[2.5], [2.5], [2.0]]);
    printed(&subtracted(&a), array![[2.0], [2.66]]);
    printed(&two.dot(&a), array![[-1.5, -0.5, 1.0], [1.5, 0.5, -1.0]]);
    printed(&a.dot(&three), array![[-1.0, 0.0, 1.0], [1.34, 0.34, -1.66]]);
    printed(&two.dot(&a).dot(&three), array![[-1.17, -0.17, 1.33], [1.17, 0.17, -1.33]]);
    let model = Fit::pca().plan(&ArrowTable::from(batch(&a))).unwrap().run(&Quiet).unwrap();
    near(&directions(&model).dot(&scores(&model, &a)), &a.dot(&three));
}

// "Singular Value Decomposition".

/// The complete and the incomplete SVD, k = min(α, β): UᵀU = I and VᵀV = I, and UUᵀ = I and VVᵀ = I
/// where they are not truncated. A model with all components has the incomplete one.
#[test]
fn singular_vectors_are_orthonormal() {
    for (data, form) in cases(&[Form::Primal, Form::Dual]) {
        let x = data.centred();
        let (u, _, vt) = x.as_standard_layout().svd(true, true).unwrap();
        for square in [u.unwrap(), vt.unwrap()] {
            orthonormal(&square);
            orthonormal(&square.t().to_owned());
        }
        let (u, sigma, v) = svd(&x, data.d().min(data.n()));
        near(&u.dot(&diagonal(&sigma)).dot(&v.t()), &x);
        let model = data.fit(in_form(Fit::pca(), form).components(Components::All));
        let rank = model.n_components();
        orthonormal(&directions(&model));
        near(&eigenvalues(&model), &sigma.slice(s![..rank]).mapv(|v| v * v));
        assert!(size(sigma.slice(s![rank..])) < ROUNDING * sigma[0]);
    }
}

/// Proposition (proposition_SVD): AAᵀ = UΣ²Uᵀ and AᵀA = VΣ²Vᵀ, one Σ² for the d × d side and the
/// n × n one.
#[test]
fn singular_values_are_roots_of_eigenvalues_of_either_side() {
    for (data, form) in cases(&LINEAR) {
        let a = data.centred();
        let model = data.fit(in_form(Fit::pca(), form));
        let (u, sigma, v) = svd(&a, P);
        let squares = diagonal(&sigma.mapv(|v| v * v));
        near(&a.dot(&a.t()).dot(&u), &u.dot(&squares));
        near(&a.t().dot(&a).dot(&v), &v.dot(&squares));
        near(&diagonal(&eigenvalues(&model)), &squares);
    }
}

// "Centring the Kernel Matrix for Training and Out-of-sample Data".

/// K̆_t by Eq. (equation_appendix_doubleCentered_outOfSample_kernel).
fn double_centred_new(k: &Array2<f64>, k_t: &Array2<f64>) -> Array2<f64> {
    let n = k.nrows();
    let (ones, ones_t) = (Array2::<f64>::ones((n, n)), Array2::<f64>::ones(k_t.dim()));
    let n = n as f64;
    k_t - &(ones.dot(k_t) / n) - &(k.dot(&ones_t) / n) + ones.dot(k).dot(&ones_t) / (n * n)
}

/// Eqs. (equation_appendix_kernel_elements), (equation_appendix_centered_pulled_training) and
/// (equation_appendix_doubleCentered_training_kernel): with φ̆(x_i) = φ(x_i) − (1/n) Σ φ(x_k),
/// K̆ = K − 1K/n − K1/n + 1K1/n² = HKH.
#[test]
fn the_training_kernel_is_double_centred() {
    for data in data() {
        for case in kernels(data.d()).into_iter().filter(|case| case.semidefinite) {
            let k = gram(&data.x, &data.x, &*case.k);
            let (n, h) = (data.n() as f64, centring(data.n()));
            let ones = Array2::<f64>::ones(k.dim());
            let expected =
                &k - &(ones.dot(&k) / n) - &(k.dot(&ones) / n) + ones.dot(&k).dot(&ones) / (n * n);
            near(&h.dot(&k).dot(&h), &expected);
            let fit = in_form(Fit::kpca(case.options), Form::Exact);
            let phi = scores(&data.fit(fit.components(Components::All)), &data.x);
            near(&phi.t().dot(&phi), &expected);
        }
    }
}

/// Eq. (equation_appendix_doubleCentered_outOfSample_kernel) and, for one point,
/// (equation_appendix_doubleCentered_outOfSample_kernel_oneSample):
/// K̆_t = K_t − 1K_t/n − K1/n + 1K1/n², the inner products of training scores with new ones.
#[test]
fn the_kernel_of_new_points_is_centred_by_the_training_kernel() {
    for data in data() {
        for case in kernels(data.d()).into_iter().filter(|case| case.semidefinite) {
            println!("data {}, {} kernel", data.name, case.name);
            let k = gram(&data.x, &data.x, &*case.k);
            let expected = double_centred_new(&k, &gram(&data.x, &data.new, &*case.k));
            let fit = in_form(Fit::kpca(case.options), Form::Exact);
            let model = data.fit(fit.components(Components::All));
            let phi = scores(&model, &data.x);
            within(DIVIDED, &phi.t().dot(&scores(&model, &data.new)), &expected);
            let one = phi.t().dot(&scores(&model, &point(&data.new, 2)));
            within(DIVIDED, &one, &point(&expected, 2));
        }
    }
}

/// Eq. (equation_appendix_centered_pulled_outOfSample): φ̆(x_t) = φ(x_t) − (1/n) Σ φ(x_k), by the
/// mean "of training (and not out-of-sample) data", to be seen where φ is: K̆_t = X̆ᵀX̆_t of a linear
/// kernel. Which new points come together changes nothing.
#[test]
fn new_points_are_centred_by_the_training_points() {
    for data in data() {
        let (k, k_t) = (data.x.t().dot(&data.x), data.x.t().dot(&data.new));
        near(&double_centred_new(&k, &k_t), &data.centred().t().dot(&data.new_centred()));
        for case in kernels(data.d()) {
            let model = data.fit(in_form(Fit::kpca(case.options), Form::Exact));
            let together = concatenate![Axis(1), data.x, data.new];
            let apart = [scores(&model, &data.x), scores(&model, &data.new)];
            near(&scores(&model, &together), &concatenate![Axis(1), apart[0], apart[1]]);
        }
    }
}
