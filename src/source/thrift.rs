//! A footer's bytes, walked before anything is built of them.
//!
//! Parquet's decoder believes what a footer claims: it reserves room for lists as long as they say
//! they are, and follows a schema down by calling itself. So the bytes (Thrift's compact protocol)
//! are walked first, which allocates nothing: every element of a list must be there, and the schema
//! may nest [`DEEPEST_SCHEMA`] levels.
//!
//! Enters: the bytes of a footer. Leaves: a [`FooterShape`], or what is wrong with them. Held: one
//! number per level of the schema.

/// Levels that a schema may have: arrow and others follow it by recursion.
pub(super) const DEEPEST_SCHEMA: usize = 100;

/// Levels of Thrift's own structs and lists; a footer has seven.
const DEEPEST_STRUCT: usize = 32;

/// What a parsed element of the schema takes, about: in Parquet's schema and in arrow's.
const ELEMENT_BYTES: u64 = 500;

/// The same of a column chunk.
const CHUNK_BYTES: u64 = 700;

/// What a footer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FooterShape {
    /// Columns and groups of columns.
    pub(super) elements: u64,
    /// Column chunks of all row groups.
    pub(super) chunks: u64,
    /// Those that are encrypted.
    pub(super) encrypted: u64,
}

/// What a walk gives, or a sentence about the footer.
type Walked<T> = std::result::Result<T, String>;

impl FooterShape {
    /// Of the bytes of a footer.
    pub(super) fn of(bytes: &[u8]) -> Walked<FooterShape> {
        let mut shape = FooterShape::default();
        let mut walk = Walk { rest: bytes, depth: 0 };
        walk.fields(|walk, id, kind| match (id, kind) {
            (2, LIST) => walk.schema(&mut shape),
            (4, LIST) => walk.each(|walk, kind| walk.row_group(kind, &mut shape)),
            _ => walk.skip(kind),
        })?;
        Ok(shape)
    }

    /// Bytes it takes once parsed, about.
    pub(super) fn parsed_bytes(&self) -> u64 {
        self.elements * ELEMENT_BYTES + self.chunks * CHUNK_BYTES
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// What is left of the bytes, and how deep the walk is in structs and lists.
struct Walk<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Walk<'_> {
    /// Hands every field of a struct to `field`, which must walk over it.
    fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, u8) -> Walked<()>) -> Walked<()> {
        self.deeper(|walk| {
            let mut id = 0i64;
            loop {
                let head = walk.byte()?;
                if head == 0 {
                    return Ok(());
                }
                id = match head >> 4 {
                    0 => walk.zigzag()?,
                    delta => id + i64::from(delta),
                };
                field(walk, id, head & 0x0f)?;
            }
        })
    }

    /// Hands every element of a list to `element`, with its kind.
    fn each(&mut self, mut element: impl FnMut(&mut Self, u8) -> Walked<()>) -> Walked<()> {
        let (size, kind) = self.list()?;
        self.deeper(|walk| (0..size).try_for_each(|_| element(walk, kind)))
    }

    /// How many elements a list has, and of which kind.
    fn list(&mut self) -> Walked<(u64, u8)> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        // An element takes a byte at least.
        match size <= self.rest.len() as u64 {
            true => Ok((size, head & 0x0f)),
            false => Err(format!("a list says it has {size} elements, and the footer is shorter")),
        }
    }

    /// The tree of columns, as a list in which every group tells how many follow it.
    fn schema(&mut self, shape: &mut FooterShape) -> Walked<()> {
        let mut open: Vec<u64> = Vec::new();
        let (mut left, kind) = self.list()?;
        shape.elements = left;
        while left > 0 {
            left -= 1;
            let children = self.children(kind)?;
            if children > left {
                return Err(format!(
                    "a group of columns says it has {children}, and {left} follow"
                ));
            }
            if children > 0 {
                open.push(children);
            } else {
                while let Some(last) = open.last_mut() {
                    *last -= 1;
                    if *last > 0 {
                        break;
                    }
                    open.pop();
                }
            }
            if open.len() > DEEPEST_SCHEMA {
                return Err(format!("its columns are nested more than {DEEPEST_SCHEMA} deep"));
            }
        }
        Ok(())
    }

    /// The columns that an element of the schema says it has.
    fn children(&mut self, kind: u8) -> Walked<u64> {
        let mut children = 0;
        self.element(kind, |walk, id, kind| match (id, kind) {
            (5, I32) => {
                children = walk.zigzag()?.max(0) as u64;
                Ok(())
            }
            _ => walk.skip(kind),
        })?;
        Ok(children)
    }

    fn row_group(&mut self, kind: u8, shape: &mut FooterShape) -> Walked<()> {
        self.element(kind, |walk, id, kind| match (id, kind) {
            (1, LIST) => walk.each(|walk, kind| walk.chunk(kind, shape)),
            _ => walk.skip(kind),
        })
    }

    fn chunk(&mut self, kind: u8, shape: &mut FooterShape) -> Walked<()> {
        shape.chunks += 1;
        self.element(kind, |walk, id, kind| {
            // How its key is found.
            shape.encrypted += u64::from(id == 8);
            walk.skip(kind)
        })
    }

    /// An element that is to be a struct.
    fn element(
        &mut self,
        kind: u8,
        field: impl FnMut(&mut Self, i64, u8) -> Walked<()>,
    ) -> Walked<()> {
        match kind {
            STRUCT => self.fields(field),
            other => Err(format!("a struct was expected, and kind {other} is there")),
        }
    }

    fn skip(&mut self, kind: u8) -> Walked<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.take(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.take(8),
            BINARY => {
                let length = self.varint()?;
                self.take(length)
            }
            LIST | SET => self.each(Self::skip_element),
            MAP => self.skip_map(),
            STRUCT => self.fields(|walk, _, kind| walk.skip(kind)),
            other => Err(format!("there is no kind {other}")),
        }
    }

    /// Truth values take a byte where they are not fields.
    fn skip_element(&mut self, kind: u8) -> Walked<()> {
        match kind {
            TRUE | FALSE => self.take(1),
            kind => self.skip(kind),
        }
    }

    fn skip_map(&mut self) -> Walked<()> {
        let size = self.varint()?;
        if size == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.deeper(|walk| {
            (0..size).try_for_each(|_| {
                walk.skip_element(kinds >> 4)?;
                walk.skip_element(kinds & 0x0f)
            })
        })
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Walked<T>) -> Walked<T> {
        if self.depth == DEEPEST_STRUCT {
            return Err("its structs are nested too deep".into());
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    fn byte(&mut self) -> Walked<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(too_short)?;
        self.rest = rest;
        Ok(*first)
    }

    fn take(&mut self, bytes: u64) -> Walked<()> {
        let bytes = usize::try_from(bytes).map_err(|_| too_short())?;
        self.rest = self.rest.get(bytes..).ok_or_else(too_short)?;
        Ok(())
    }

    fn varint(&mut self) -> Walked<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has too many digits".into())
    }

    fn zigzag(&mut self) -> Walked<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}

