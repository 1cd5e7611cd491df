//! `fit --basis`.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles};
use ndarray::Array2;

const D: usize = 5;

/// Old and new rows, the new ones with weights and other columns beside them.
fn data() -> (Workdir, Array2<f64>) {
    let dir = Workdir::new();
    dir.matrix("old.parquet", &rows(90, D), 40);
    let x = rows(70, D).mapv(|v| (3.0 * v).sin() + 5.0);
    let mut columns =
        vec![("w".to_string(), doubles((0..70).map(|i| 1.0 + f64::from(i % 2)).collect()))];
    columns.extend((0..D).rev().map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))));
    columns.push(("z".into(), doubles((0..70).map(f64::from).collect())));
    dir.table("new.parquet", columns, 30);
    dir.ok(&["fit", "old.parquet", "-k", "3", "-o", "old.safetensors", "--quiet"]);
    (dir, x)
}

const FIT: [&str; 6] =
    ["fit", "new.parquet", "--basis", "old.safetensors", "-o", "new.safetensors"];

#[test]
fn old_directions_are_kept_while_data_moves_on() {
    let (dir, x) = data();
    let run = dir.ok(&FIT);
    assert!(
        run.stderr.contains("along the given basis: scores correlate by up to"),
        "{}",
        run.stderr
    );
    let page = dir.ok(&["inspect", "new.safetensors"]).stdout;
    assert!(page.starts_with("pca, basis form: 70 rows × 5 features, 3 components\n"), "{page}");
    let line = "along the components in old.safetensors that pca found in 90 rows\n";
    assert!(page.contains(line) && page.contains("asked for all, kept 3\n"), "{page}");
    assert!(page.contains(", correlation of scores "), "{page}");
    assert!(!page.contains("leading eigenvalues"), "{page}");
    let (old, new) =
        (dir.json(&["inspect", "old.safetensors"]), dir.json(&["inspect", "new.safetensors"]));
    assert_eq!(old["components"], new["components"]);
    assert_eq!((&old["basis"], &new["basis"]["n_rows"]), (&serde_json::Value::Null, &90.into()));
    close(&array(&new["mean"]), &x.mean_axis(ndarray::Axis(0)).unwrap(), 1e-14, 10.0);
    let scores = ["transform", "new.safetensors", "new.parquet", "--diagnostics", "--residuals"];
    dir.ok(&[&scores[..], &["-o", "s.parquet", "--quiet"]].concat());
    let pcs = dir.numbers("s.parquet", &["pc1", "pc2", "pc3"].map(String::from));
    let variances = pcs.var_axis(ndarray::Axis(0), 1.0);
    close(&array(&new["explained_variance"]), &variances, 1e-13, 10.0);
    let left: Vec<String> = (0..D).map(|j| format!("residual_x{j}")).collect();
    let left = dir.numbers("s.parquet", &left);
    let u = crate::workdir::matrix(&new["components"]);
    close(&left.dot(&u.t()), &Array2::zeros((70, 3)), 1e-13, 10.0);
    // -k cuts it; the weight is no feature; the plan tells one pass, two where means come first.
    let json = dir.json(&[&FIT[..], &["-k", "2", "--weight", "w"]].concat());
    assert_eq!(
        (&json["n_components"], &json["basis"]["path"]),
        (&2.into(), &"old.safetensors".into())
    );
    let plan = ["plan", "new.parquet", "--basis", "old.safetensors"];
    let page = dir.ok(&plan).stdout;
    assert!(page.contains("pca, basis form: variances along 3 given directions add up"), "{page}");
    let json = dir.json(&[&plan[..], &["--nulls", "mean"]].concat());
    assert_eq!((&json["passes"], &json["basis"]["method"]), (&2.into(), &"pca".into()));
}

#[test]
fn what_does_not_go_with_basis_is_refused() {
    let (dir, _) = data();
    std::fs::remove_file(dir.path("new.safetensors")).ok();
    let kept = "does not go with --basis, whose features, scaling and directions are kept";
    for options in [
        &["--method", "spca"][..],
        &["--form", "primal"],
        &["--columns", "x*"],
        &["--exclude", "z"],
        &["--no-center"],
        &["--standardize"],
        &["--label", "z"],
        &["--kernel", "rbf"],
        &["--score-by", "z", "--keep-features", "2"],
        &["--tolerance", "1e-3"],
    ] {
        let said = dir.fails(2, &[&FIT[..], options].concat());
        assert!(
            said.starts_with(&format!("fit: {}", options[0])) && said.ends_with(kept),
            "{said}"
        );
    }
    let said = dir.fails(2, &[&FIT[..], &["-k", "0.9"]].concat());
    assert_eq!(
        said,
        "fit: -k 0.9 chooses by size, and a --basis keeps its order; give a number of components, \
         or all"
    );
    for option in ["--state", "--checkpoint"] {
        let said = dir.fails(2, &[&FIT[..], &[option, "s"]].concat());
        assert_eq!(said, "fit: --basis does not go with --state and --checkpoint");
    }
    let said = dir.fails(2, &[&FIT[..], &["--weight", "x1"]].concat());
    assert_eq!(said, "fit: --weight 'x1' is a feature of the --basis");
    let said = dir.fails(2, &[&FIT[..], &["--weight", "v"]].concat());
    assert!(said.contains("no column 'v'"), "{said}");
    dir.ok(&["fit", "old.parquet", "--method", "kpca", "-o", "kernel", "--quiet"]);
    let said = dir.fails(2, &["fit", "new.parquet", "--basis", "kernel", "-o", "new.safetensors"]);
    assert!(said.contains("this kernel model has none there"), "{said}");
    let said =
        dir.fails(1, &["fit", "new.parquet", "--basis", "new.parquet", "-o", "new.safetensors"]);
    assert!(said.contains("is not an eigenstream model"), "{said}");
    dir.matrix("narrow.parquet", &rows(20, 3), 20);
    let said = dir.fails(1, &["fit", "narrow.parquet", "--basis", "old.safetensors", "-o", "m"]);
    assert_eq!(said, "fit: narrow.parquet: has no column 'x3', which the model needs");
    assert!(!dir.list().contains(&"new.safetensors".to_string()));
}
