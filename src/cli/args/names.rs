//! Names of columns as they are typed.
//!
//! Enters: an argument. Leaves: names and globs, as the library takes them. One rule for all
//! options: names are separated by commas, and one in double quotes is written as JSON writes text
//! and taken as it is, so that every name can be typed: `id,x*,"a,b","no * glob","two\nlines"`.

use std::str::FromStr;

/// Several columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NameList(Vec<String>);

impl NameList {
    /// All names of an option that may be given several times.
    pub(crate) fn all(lists: &[NameList]) -> Vec<String> {
        lists.iter().flat_map(|list| list.0.iter().cloned()).collect()
    }
}

impl FromStr for NameList {
    type Err = String;

    fn from_str(text: &str) -> Result<NameList, String> {
        let (mut names, mut rest) = (Vec::new(), text);
        loop {
            let (name, after) = match rest.starts_with('"') {
                true => quoted(rest)?,
                false => {
                    let (name, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                    (name.to_string(), after)
                }
            };
            names.push(name);
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None if after.is_empty() => return Ok(NameList(names)),
                None => return Err(format!("a comma is missing before {after}")),
            }
        }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnName(pub(crate) String);

impl FromStr for ColumnName {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnName, String> {
        if !text.starts_with('"') {
            return Ok(ColumnName(text.to_string()));
        }
        match quoted(text)? {
            (name, "") => Ok(ColumnName(name)),
            (_, after) => Err(format!("it is one column; what is {after} behind it?")),
        }
    }
}

/// A name in quotes, as a glob that matches it alone, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut names = serde_json::Deserializer::from_str(text).into_iter::<String>();
    match names.next() {
        Some(Ok(name)) => Ok((glob::Pattern::escape(&name), &text[names.byte_offset()..])),
        _ => {
            Err("a name in double quotes is written as JSON writes text: \"a,b\", \"a\\nb\"".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_typed() {
        let names = |text: &str| text.parse::<NameList>().map(|NameList(names)| names);
        assert_eq!(names("id,x*").unwrap(), ["id", "x*"]);
        assert_eq!(names(r#""a,b",c"#).unwrap(), ["a,b", "c"]);
        assert_eq!(
            names(r#""x*","q\"t","l\nm",a"b,a b"#).unwrap(),
            ["x[*]", "q\"t", "l\nm", "a\"b", "a b"]
        );
        assert_eq!(names("").unwrap(), [""]);
        for wrong in [r#""a"#, r#""a"b"#, r#""\x""#] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_column_may_have_commas() {
        let name = |text: &str| text.parse::<ColumnName>().map(|ColumnName(name)| name);
        assert_eq!(name("a,b").unwrap(), "a,b");
        assert_eq!(name(r#""a?b""#).unwrap(), "a[?]b");
        assert!(name(r#""a","b""#).is_err());
    }
}
