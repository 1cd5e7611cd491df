//! How large a column's pages are, from their headers: no value is read.
//!
//! A decoder holds one page per column, compressed and not. Footers give only the size of whole
//! column chunks, which for a row group of a million rows is many times a page; the header of the
//! first data page (and of the dictionary page, if any) gives the size itself. It is Thrift's
//! compact protocol, and the three fields wanted are the first three.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Sizes in a page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageSize {
    /// Bytes of the page once decompressed.
    pub uncompressed: u64,
    /// Bytes of the page on disk.
    pub compressed: u64,
}

/// The sizes of the page at `offset`, or `None` where no page header is.
pub(crate) fn at(file: &File, offset: u64) -> Option<PageSize> {
    let mut bytes = [0u8; 32];
    let read = file.read_at(&mut bytes, offset).ok()?;
    parse(&bytes[..read]).map(|(_, size)| size)
}

/// Bytes of a page header that are enough to find its sizes.
pub(super) const HEADER_BYTES: usize = 24;

/// A page that holds a dictionary.
pub(super) const DICTIONARY: i64 = 2;

/// What kind of page it is, and its sizes. Fields 1 (type), 2 (uncompressed size), 3 (compressed
/// size): each a header byte 0x15 (the next field, a 32-bit integer) and a zigzag varint.
pub(super) fn parse(bytes: &[u8]) -> Option<(i64, PageSize)> {
    let mut rest = bytes.iter();
    let mut field = || -> Option<i64> {
        if *rest.next()? != 0x15 {
            return None;
        }
        let mut raw = 0u64;
        for shift in (0..).step_by(7).take(5) {
            let byte = *rest.next()?;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
        }
        None
    };
    let (kind, uncompressed, compressed) = (field()?, field()?, field()?);
    let size = PageSize {
        uncompressed: u64::try_from(uncompressed).ok()?,
        compressed: u64::try_from(compressed).ok()?,
    };
    Some((kind, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_fields_are_read() {
        // type 0 (data page), 160000 uncompressed, 300 compressed.
        let bytes = [0x15, 0x00, 0x15, 0x80, 0xc4, 0x13, 0x15, 0xd8, 0x04, 0x2c];
        let size = PageSize { uncompressed: 160_000, compressed: 300 };
        assert_eq!(parse(&bytes), Some((0, size)));
        for cut in 0..9 {
            assert_eq!(parse(&bytes[..cut]), None);
        }
        assert_eq!(parse(&[0x15, 0x00, 0x15, 0x01, 0x15, 0x02]), None, "negative sizes");
        assert_eq!(parse(b"PAR1PAR1PAR1"), None);
    }
}
