//! Mean and co-moment of rows whose missing cells take the feature's own mean, in one pass.
//!
//! Enters: blocks with missing cells. Leaves: the [`CoMoment`] of the filled data. Holds three d ×
//! d matrices (24d²), and three more while a block with missing cells is added.
//!
//! A cell filled with its feature's mean is zero after centring, so only pairs of present cells add
//! to S. Their mean is known only at the end; what is needed to move a sum from one centre to
//! another is carried along. With m = 1 where a cell is present, w the row's weight, y = m·(x − μ):
//!
//! ```text
//! S_ij = Σ w y_i y_j        P_ij = Σ w y_i m_j        C_ij = Σ w m_i m_j
//! centre μ → μ − e (y → y + m·e):
//! S_ij += e_j P_ij + e_i P_ji + e_i e_j C_ij        P_ij += e_i C_ij
//! ```
//!
//! Without missing cells P is 0 and C is W, and the move is Chan's rule.

use super::feature_moments::centre;
use super::stored::{Parts, Restored, Stored, left};
use super::{Accumulate, Center, CoMoment, Moments, Shape, add_outer, column_part};
use crate::blas;
use crate::source::{Block, MissingCell, dense};
use ndarray::{Array1, Array2, Axis, ShapeBuilder, Zip};

/// S, P and C around the mean of the present cells so far.
#[derive(Debug, Clone)]
pub struct ImputedCovariance {
    rows: u64,
    weight: f64,
    mean: Center,
    s: Array2<f64>,
    p: Array2<f64>,
    c: Array2<f64>,
    /// False while no cell was missing: then P is 0 around the mean and C is W everywhere.
    holes: bool,
}

impl ImputedCovariance {
    /// Of no rows yet.
    pub fn new(d: usize) -> ImputedCovariance {
        let zeros = || Array2::zeros((d, d));
        ImputedCovariance {
            rows: 0,
            weight: 0.0,
            mean: Center::zeros(d),
            s: zeros(),
            p: zeros(),
            c: zeros(),
            holes: false,
        }
    }

    fn of(mut block: Block) -> ImputedCovariance {
        let missing = std::mem::take(&mut block.missing);
        let weights = block.weights.take();
        let rows = block.rows();
        let weight = weights.as_ref().map_or(rows as f64, |w| w.sum());
        let roots = weights.as_ref().map(|w| w.mapv(f64::sqrt));
        let mut y = block.into_f64();
        let d = y.ncols();
        let presence = (!missing.is_empty()).then(|| presence(&y, &missing, roots.as_ref()));
        let totals = presence
            .as_ref()
            .map_or_else(|| Array1::from_elem(d, weight), |(_, c)| c.diag().to_owned());
        let mean = centre(&mut y, weights.as_ref(), &missing, &totals);
        if let Some(roots) = &roots {
            dense::scale_rows(&mut y, roots);
        }
        let mut s = Array2::zeros((d, d));
        blas::syrk(y.view(), 0.0, s.view_mut());
        blas::mirror(&mut s);
        let holes = presence.is_some();
        let (p, c) = match presence {
            None => (Array2::zeros((d, d)), Array2::from_elem((d, d), weight)),
            Some((m, c)) => (y.t().dot(&m), c),
        };
        ImputedCovariance { rows: rows as u64, weight, mean, s, p, c, holes }
    }

    /// Moves the centre to `mean`. Where neither side of a merge has holes, the two moves leave P
    /// at 0 (e_a W_a + e_b W_b = 0 around their common mean) and S gets Chan's term.
    fn recentre(&mut self, mean: &Center, holes: bool) {
        let e = self.mean.minus(mean);
        self.mean = mean.clone();
        if !holes {
            add_outer(&mut self.s, self.weight, &e);
            blas::mirror(&mut self.s);
            return;
        }
        for i in 0..e.len() {
            for j in 0..e.len() {
                self.s[[i, j]] +=
                    e[j] * self.p[[i, j]] + e[i] * self.p[[j, i]] + e[i] * e[j] * self.c[[i, j]];
            }
        }
        Zip::from(self.p.rows_mut())
            .and(self.c.rows())
            .and(&e)
            .for_each(|mut p, c, &e| p.scaled_add(e, &c));
    }
}

/// √w·m in y's own order, and C = Σ w m mᵀ.
fn presence(
    y: &Array2<f64>,
    missing: &[MissingCell],
    roots: Option<&Array1<f64>>,
) -> (Array2<f64>, Array2<f64>) {
    let mut m = Array2::from_elem(y.raw_dim().set_f(!y.is_standard_layout()), 1.0);
    dense::put(&mut m, missing, 0.0);
    if let Some(roots) = roots {
        dense::scale_rows(&mut m, roots);
    }
    let mut c = Array2::zeros((y.ncols(), y.ncols()));
    blas::syrk(m.view(), 0.0, c.view_mut());
    blas::mirror(&mut c);
    (m, c)
}

