//! Pages of codecs that know no bound, decompressed no further than their headers say.
//!
//! Enters: a page as it is stored, and the size that it claims. Leaves: its bytes. Held: one
//! context of zstd and one of gzip ([`super::gzip`]) a thread, and of brotli one a page.

use super::gzip;
use ::parquet::basic::Compression;
use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;
use std::cell::RefCell;
use std::io::Read;
use zstd::bulk::Decompressor;

/// The error for bytes that contradict themselves.
pub(super) fn damaged(problem: String) -> ParquetError {
    ParquetError::General(problem)
}

/// Codecs that make any number of bytes of some, and so are given a bound here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unbounded {
    Zstd,
    Gzip,
    Brotli,
}

impl Unbounded {
    pub(super) fn of(codec: Compression) -> Option<Unbounded> {
        match codec {
            Compression::ZSTD(_) => Some(Unbounded::Zstd),
            Compression::GZIP(_) => Some(Unbounded::Gzip),
            Compression::BROTLI(_) => Some(Unbounded::Brotli),
            _ => None,
        }
    }
}

/// A page, decompressed in place where its codec is one of these.
pub(super) fn decompress_page(
    codec: Option<Unbounded>,
    page: &mut Bytes,
    plain: usize,
    size: usize,
) -> Result<()> {
    if let Some(codec) = codec {
        *page = decompress(codec, page, plain, size)?;
    }
    Ok(())
}

/// The first `plain` bytes as they are, and the rest decompressed: `size` bytes together.
fn decompress(codec: Unbounded, page: &Bytes, plain: usize, size: usize) -> Result<Bytes> {
    let (Some((levels, stored)), Some(rest)) =
        (page.split_at_checked(plain), size.checked_sub(plain))
    else {
        return Err(damaged("a page is shorter than its levels".into()));
    };
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(levels);
    // A page of nulls may have nothing to decompress.
    if rest == 0 {
        return Ok(out.into());
    }
    match codec {
        Unbounded::Zstd => {
            if !at_once(stored, &mut out)? {
                // Several frames in a page.
                out.truncate(plain);
                let mut frames = zstd::stream::read::Decoder::with_buffer(stored)?;
                frames.window_log_max(size.next_power_of_two().ilog2().clamp(23, 27))?;
                inflate(frames, rest, &mut out)?;
            }
        }
        Unbounded::Gzip => gzip::decompress(stored, &mut out, rest)?,
        Unbounded::Brotli => inflate(brotli::Decompressor::new(stored, 4096), rest, &mut out)?,
    }
    match out.len() == size {
        true => Ok(out.into()),
        false => Err(damaged(format!("a page has {} bytes and says it has {size}", out.len()))),
    }
}

/// Appends `most` bytes, and refuses more.
fn inflate(mut bytes: impl Read, most: usize, out: &mut Vec<u8>) -> Result<()> {
    bytes.by_ref().take(most as u64).read_to_end(out)?;
    match bytes.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(damaged("a page has more bytes than it says".into())),
    }
}

thread_local! {
    static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends what the frames hold to `out`; false where it is not room enough, or they are damaged.
fn at_once(frames: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new()?),
        };
        let mut rest = std::io::Cursor::new(&mut *out);
        rest.set_position(rest.get_ref().len() as u64);
        Ok(context.decompress_to_buffer(frames, &mut rest).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn data() -> Vec<u8> {
        (0..100_000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect()
    }

    /// What each codec makes of it, in all ways there are.
    fn compressed(data: &[u8]) -> Vec<(Unbounded, Vec<u8>)> {
        let whole = zstd::bulk::compress(data, 3).unwrap();
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.write_all(data).unwrap();
        let streamed = encoder.finish().unwrap();
        let parts = data.chunks(150_000).map(|part| zstd::bulk::compress(part, 1).unwrap());
        let parts = parts.collect::<Vec<_>>().concat();
        let gzip = |data: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(data).unwrap();
            gzip.finish().unwrap()
        };
        let members = data.chunks(150_000).flat_map(gzip).collect();
        let mut brotli = brotli::CompressorReader::new(data, 4096, 4, 20);
        let mut by_brotli = Vec::new();
        brotli.read_to_end(&mut by_brotli).unwrap();
        let zstd = [whole, streamed, parts].map(|frames| (Unbounded::Zstd, frames));
        let gzips = [gzip(data), members].map(|members| (Unbounded::Gzip, members));
        zstd.into_iter().chain(gzips).chain([(Unbounded::Brotli, by_brotli)]).collect()
    }

    #[test]
    fn pages_of_all_codecs_are_decompressed() {
        let data = data();
        for (codec, stored) in compressed(&data) {
            let page = Bytes::from([b"levels".as_slice(), &stored].concat());
            let found = decompress(codec, &page, 6, data.len() + 6).unwrap();
            assert_eq!(&found[..6], b"levels");
            assert_eq!(&found[6..], &data[..]);
            let cut = page.slice(..page.len() - 1);
            assert!(decompress(codec, &cut, 6, data.len() + 6).is_err(), "{codec:?} cut short");
        }
        let ab = Bytes::from_static(b"ab");
        assert_eq!(decompress(Unbounded::Zstd, &ab, 2, 2).unwrap(), "ab");
        assert!(decompress(Unbounded::Zstd, &ab, 3, 3).is_err());
        assert!(decompress(Unbounded::Zstd, &Bytes::from_static(b"no frame"), 0, 100).is_err());
    }

    #[test]
    fn no_more_is_made_of_a_page_than_it_says() {
        let data = data();
        for (codec, stored) in compressed(&data) {
            for size in [10, data.len() - 1, data.len() + 1] {
                let refused = decompress(codec, &stored.clone().into(), 0, size);
                assert!(refused.is_err(), "{codec:?} as {size} bytes");
            }
        }
    }
}
