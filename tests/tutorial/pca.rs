//! Section "Principal Component Analysis".

use super::*;
use eigenstream::Components;

fn pca(form: Form) -> Fit {
    in_form(Fit::pca(), form)
}

// "A Projection Point of View": nothing is centred yet.

/// Eqs. (equation_projection), (equation_residual_1) and (equation_beta): x̂ = Uβ with
/// β = (UᵀU)⁻¹Uᵀx, and the residual r = x − Uβ is orthogonal to U.
#[test]
fn coefficients_solve_the_normal_equations() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).uncentered());
        let u = directions(&model);
        let beta = inverse(&u.t().dot(&u)).dot(&u.t()).dot(&data.x);
        near(&scores(&model, &data.x), &beta);
        let r = &data.x - &restored(&model, &data.x);
        near(&r, &(&data.x - &u.dot(&beta)));
        vanishes(&u.t().dot(&r), size(&data.x));
    }
}

/// Eq. (equation_hat_matrix): Π = U(UᵀU)⁻¹Uᵀ, which for orthonormal columns is UUᵀ.
#[test]
fn the_hat_matrix_projects_and_reconstructs() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).uncentered());
        let u = directions(&model);
        let pi = u.dot(&inverse(&u.t().dot(&u))).dot(&u.t());
        near(&pi, &u.dot(&u.t()));
        near(&pi.dot(&pi), &pi);
        near(&restored(&model, &data.x), &pi.dot(&data.x));
    }
}

/// Eq. (equation_x_hat): x̂ = Πx = UUᵀx, of one data point.
#[test]
fn a_point_gets_its_hat() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).uncentered());
        let u = directions(&model);
        for x in [point(&data.x, 4), point(&data.new, 2)] {
            near(&restored(&model, &x), &u.dot(&u.t()).dot(&x));
        }
    }
}

// "Projection and Reconstruction in PCA".

/// "PCA is applied on the non-centered data … Latent Semantic Indexing": the eigenvectors of XXᵀ.
#[test]
fn latent_semantic_indexing_does_not_centre() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).uncentered());
        let (lambda, u) = leading(&data.x.dot(&data.x.t()), P);
        let u = signed_like(&u, &directions(&model));
        near(&eigenvalues(&model), &lambda);
        near(&scores(&model, &data.x), &u.t().dot(&data.x));
    }
}

/// Eqs. (equation_projection_onePoint) and (equation_mean_removed_x): x̃ = Uᵀ(x − μ_x) with
/// μ_x = (1/n) Σ x_i.
#[test]
fn one_point_is_projected_around_the_mean() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let sum = data.x.columns().into_iter().fold(Array1::zeros(data.d()), |sum, x| sum + x);
        let mean = sum / data.n() as f64;
        near(&model.mean, &mean);
        let (_, u) = leading(&data.covariance(), P);
        let u = signed_like(&u, &directions(&model));
        let x = point(&data.x, 4);
        near(&scores(&model, &x), &u.t().dot(&(&x - &mean.insert_axis(Axis(1)))));
    }
}

/// Eq. (equation_reconstruction_onePoint): x̂ = UUᵀx̆ + μ_x = Ux̃ + μ_x.
#[test]
fn one_point_is_reconstructed_and_the_mean_added_back() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let x = point(&data.x, 4);
        let expected = u.dot(&u.t()).dot(&(&x - &data.mean())) + data.mean();
        near(&restored(&model, &x), &expected);
        near(&(directions(&model).dot(&scores(&model, &x)) + data.mean()), &expected);
    }
}

/// Eq. (equation_centered_training_data): X̆ = XH = X − μ_x with H = I − (1/n) 11ᵀ.
#[test]
fn the_centring_matrix_removes_the_mean_of_the_model() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let mean = model.mean.clone().insert_axis(Axis(1));
        near(&(&data.x - &mean), &data.x.dot(&centring(data.n())));
    }
}

/// Eq. (equation_projection_severalPoint): X̃ = UᵀX̆.
#[test]
fn training_points_are_projected() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let u = signed_like(&u, &directions(&model));
        near(&directions(&model), &u);
        near(&scores(&model, &data.x), &u.t().dot(&data.centred()));
    }
}

/// Eq. (equation_reconstruction_severalPoint): X̂ = UUᵀX̆ + μ_x.
#[test]
fn training_points_are_reconstructed() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let expected = u.dot(&u.t()).dot(&data.centred()) + data.mean();
        near(&restored(&model, &data.x), &expected);
    }
}

