//! The phases of kernel methods: see the table of [`super::cost`].

use super::cost::{KernelWork, Workload, with_means};
use super::cost_parts::{blas_bytes, decomposition};
use super::kernel_choice::KernelRoute;
use super::landmarks::sample_rows;
use super::row_kernel::CHECKED_ON;
use crate::budget::Phase;
use crate::kernel::ridge;
use crate::solve::rules::Components;
use crate::solve::{Form, kernel_matrix, kernel_pca, randomized};
use crate::source::Nulls;

/// Bytes of a row's number in one label column: as read, as a column of Δ, as what is multiplied
/// with K and what comes of it, and what the heap keeps of two that have gone (measured with as
/// many columns as rows: 38).
pub(super) const LABEL_BYTES: u64 = 48;

/// Vectors that a first look at a matrix that is given holds.
const LOOKED_AT: u64 = 24;

impl Workload {
    /// All rows are read, then compared; of a matrix that is given, read at every product.
    pub(super) fn kernel_rows(&self, kernel: KernelWork, threads: usize) -> Vec<Phase> {
        let (n, d, labels) = (self.n, self.d, self.labels.map_or(0, |l| l.shape.vectors));
        // What a first look at a matrix multiplies it with, and finds.
        let (held, what) = match kernel.given {
            true => (LOOKED_AT, format!("{LOOKED_AT} vectors of {n} rows")),
            false => (d, format!("all {n} rows")),
        };
        let all = 8u64.saturating_mul(n).saturating_mul(held);
        // Units are read by a worker each, whoever compares rows later.
        let readers = threads.min(self.read.units.max(1));
        let read = self
            .reading("reading", readers, d)
            .hold("batches and blocks", self.blocks_in_flight(readers))
            // With two numbers a row: its label and its weight.
            .hold(what, all.saturating_add(16 * n));
        // As read, and as they are compared; or the blocks of a matrix that is read again.
        let blocks = self.blocks_in_flight(readers);
        let rows = if kernel.given { blocks } else { all.saturating_mul(2) };
        let products = match kernel.route {
            KernelRoute::Supervised if labels > 0 => Phase::new("products")
                .hold("rows", rows)
                .hold(
                    format!("labels and their images ({labels} columns)"),
                    LABEL_BYTES.saturating_mul(labels).saturating_mul(n),
                )
                .hold(
                    "tiles and sums, or what decomposes their product",
                    self.labelled(labels, threads),
                ),
            _ if self.decomposes_whole() => {
                let tiles = kernel_matrix::product_bytes(n, 1, threads);
                decomposition("matrix", n, crate::solve::whole_bytes(n))
                    .hold("rows", rows)
                    .hold("tiles", tiles)
            }
            _ => {
                let k = randomized::sought(self.components);
                let v = kernel_pca::block(k, n as usize) as u64;
                Phase::new("products")
                    .hold("rows", rows)
                    .hold(
                        format!("tiles and sums of {v} vectors"),
                        kernel_matrix::product_bytes(n, v + 1, threads),
                    )
                    .hold("the Krylov basis", kernel_pca::basis_bytes(n, k))
            }
        };
        let learning = kernel.ridge.then(|| self.learning());
        [read, products].into_iter().chain(learning).chain([self.writing_kernel()]).collect()
    }

    /// The product of K with r label columns, or the r × r problem that is left of it.
    pub(crate) fn labelled(&self, r: u64, threads: usize) -> u64 {
        let product = kernel_matrix::product_bytes(self.n, r + 1, threads);
        product.max(crate::solve::bytes(r, self.components)).saturating_add(blas_bytes(r))
    }

    /// A kernel model, its bytes, and its file's.
    fn writing_kernel(&self) -> Phase {
        let bytes = self.model_bytes().saturating_mul(3);
        Phase::new("writing")
            .hold("the model, its bytes and its file", bytes)
            .hold("work areas of BLAS", blas_bytes(self.n.min(1024)))
    }

    /// A map back is learned from a sample and its scores.
    fn learning(&self) -> Phase {
        let sample = (ridge::LEARNED_FROM as u64).min(self.n);
        let anchors = (ridge::ANCHORS as u64).min(self.n);
        let (d, k) = (self.d, self.kernel_components());
        Phase::new("learning the way back")
            .hold("the model", self.model_bytes().saturating_mul(2))
            .hold(
                "a sample, its scores and comparisons",
                16 * sample * (2 * anchors + 3 * d + 2 * k),
            )
            .hold("anchors squared", 8 * 5 * anchors * anchors + 24 * anchors * d)
    }

