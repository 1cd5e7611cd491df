//! Section "Kernel Supervised PCA", direct and dual.

use super::kernel::{Case, kernels, refuses_to_reconstruct};
use super::spca::{Labels, delta, labels};
use super::*;
use eigenstream::{KernelKind, LabelKernel, LabelOptions};
use ndarray_linalg::Eig;

/// The forms of kernel supervised PCA.
const BOTH: [Form; 2] = [Form::Direct, Form::Dual];

fn kspca(case: &Case, labels: &Labels, form: Form) -> Fit {
    in_form(Fit::kspca(case.options.clone(), labels.options.clone()), form)
}

/// What an equation is about.
struct Fitted {
    data: Data,
    labels: Labels,
    model: Model,
    /// K_x.
    k: Array2<f64>,
    /// K_t.
    k_t: Array2<f64>,
    /// HK_yH.
    hkh: Array2<f64>,
}

/// Every data set, kernel and kernel over labels in both forms.
fn fitted(check: impl Fn(&Fitted)) {
    for (data, form) in cases(&BOTH) {
        for case in kernels(data.d()).into_iter().filter(|case| case.semidefinite) {
            for labels in labels(&data) {
                println!("{} kernel, labels: {}", case.name, labels.name);
                let model = data.fit(kspca(&case, &labels, form));
                assert_eq!((model.n_components(), model.header.form), (labels.p, form));
                let h = centring(data.n());
                let hkh = h.dot(&labels.kernel).dot(&h);
                let k = gram(&data.x, &data.x, &*case.k);
                let k_t = gram(&data.x, &data.new, &*case.k);
                check(&Fitted { data: data.clone(), labels, model, k, k_t, hkh });
            }
        }
    }
}

impl Fitted {
    /// Θ of the model: n × p.
    fn theta(&self) -> Array2<f64> {
        self.model.kernel_map().unwrap().coefficients.t().to_owned()
    }

    /// The leading solutions of K_xHK_yHK_xΘ = K_xΘΛ with ΘᵀK_xΘ = I, signed as the model's: with
    /// K_x = K^½K^½ and W = K^½Θ it is K^½HK_yHK^½W = WΛ, and then Θ = HK_yHK_xΘΛ⁻¹.
    fn generalised(&self) -> (Array1<f64>, Array2<f64>) {
        let (values, q) = leading(&self.k, self.data.n());
        let root = q.dot(&diagonal(&values.mapv(|v| v.max(0.0).sqrt()))).dot(&q.t());
        let (lambda, w) = leading(&root.dot(&self.hkh).dot(&root), self.labels.p);
        let theta = self.hkh.dot(&root).dot(&w).dot(&inverse(&diagonal(&lambda)));
        (lambda, signed_like(&theta, &self.theta()))
    }

    /// ΔᵀHK_xHΔV = VΣ²: Σ as a matrix, and HΔV signed as the model's Θ = HΔVΣ⁻¹.
    fn dual(&self) -> [Array2<f64>; 2] {
        let factor = centring(self.data.n()).dot(&delta(&self.labels.kernel));
        let (squared, v) = leading(&factor.t().dot(&self.k).dot(&factor), self.labels.p);
        let hdv = signed_like(&factor.dot(&v), &self.theta());
        [diagonal(&squared.mapv(f64::sqrt)), hdv]
    }
}

// "Kernel SPCA Using Direct SPCA".

/// Eq. (equation_U_kernel_SPCA): U = Φ(X)Θ, to be seen where Φ is: with a linear kernel it is the U
/// of SPCA.
#[test]
fn directions_are_combinations_of_training_points() {
    for (data, form) in cases(&BOTH) {
        for labels in labels(&data) {
            let fit = Fit::kspca(KernelKind::Linear, labels.options.clone());
            let model = data.fit(in_form(fit, form));
            let u = data.x.dot(&model.kernel_map().unwrap().coefficients.t());
            let h = centring(data.n());
            let a = data.x.dot(&h).dot(&labels.kernel).dot(&h).dot(&data.x.t());
            near(&u, &signed_like(&leading(&a, labels.p).1, &u));
        }
    }
}

/// Eqs. (equation_traceInHSIC_kernel_SPCA) and after: (n − 1)² HSIC = tr(ΘᵀK_xHK_yHK_xΘ).
#[test]
fn hsic_of_the_projections_is_a_trace_of_kernels() {
    fitted(|case| {
        let theta = case.theta();
        let inner = case.k.dot(&case.hkh).dot(&case.k);
        let freedom = (case.data.n() - 1) as f64;
        let expected = trace(&theta.t().dot(&inner).dot(&theta)) / freedom.powi(2);
        let measured = case.data.hsic(Hsic::new(case.labels.options.clone()), Some(&case.model));
        let told = case.model.header.hsic.unwrap();
        within(DIVIDED, &array![told, measured], &array![expected, expected]);
    });
}

/// UᵀU = ΘᵀK_xΘ = I.
#[test]
fn directions_are_orthonormal_by_the_kernel() {
    fitted(|case| {
        let theta = case.theta();
        let product = theta.t().dot(&case.k).dot(&theta);
        within(DIVIDED, &product, &Array2::eye(case.labels.p));
    });
}

/// Eq. (equation_kernel_SPCA_generalized_eigen_problem): K_xHK_yHK_xΘ = K_xΘΛ, its leading
/// solutions, which maximize tr(ΘᵀK_xHK_yHK_xΘ).
#[test]
fn the_generalised_problem_is_solved() {
    fitted(|case| {
        let (lambda, _) = case.generalised();
        near(&eigenvalues(&case.model), &lambda);
        let (theta, inner) = (case.theta(), case.k.dot(&case.hkh).dot(&case.k));
        within(DIVIDED, &inner.dot(&theta), &case.k.dot(&theta).dot(&diagonal(&lambda)));
    });
}