fn too_short() -> String {
    "it ends too soon".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer with a schema of groups of these sizes.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x02, 0x19, 0xfc, children.len() as u8];
        for n in children {
            // A name of one letter, and how many columns there are below.
            bytes.extend([0x48, 0x01, b'a']);
            if *n > 0 {
                bytes.extend([0x15, 2 * n]);
            }
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_schema_is_walked_without_recursion() {
        let shape = FooterShape::of(&footer(&[2, 1, 0, 0])).unwrap();
        assert_eq!((shape.elements, shape.chunks, shape.encrypted), (4, 0, 0));
        let deep = |levels: usize| {
            let mut children = vec![1; levels];
            children.push(0);
            FooterShape::of(&footer(&children))
        };
        assert!(deep(DEEPEST_SCHEMA).is_ok());
        let said = deep(DEEPEST_SCHEMA + 1).unwrap_err();
        assert_eq!(said, "its columns are nested more than 100 deep");
    }

    #[test]
    fn what_is_claimed_must_be_there() {
        let said = FooterShape::of(&footer(&[9, 0])).unwrap_err();
        assert_eq!(said, "a group of columns says it has 9, and 1 follow");
        // A list of 2^28 row groups in four bytes.
        let said = FooterShape::of(&[0x49, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x01]).unwrap_err();
        assert!(said.contains("268435456 elements"), "{said}");
        let whole = footer(&[2, 1, 0, 0]);
        for cut in 0..whole.len() {
            assert!(FooterShape::of(&whole[..cut]).is_err(), "{cut}");
        }
        // Lists in lists in lists.
        assert!(FooterShape::of(&[[0x89].as_slice(), &[0x19; 90]].concat()).is_err());
    }

    #[test]
    fn encrypted_columns_are_counted() {
        // Row groups: one, of one chunk with an offset and a key.
        let bytes = [0x49, 0x1c, 0x19, 0x1c, 0x26, 0x08, 0x6c, 0x00, 0x00, 0x00, 0x00];
        let shape = FooterShape::of(&bytes).unwrap();
        assert_eq!((shape.chunks, shape.encrypted), (1, 1));
    }
}
