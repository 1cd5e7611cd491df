//! A gzip page, decompressed with one inflate state a thread.
//!
//! Parquet's codec makes a state for every page. It is some 40 kB that lie between the pages that
//! stay, and of 20,000 columns that are read at once most of them are left as gaps (920 MB where
//! 220 are held).
//!
//! Enters: a page as it is on disk, members of RFC 1952. Leaves: its bytes, appended. Held: a
//! state.

use ::parquet::errors::{ParquetError, Result};
use flate2::{Decompress, FlushDecompress, Status};
use std::cell::RefCell;

/// Flags of a member's header: what comes after its first ten bytes.
const CHECK: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

thread_local! {
    static STATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("gzip: {what}"))
}

/// Appends what all members hold, at most `most` bytes together.
pub(super) fn decompress(members: &[u8], out: &mut Vec<u8>, most: usize) -> Result<()> {
    let mut rest = members;
    let end = out.len().saturating_add(most);
    while !rest.is_empty() {
        let base = out.len();
        let body = after_header(rest)?;
        let read = inflate(body, out, end)?;
        let trailer = body.get(read..).and_then(|tail| tail.split_first_chunk::<8>());
        let Some((trailer, next)) = trailer else { return Err(damaged("a member is cut short")) };
        let [a, b, c, d, ..] = *trailer;
        if u32::from_le_bytes([a, b, c, d]) != crc32fast::hash(&out[base..]) {
            return Err(damaged("the checksum is wrong"));
        }
        rest = next;
    }
    Ok(())
}

/// What comes after the header of a member.
fn after_header(member: &[u8]) -> Result<&[u8]> {
    let cut = || damaged("a header is cut short");
    let Some(([0x1f, 0x8b, 8, flags, ..], mut rest)) = member.split_first_chunk::<10>() else {
        return Err(damaged("a page does not begin with a member"));
    };
    let skip = |rest: &mut &[u8], bytes: usize| -> Result<()> {
        *rest = rest.get(bytes..).ok_or_else(cut)?;
        Ok(())
    };
    if flags & EXTRA != 0 {
        let (length, _) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        skip(&mut rest, 2 + usize::from(u16::from_le_bytes(*length)))?;
    }
    for _ in [NAME, COMMENT].into_iter().filter(|text| flags & text != 0) {
        let end = rest.iter().position(|b| *b == 0).ok_or_else(cut)?;
        skip(&mut rest, end + 1)?;
    }
    if flags & CHECK != 0 {
        skip(&mut rest, 2)?;
    }
    Ok(rest)
}

/// Appends what is compressed here, up to `end` bytes in `out`; tells how many bytes it was.
fn inflate(body: &[u8], out: &mut Vec<u8>, end: usize) -> Result<usize> {
    STATE.with_borrow_mut(|state| {
        state.reset(false);
        loop {
            let read = state.total_in() as usize;
            let (before, room) = (out.len(), out.capacity());
            let done = state
                .decompress_vec(body.get(read..).unwrap_or_default(), out, FlushDecompress::None)
                .map_err(|e| damaged(&e.to_string()))?;
            match done {
                Status::StreamEnd => return Ok(state.total_in() as usize),
                _ if out.len() > end => return Err(damaged("a page has more bytes than it says")),
                // Members that tell less than they hold; one byte more shows whether they do.
                _ if out.len() == room => {
                    out.reserve_exact((end + 1 - room).min(room.max(1 << 10)));
                }
                _ if out.len() == before && state.total_in() as usize == read => {
                    return Err(damaged("a member is cut short"));
                }
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::{GzBuilder, write::GzEncoder};
    use std::io::Write;

    fn found(members: &[u8], most: usize) -> Result<Vec<u8>> {
        let mut out = b"levels".to_vec();
        decompress(members, &mut out, most)?;
        assert_eq!(&out[..6], b"levels");
        Ok(out[6..].to_vec())
    }

    #[test]
    fn members_of_all_kinds_are_decompressed() {
        let data: Vec<u8> = (0..50_000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
        let mut plain = GzEncoder::new(Vec::new(), Compression::fast());
        plain.write_all(&data).unwrap();
        let plain = plain.finish().unwrap();
        let named = GzBuilder::new().filename("a.csv").comment("of b").extra(vec![1, 2, 3]);
        let mut named = named.write(Vec::new(), Compression::default());
        named.write_all(&data).unwrap();
        let named = named.finish().unwrap();
        assert_eq!(found(&plain, data.len()).unwrap(), data);
        assert_eq!(found(&named, data.len() + 9).unwrap(), data);
        let both = [plain.clone(), named].concat();
        assert_eq!(found(&both, 2 * data.len()).unwrap(), [data.clone(), data.clone()].concat());
        assert_eq!(found(&[], 10).unwrap(), b"");
        for cut in [1, 9, 12, plain.len() / 2, plain.len() - 1] {
            assert!(found(&plain[..cut], data.len()).is_err(), "cut at {cut}");
        }
        let mut wrong = plain.clone();
        let at = wrong.len() - 7;
        wrong[at] ^= 1;
        assert!(found(&wrong, data.len()).unwrap_err().to_string().contains("checksum"));
        assert!(found(b"no gzip at all", 100).is_err());
        assert!(found(&plain, 100).is_err(), "more than the chunk has");
    }
}