/// "we can naively solve … by left multiplying K_x⁻¹": HK_yHK_xΘ = ΘΛ.
#[test]
fn the_naive_problem_is_solved_too() {
    fitted(|case| {
        let a = case.hkh.dot(&case.k);
        let (values, _) = a.eig().unwrap();
        let mut values: Vec<f64> = values.iter().map(|v| v.re).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        let lambda = eigenvalues(&case.model);
        within(DIVIDED, &lambda, &Array1::from_vec(values[..case.labels.p].to_vec()));
        let theta = case.theta();
        within(DIVIDED, &a.dot(&theta), &theta.dot(&diagonal(&lambda)));
    });
}

/// Φ(X̃) = UᵀΦ(X) = ΘᵀK_x.
#[test]
fn training_points_are_projected_by_theta() {
    fitted(|case| {
        let (_, theta) = case.generalised();
        within(DIVIDED, &scores(&case.model, &case.data.x), &theta.t().dot(&case.k));
    });
}

/// φ(x̃_t) = Uᵀφ(x_t) = Θᵀk_t, for one point and for all n_t (ΘᵀK_t): not centred.
#[test]
fn new_points_are_projected_by_theta() {
    fitted(|case| {
        let (_, theta) = case.generalised();
        let expected = theta.t().dot(&case.k_t);
        within(DIVIDED, &scores(&case.model, &case.data.new), &expected);
        let one = scores(&case.model, &point(&case.data.new, 2));
        within(DIVIDED, &one, &point(&expected, 2));
    });
}

// "Kernel SPCA Using Dual SPCA".

/// Eqs. (equation_Psi_kernel_SPCA_using_dual) and
/// (equation_kernel_SPCA_eigen_Delta_centered_kernel): with Ψ = Φ(X)HΔ, (ΔᵀK̆_xΔ)V = VΣ².
#[test]
fn the_label_side_of_the_kernel_is_decomposed() {
    fitted(|case| {
        let [sigma, _] = case.dual();
        near(&eigenvalues(&case.model), &sigma.dot(&sigma).diag().to_owned());
    });
}

/// Eq. (equation_U_kernel_SPCA_using_dual): U = ΨVΣ⁻¹ = Φ(X)HΔVΣ⁻¹, so that Θ = HΔVΣ⁻¹.
#[test]
fn theta_comes_from_v() {
    fitted(|case| {
        let [sigma, hdv] = case.dual();
        within(DIVIDED, &case.theta(), &hdv.dot(&inverse(&sigma)));
    });
}

/// Eq. (equation_projected_kernel_SPCA_using_dual): Φ(X̃) = Σ⁻¹VᵀΔᵀHK_x.
#[test]
fn training_points_are_projected_by_the_kernel_dual() {
    fitted(|case| {
        let [sigma, hdv] = case.dual();
        let expected = inverse(&sigma).dot(&hdv.t()).dot(&case.k);
        within(DIVIDED, &scores(&case.model, &case.data.x), &expected);
    });
}

/// φ(x̃_t) = Σ⁻¹VᵀΔᵀHk_t, for one point and for all n_t.
#[test]
fn new_points_are_projected_by_the_kernel_dual() {
    fitted(|case| {
        let [sigma, hdv] = case.dual();
        let expected = inverse(&sigma).dot(&hdv.t()).dot(&case.k_t);
        within(DIVIDED, &scores(&case.model, &case.data.new), &expected);
        let one = scores(&case.model, &point(&case.data.new, 2));
        within(DIVIDED, &one, &point(&expected, 2));
    });
}

/// Eqs. (equation_outOfSample_projected_kernel_SPCA_using_dual) and
/// (equation_outOfSample_reconstruction_kernel_SPCA_using_dual) have Φ(X) in front: "in kernel
/// SPCA, as in kernel PCA, we cannot reconstruct data, whether training or out-of-sample".
#[test]
fn kernel_spca_does_not_reconstruct() {
    fitted(|case| {
        refuses_to_reconstruct(&case.model, &case.data.x);
        refuses_to_reconstruct(&case.model, &case.data.new);
    });
}

/// "PCA is a special case of SPCA!" where the kernel maps to: with K_y = I, Δ = I and
/// HK_xHV = VΣ² has the directions of kernel PCA; scores are Σ⁻¹VᵀHk_t all the same, not centred.
#[test]
fn kernel_pca_is_a_special_case() {
    for (data, form) in cases(&BOTH) {
        for case in kernels(data.d()).into_iter().filter(|case| case.semidefinite) {
            println!("{} kernel", case.name);
            let identity = LabelOptions { kernel: Some(LabelKernel::Identity), ..["class"].into() };
            let model = data.fit(in_form(Fit::kspca(case.options.clone(), identity), form));
            let k = gram(&data.x, &data.x, &*case.k);
            let h = centring(data.n());
            let (squared, v) = leading(&h.dot(&k).dot(&h), P);
            near(&eigenvalues(&model), &squared);
            let found = scores(&model, &data.x);
            let v = signed_like(&v, &found.dot(&h).t().to_owned());
            let theta = h.dot(&v).dot(&inverse(&diagonal(&squared.mapv(f64::sqrt))));
            within(DIVIDED, &found, &theta.t().dot(&k));
            let k_t = gram(&data.x, &data.new, &*case.k);
            within(DIVIDED, &scores(&model, &data.new), &theta.t().dot(&k_t));
        }
    }
}