/// Eq. (equation_outOfSample_projection_PCA), for one point and for all n_t: X̃_t = UᵀX̆_t with
/// X̆_t = X_t − μ_x, "centered using the mean of training data".
#[test]
fn new_points_are_projected_around_the_training_mean() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let u = signed_like(&u, &directions(&model));
        let expected = u.t().dot(&(&data.new - &data.mean()));
        near(&scores(&model, &data.new), &expected);
        near(&scores(&model, &point(&data.new, 2)), &point(&expected, 2));
    }
}

/// Eq. (equation_outOfSample_reconstruct_PCA), for one point and for all n_t:
/// X̂_t = UUᵀX̆_t + μ_x.
#[test]
fn new_points_are_reconstructed_around_the_training_mean() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let expected = u.dot(&u.t()).dot(&(&data.new - &data.mean())) + data.mean();
        near(&restored(&model, &data.new), &expected);
        near(&restored(&model, &point(&data.new, 2)), &point(&expected, 2));
    }
}

// "Projection Onto One Direction".

/// Eq. (equation_x_hat_length_squared): ‖x̂‖² = ‖uuᵀx̆‖² = uᵀx̆x̆ᵀu, the mean not added back.
#[test]
fn a_projection_on_one_direction_has_a_length() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).components(1));
        let (_, u) = leading(&data.covariance(), 1);
        for i in 0..data.n() {
            let x = point(&data.centred(), i);
            let hat = restored(&model, &point(&data.x, i)) - data.mean();
            let expected = u.t().dot(&x).dot(&x.t()).dot(&u);
            let scale = size(&x) * size(&x);
            vanishes(&(expected - frobenius(&hat)), scale);
        }
    }
}

/// Eq. (equation_sum_projected): Σ‖x̂_i‖² = uᵀ(Σ x̆_i x̆_iᵀ)u = uᵀSu.
#[test]
fn squared_lengths_add_up_to_a_quadratic_form() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).components(1));
        let u = directions(&model);
        let hats = restored(&model, &data.x) - data.mean();
        equal(frobenius(&hats), u.t().dot(&data.covariance()).dot(&u)[[0, 0]]);
    }
}

/// Eq. (equation_covariance_matrix): S = Σ x̆_i x̆_iᵀ = X̆X̆ᵀ = XHHᵀXᵀ = XHXᵀ, which all
/// eigenpairs of the model give back.
#[test]
fn the_covariance_matrix_is_what_is_decomposed() {
    for (data, form) in cases(&LINEAR) {
        let (x, h) = (data.centred(), centring(data.n()));
        let s = x.columns().into_iter().fold(Array2::zeros((data.d(), data.d())), |sum, x| {
            let x = x.insert_axis(Axis(1));
            sum + x.dot(&x.t())
        });
        near(&x.dot(&x.t()), &s);
        near(&data.x.dot(&h).dot(&h.t()).dot(&data.x.t()), &s);
        near(&data.covariance(), &s);
        let all = if form == Form::Randomized {
            Components::Count(data.d().min(data.n() - 1))
        } else {
            Components::All
        };
        let model = data.fit(pca(form).components(all));
        let u = directions(&model);
        near(&u.dot(&diagonal(&eigenvalues(&model))).dot(&u.t()), &s);
    }
}

/// "uᵀSu is the variance of the projected data": uᵀSu = Var(uᵀX̆), without the 1/(n − 1) that the
/// program's `explained_variance` has.
#[test]
fn the_quadratic_form_is_the_variance_of_the_projection() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (u, z) = (directions(&model), scores(&model, &data.x));
        let s = data.covariance();
        let told = Array1::from_vec(model.explained_variance().unwrap());
        let freedom = (data.n() - 1) as f64;
        near(&(told * freedom), &u.t().dot(&s).dot(&u).diag().to_owned());
        let variances = z.rows().into_iter().map(|row| row.var(1.0) * freedom).collect();
        near(&u.t().dot(&s).dot(&u).diag().to_owned(), &variances);
    }
}

/// "maximize uᵀSu subject to uᵀu = 1": no other unit vector has more.
#[test]
fn the_first_direction_has_the_most_variance() {
    for (data, form) in cases(&LINEAR) {
        let u = directions(&data.fit(pca(form).components(1)));
        let s = data.covariance();
        let most = u.t().dot(&s).dot(&u)[[0, 0]];
        equal(frobenius(&u), 1.0);
        equal(most, leading(&s, 1).0[0]);
        for other in 0..50 {
            let v = Array2::from_shape_fn((data.d(), 1), |(j, _)| noise(other, j));
            assert!(v.t().dot(&s).dot(&v)[[0, 0]] < most * frobenius(&v));
        }
    }
}