impl Accumulate for ImputedCovariance {
    type Output = CoMoment;

    fn update(&mut self, block: Block) {
        if block.rows() > 0 {
            self.merge(ImputedCovariance::of(block));
        }
    }

    fn merge(&mut self, mut later: ImputedCovariance) {
        if self.weight == 0.0 {
            later.rows += self.rows;
            *self = later;
            return;
        }
        if later.weight == 0.0 {
            self.rows += later.rows;
            return;
        }
        // A centre of no cells is nowhere: it moves to the other one's, with both its parts.
        for i in 0..self.c.nrows() {
            match (self.c[[i, i]] > 0.0, later.c[[i, i]] > 0.0) {
                (false, _) => self.mean.adopt(i, &later.mean),
                (true, false) => later.mean.adopt(i, &self.mean),
                (true, true) => {}
            }
        }
        let mut delta = later.mean.minus(&self.mean);
        Zip::from(&mut delta).and(&self.c.diag()).and(&later.c.diag()).for_each(|delta, &a, &b| {
            *delta *= if a + b > 0.0 { b / (a + b) } else { 0.0 };
        });
        let mean = self.mean.plus(&delta);
        let holes = self.holes || later.holes;
        self.recentre(&mean, holes);
        later.recentre(&mean, holes);
        self.s += &later.s;
        self.p += &later.p;
        self.c += &later.c;
        self.holes = holes;
        self.rows += later.rows;
        self.weight += later.weight;
    }

    fn finish(self) -> CoMoment {
        let (mut mean, rest) = self.mean.split();
        Zip::from(&mut mean)
            .and(&self.c.diag())
            .for_each(|m, &c| *m = if c > 0.0 { *m } else { f64::NAN });
        let squares = self.s.diag().to_owned();
        let moments = Moments {
            rows: self.rows,
            weight: self.weight,
            mean,
            rest,
            squares,
            mixed_error: None,
        };
        CoMoment { moments, s: self.s }
    }

    fn bytes(Shape { features: d, rows, .. }: Shape) -> u64 {
        8u64.saturating_mul(6u64.saturating_mul(d.saturating_mul(d)).saturating_add(4 * d * rows))
    }
}

impl Stored for ImputedCovariance {
    fn store(&self, at: &str, parts: &mut Parts) {
        parts.fact(at, "rows", self.rows);
        parts.fact(at, "weight", self.weight);
        parts.fact(at, "holes", self.holes);
        parts.center(at, "mean", &self.mean);
        parts.upper(at, "s", &self.s);
        parts.matrix(at, "p", &self.p);
        parts.upper(at, "c", &self.c);
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<ImputedCovariance> {
        let mut symmetric = |name: &str| {
            let mut s = parts.take_upper(at, name, d)?;
            blas::mirror(&mut s);
            Ok::<_, String>(s)
        };
        let (s, c) = (symmetric("s")?, symmetric("c")?);
        Ok(ImputedCovariance {
            rows: parts.take_rows(at)?,
            weight: parts.take_weight(at)?,
            holes: parts.take(at, "holes")?,
            mean: parts.take_center(at, "mean", d)?,
            p: parts.take_matrix(at, "p", (d, d))?,
            s,
            c,
        })
    }

    fn subtract(&mut self, mut part: ImputedCovariance) {
        self.rows = self.rows.saturating_sub(part.rows);
        let rest = left(self.weight, part.weight);
        if part.weight == 0.0 {
            return;
        }
        if rest == 0.0 {
            *self = ImputedCovariance { rows: self.rows, ..ImputedCovariance::new(self.s.nrows()) };
            return;
        }
        let mut moved = self.mean.minus(&part.mean);
        Zip::from(&mut moved).and(&self.c.diag()).and(&part.c.diag()).for_each(|moved, &t, &b| {
            let rest = left(t, b);
            *moved *= if rest > 0.0 { b / rest } else { 0.0 };
        });
        let mean = self.mean.plus(&moved);
        self.recentre(&mean, true);
        part.recentre(&mean, true);
        self.s.zip_mut_with(&part.s, |t, b| *t -= b);
        self.p.zip_mut_with(&part.p, |t, b| *t -= b);
        self.c.zip_mut_with(&part.c, |t, b| *t = left(*t, *b));
        (self.weight, self.holes) = (rest, true);
    }

    fn spread(&self) -> Array1<f64> {
        self.s.diag().to_owned()
    }

    fn reorder(&mut self, order: &[usize]) {
        self.mean = self.mean.reordered(order);
        for square in [&mut self.s, &mut self.p, &mut self.c] {
            *square = column_part(&square.select(Axis(0), order), order);
        }
    }
}
