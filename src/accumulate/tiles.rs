//! Products that are shared out by tiles of their result: one S, or G, for all threads.

use crate::blas::{Element, syrk};
use crate::workers::for_each;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

/// Side of the tiles that d × d results are cut into: large, since what a product copies before it
/// multiplies goes with 1/side, but enough of them to share out.
fn tile_side(d: usize) -> usize {
    (d / 6).clamp(256, 1024)
}

/// An element type whose products can be added up, tile by tile, in a matrix of doubles.
pub(super) trait TileElement: Element {
    /// C ← C + AᵀB, where C is a tile; only its upper triangle needs to be right if A is B.
    fn add_product(
        a: ArrayView2<'_, Self>,
        b: ArrayView2<'_, Self>,
        diagonal: bool,
        c: ArrayViewMut2<'_, f64>,
    );
}

impl TileElement for f64 {
    fn add_product(
        a: ArrayView2<'_, f64>,
        b: ArrayView2<'_, f64>,
        diagonal: bool,
        mut c: ArrayViewMut2<'_, f64>,
    ) {
        match diagonal {
            true => syrk(a, 1.0, c),
            false => general_mat_mul(1.0, &a.t(), &b, 1.0, &mut c),
        }
    }
}

impl TileElement for f32 {
    fn add_product(
        a: ArrayView2<'_, f32>,
        b: ArrayView2<'_, f32>,
        _diagonal: bool,
        mut c: ArrayViewMut2<'_, f64>,
    ) {
        let product = a.t().dot(&b);
        c.zip_mut_with(&product, |c, p| *c += f64::from(*p));
    }
}

/// C ← C + Σ BᵀB over some blocks of d columns, upper triangle, on this many threads.
///
/// One C for all threads: each job owns a tile of it. The cut depends on d alone, and every tile is
/// made by one thread in the order of the blocks, so the bytes do not depend on the threads.
/// Entries below the diagonal may be written too; [`crate::blas::mirror`] sets them right.
pub(super) fn syrk_tiles<T: TileElement>(
    blocks: &[ArrayView2<'_, T>],
    c: &mut Array2<f64>,
    threads: usize,
) {
    let side = tile_side(c.ncols());
    let range = |i: usize, d: usize| i * side..((i + 1) * side).min(d);
    let mut tiles = Vec::new();
    for (i, rows) in c.axis_chunks_iter_mut(Axis(0), side).enumerate() {
        let mut rest = rows.split_at(Axis(1), i * side).1;
        for j in i.. {
            let width = side.min(rest.ncols());
            let (tile, more) = rest.split_at(Axis(1), width);
            tiles.push((i, j, tile));
            if more.is_empty() {
                break;
            }
            rest = more;
        }
    }
    for_each(threads, tiles, |(i, j, mut tile)| {
        for block in blocks {
            let d = block.ncols();
            let (a, b) = (block.slice(s![.., range(i, d)]), block.slice(s![.., range(j, d)]));
            T::add_product(a, b, i == j, tile.view_mut());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blas::mirror;
    use ndarray::ShapeBuilder;

    fn sample(rows: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, d), |(i, j)| ((i * 7 + j * 13) % 11) as f64 - 5.0)
    }

    #[test]
    fn tiles_give_what_one_product_gives_on_any_number_of_threads() {
        for d in [3, 256, 700] {
            let blocks = [sample(40, d), sample(7, d)];
            let mut f = Array2::zeros((40, d).f());
            f.assign(&blocks[0]);
            let mut expected = blocks[0].t().dot(&blocks[0]) + blocks[1].t().dot(&blocks[1]);
            mirror(&mut expected);
            for threads in [1, 3] {
                for first in [blocks[0].view(), f.view()] {
                    let mut c = Array2::zeros((d, d));
                    syrk_tiles(&[first, blocks[1].view()], &mut c, threads);
                    mirror(&mut c);
                    assert_eq!(c, expected, "exact: all numbers are small integers");
                }
                let single: Vec<_> = blocks.iter().map(|b| b.mapv(|v| v as f32)).collect();
                let mut c = Array2::zeros((d, d));
                syrk_tiles(&[single[0].view(), single[1].view()], &mut c, threads);
                mirror(&mut c);
                assert_eq!(c, expected);
            }
        }
    }
}