/// Eq. (equation_pca_eigendecomposition_1): Su = λu, with the largest λ.
#[test]
fn the_first_direction_is_the_leading_eigenvector() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form).components(1));
        let (u, s) = (directions(&model), data.covariance());
        near(&s.dot(&u), &(&u * model.eigenvalues[0]));
        equal(model.eigenvalues[0], leading(&s, 1).0[0]);
    }
}

// "Projection Onto Span of Several Directions".

/// ‖X̂‖_F² = tr(UᵀSU), the mean not added back.
#[test]
fn the_squared_length_of_a_reconstruction_is_a_trace() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let hat = restored(&model, &data.x) - data.mean();
        equal(frobenius(&hat), trace(&u.t().dot(&data.covariance()).dot(&u)));
    }
}

/// "maximize tr(UᵀSU) subject to UᵀU = I": no other orthonormal columns have more.
#[test]
fn the_directions_together_have_the_most_variance() {
    for (data, form) in cases(&LINEAR) {
        let u = directions(&data.fit(pca(form)));
        let s = data.covariance();
        let most = trace(&u.t().dot(&s).dot(&u));
        orthonormal(&u);
        equal(most, leading(&s, P).0.sum());
        for other in 0..20 {
            let v = any_orthonormal(data.d(), P, other);
            assert!(trace(&v.t().dot(&s).dot(&v)) < most);
        }
    }
}

/// Orthonormal columns in no particular direction.
fn any_orthonormal(d: usize, p: usize, seed: usize) -> Array2<f64> {
    svd(&Array2::from_shape_fn((d, p), |(j, k)| noise(j + 100 * seed, k)), p).0
}

/// Eq. (equation_pca_eigendecomposition_2): SU = UΛ, "sorted from the leading to the trailing".
#[test]
fn the_directions_are_the_sorted_eigenvectors() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (u, s) = (directions(&model), data.covariance());
        let (lambda, expected) = leading(&s, P);
        near(&eigenvalues(&model), &lambda);
        near(&u, &signed_like(&expected, &u));
        near(&s.dot(&u), &u.dot(&diagonal(&lambda)));
        assert!(lambda.windows(2).into_iter().all(|pair| pair[0] > pair[1]));
    }
}

// "Properties of U".

/// "Rank of the Covariance Matrix": rank(S) ≤ n − 1 where d ≥ n, and ≤ d where d ≤ n − 1.
#[test]
fn the_rank_is_that_of_the_features_or_one_less_than_the_points() {
    for (data, form) in cases(&[Form::Primal, Form::Dual]) {
        let model = data.fit(pca(form).components(Components::All));
        let rank = if data.d() >= data.n() { data.n() - 1 } else { data.d() };
        assert_eq!((model.header.rank, model.n_components()), (Some(rank), rank));
    }
}

/// A with a feature that is the sum of two others: rank(S) < d although n > d.
fn on_a_subspace() -> Data {
    let mut data = Data::new("A on a subspace", 60, 8);
    let sum = &data.x.row(0) + &data.x.row(1);
    data.x.row_mut(7).assign(&sum);
    data
}

/// "Truncating U", its three cases and the truncated one: UᵀU = I always, UUᵀ = I only where U is
/// square.
#[test]
fn columns_are_orthonormal_and_rows_only_of_a_square_matrix() {
    let [a, b] = data();
    for form in [Form::Primal, Form::Dual] {
        for (data, p) in [(&a, 8), (&on_a_subspace(), 7), (&b, 19)] {
            let all = directions(&data.fit(pca(form).components(Components::All)));
            assert_eq!(all.dim(), (data.d(), p), "{}", data.name);
            let truncated = directions(&data.fit(pca(form)));
            for u in [&all, &truncated] {
                orthonormal(u);
                let product = u.dot(&u.t());
                let (rank, square) = (u.ncols(), u.ncols() == u.nrows());
                equal(trace(&product), rank as f64);
                assert_eq!(size(&(product - Array2::<f64>::eye(data.d()))) < ROUNDING, square);
            }
            within(DIVIDED, &truncated, &all.slice(s![.., ..P]).to_owned());
        }
    }
}

// "Reconstruction Error in PCA".

/// "Reconstruction in Linear Projection": r = x − x̂ = x̆ − UUᵀx̆, of one point.
#[test]
fn the_residual_of_a_point_is_what_the_directions_do_not_see() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let (x, centred) = (point(&data.x, 4), point(&data.centred(), 4));
        near(&(&x - &restored(&model, &x)), &(&centred - &u.dot(&u.t()).dot(&centred)));
    }
}