    /// Bytes of a kernel model: what rows are compared with, and its coefficients.
    pub(crate) fn model_bytes(&self) -> u64 {
        let (n, d, k) = (self.n, self.d, self.kernel_components());
        let numbers = match self.route().map(|kernel| kernel.route) {
            Some(KernelRoute::Landmarks(m)) => n.min(m as u64).saturating_mul(d + k + 1),
            Some(KernelRoute::Fourier(m)) => (m as u64).saturating_mul(d + k + 2),
            Some(KernelRoute::Exact | KernelRoute::Supervised) => {
                let given = self.route().is_some_and(|kernel| kernel.given);
                n.saturating_mul(if given { k + 3 } else { d + k + 2 })
            }
            _ => k.saturating_mul(d),
        };
        let back = match self.route().filter(|kernel| kernel.ridge) {
            Some(_) => (ridge::ANCHORS as u64).min(n).saturating_mul(d + k),
            None => 0,
        };
        8u64.saturating_mul(numbers.saturating_add(back))
    }

    fn kernel_components(&self) -> u64 {
        let most = self.labels.map_or(self.n, |l| l.shape.vectors);
        match self.components {
            Components::Count(k) => most.min(k as u64),
            leading if leading.is_leading() => {
                let sought = randomized::sought(self.components);
                most.min(kernel_pca::block(sought, self.n as usize) as u64)
            }
            _ => most,
        }
    }

    /// True when K is held and decomposed as a whole.
    pub(super) fn decomposes_whole(&self) -> bool {
        self.n as usize <= kernel_pca::DENSE_UP_TO || !self.components.is_leading()
    }

    pub(super) fn unit_pca(&self, threads: usize) -> Vec<Phase> {
        let plain = Workload { nulls: Nulls::Error, kernel: None, scored: None, ..*self };
        let mut phases = plain.memory(Form::Primal, threads).phases;
        // The rows at unit length, with a copy.
        let prepared = 16 * self.block_rows() * self.d * threads as u64;
        let stream = phases.swap_remove(0).hold("prepared rows", prepared);
        phases.insert(0, stream);
        phases
    }

    /// A sample first, then PCA of what stands for the kernel.
    pub(super) fn approximate(&self, kernel: KernelWork, threads: usize) -> Vec<Phase> {
        let (t, d, rows) = (threads as u64, self.d, self.block_rows());
        let (m, landmarks) = match kernel.route {
            KernelRoute::Landmarks(m) => (m as u64, m),
            KernelRoute::Fourier(m) => (m as u64, 0),
            _ => (0, 0),
        };
        let sample = (sample_rows(landmarks, kernel.ridge) as u64).min(self.n);
        let sampled = 8u64.saturating_mul(sample).saturating_mul(d);
        let look = self
            .reading("sampling", threads, d)
            .hold("batches and blocks", self.blocks_in_flight(threads))
            // Row by row, as a matrix, and prepared.
            .hold(format!("a sample of {sample} rows"), sampled.saturating_mul(3));
        let checked = CHECKED_ON as u64;
        let choose = Phase::new("choosing")
            .hold("the sample", sampled.saturating_mul(2))
            .hold(
                format!("{m} × {m} comparisons, vectors and work area"),
                crate::solve::whole_bytes(m),
            )
            .hold("the check", 8 * checked * (4 * checked + 3 * m));
        let mapped = Workload {
            d: m,
            nulls: Nulls::Error,
            kernel: None,
            labels: None,
            scored: None,
            ..*self
        };
        // Comparisons of a block, whitened, and its rows prepared.
        let widened = 8u64.saturating_mul(rows).saturating_mul(2 * m + 2 * d).saturating_mul(t);
        let kept = sampled.saturating_add(16 * m * m);
        let stream = self
            .reading("streaming", threads, d)
            .hold("batches and blocks", t.saturating_mul(self.block_bytes() + 8 * rows * d))
            .hold(format!("comparisons with {m}"), widened)
            .hold("the sample and the whitening", kept);
        let stream = mapped.adding_up_blocks(stream, rows, threads);
        let decompose = decomposition("matrix", m, crate::solve::bytes(m, self.components))
            .hold("the sample and the whitening", kept);
        let learning = kernel.ridge.then(|| self.learning());
        let first = [look, choose, stream, decompose].into_iter();
        first.chain(learning).chain([self.writing_kernel()]).collect()
    }

    /// Sums of blocks that are already there, of so many rows.
    fn adding_up_blocks(&self, phase: Phase, rows: u64, threads: usize) -> Phase {
        let sums = with_means(self.sums(true, None));
        let (held, busy) = (sums.bytes(0), sums.bytes(rows));
        let (t, units) = (threads as u64, crate::workers::window(threads) as u64 + 1);
        let bytes = match sums.is_shared() {
            true => busy.saturating_add(units * 8 * rows * self.d),
            false => t.saturating_mul(busy - held).saturating_add(held.saturating_mul(units)),
        };
        phase.hold(format!("sums of {0} × {0} products", self.d), bytes)
    }
}
