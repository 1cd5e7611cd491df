//! Columns of text that stand under each other, whatever is in them.
//!
//! Enters: rows of cells, of which the first row heads the columns. Leaves: lines.

use crate::words::width;

/// Between two columns.
const GAP: &str = "  ";

/// Where a cell stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A line for each row; `columns` says where cells stand and how wide a column is at least.
pub(super) fn lines(rows: &[Vec<String>], columns: &[(Align, usize)]) -> Vec<String> {
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|c| width(c)).max();
    let sized: Vec<(Align, usize)> = columns
        .iter()
        .enumerate()
        .map(|(at, (align, least))| (*align, widest(at).unwrap_or(0).max(*least)))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&sized).map(|(cell, (align, size))| pad(cell, *align, *size));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

fn pad(cell: &str, align: Align, size: usize) -> String {
    let space = " ".repeat(size.saturating_sub(width(cell)));
    match align {
        Align::Left => format!("{cell}{space}"),
        Align::Right => format!("{space}{cell}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_whatever_they_are() {
        let row = |cells: [&str; 3]| cells.map(str::to_string).to_vec();
        let rows =
            [row(["name", "value", "bar"]), row(["名前", "-1.0000e300", "█"]), row(["b", "0", ""])];
        let columns = [(Align::Left, 6), (Align::Right, 3), (Align::Left, 0)];
        let expected =
            ["name          value  bar", "名前    -1.0000e300  █", "b                 0"];
        assert_eq!(lines(&rows, &columns), expected);
    }
}