/// R = X − X̂ = X̆ − UUᵀX̆, of all points.
#[test]
fn the_residuals_of_all_points() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (_, u) = leading(&data.covariance(), P);
        let r = &data.x - &restored(&model, &data.x);
        near(&r, &(data.centred() - u.dot(&u.t()).dot(&data.centred())));
    }
}

/// "PCA has the least squared error in reconstruction": ‖X̆ − UUᵀX̆‖_F² is
/// tr(X̆ᵀX̆) − tr(X̆X̆ᵀUUᵀ), and more for any other orthonormal U.
#[test]
fn the_squared_error_is_the_least() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (u, x) = (directions(&model), data.centred());
        let error = frobenius(&(&data.x - &restored(&model, &data.x)));
        let traces = trace(&x.t().dot(&x)) - trace(&x.dot(&x.t()).dot(&u).dot(&u.t()));
        vanishes(&array![[error - traces]], frobenius(&x));
        for other in 0..20 {
            let v = any_orthonormal(data.d(), P, other);
            assert!(frobenius(&(&x - &v.dot(&v.t()).dot(&x))) > error);
        }
    }
}

/// The Lagrangian of that error gives X̆X̆ᵀU = UΛ, "again the eigenvalue problem".
#[test]
fn the_least_error_is_the_same_eigenvalue_problem() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (u, x) = (directions(&model), data.centred());
        near(&x.dot(&x.t()).dot(&u), &u.dot(&diagonal(&eigenvalues(&model))));
    }
}

/// Eq. (equation_linear_autoencoder_reconstruction), "Reconstruction in Autoencoder": with
/// Ü = U₁⋯U_m, X̂ = ÜÜᵀX̆ + μ_x; PCA of a PCA's scores is PCA.
#[test]
fn a_linear_autoencoder_is_pca() {
    for (data, form) in cases(&LINEAR) {
        let first = data.fit(pca(form).components(P + 2));
        let layer = Data { x: scores(&first, &data.x), ..Data::new("scores", data.n(), P + 2) };
        let second = layer.fit(pca(form));
        let u = directions(&first).dot(&directions(&second));
        orthonormal(&u);
        let hat = u.dot(&u.t()).dot(&data.centred()) + data.mean();
        near(&restored(&data.fit(pca(form)), &data.x), &hat);
        let decoded = directions(&first).dot(&restored(&second, &layer.x)) + data.mean();
        near(&decoded, &hat);
    }
}

// "PCA Using Singular Value Decomposition".

/// X̆ = UΣVᵀ: "take the left singular vectors as the principal directions"; they come sorted.
#[test]
fn left_singular_vectors_are_the_directions() {
    for (data, form) in cases(&LINEAR) {
        let model = data.fit(pca(form));
        let (u, sigma, _) = svd(&data.centred(), P);
        near(&directions(&model), &signed_like(&u, &directions(&model)));
        near(&eigenvalues(&model).mapv(f64::sqrt), &sigma);
    }
}

// "Determining the Number of Principal Directions".

/// λ_j / Σ λ_k, and as many directions as a share of it asks for.
#[test]
fn the_ratio_chooses_the_number_of_directions() {
    for (data, form) in cases(&LINEAR) {
        let (lambda, _) = leading(&data.covariance(), data.d());
        let ratio = &lambda / lambda.sum();
        let told = data.fit(pca(form)).explained_variance_ratio().unwrap();
        near(&Array1::from_vec(told), &ratio.slice(s![..P]).to_owned());
        for share in [0.5, 0.8] {
            let reached = |p: &usize| ratio.slice(s![..*p]).sum() >= share;
            let expected = (1..=data.d()).find(reached).unwrap();
            let model = data.fit(pca(form).components(Components::Ratio(share)));
            assert_eq!(model.n_components(), expected);
        }
    }
}

/// The scree plot: every eigenvalue in order, and `elbow` for "where the eigenvalue drops
/// significantly".
#[test]
fn the_scree_plot_has_an_elbow() {
    for (mut data, form) in cases(&[Form::Primal, Form::Dual]) {
        data.x.slice_mut(s![..2, ..]).mapv_inplace(|v| 40.0 * v);
        let (lambda, _) = leading(&data.covariance(), data.d().min(data.n() - 1));
        let model = data.fit(pca(form).components(Components::Elbow));
        assert_eq!(model.n_components(), 2);
        near(&model.eigenvalues.slice(s![..lambda.len()]).to_owned(), &lambda);
    }
}
