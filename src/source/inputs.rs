//! DATA as typed (files, globs, directories) → a list of files, sorted by path.
//!
//! Holds one path per file. Names that start with `_` or `.` inside directories are passed over,
//! as Spark and Hive do (`_SUCCESS`, `._part.crc`, our own temporary files).

use crate::error::{Error, Place, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of the dataset and its name below the argument that found it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input {
    /// The path to open.
    pub path: PathBuf,
    /// The path below the directory that was given, or the file's own name: where `transform`
    /// puts its counterpart in an output directory.
    pub relative: PathBuf,
}

/// Finds the files, or says which argument names none.
pub(crate) fn expand(data: &[String]) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in data {
        let mut found = expand_one(argument)?;
        found.sort();
        inputs.extend(found);
    }
    let mut seen = std::collections::HashSet::new();
    for input in &inputs {
        let real = std::fs::canonicalize(&input.path).unwrap_or_else(|_| input.path.clone());
        if !seen.insert(real) {
            return Err(Error::Misuse(format!(
                "{} is given twice; its rows would count double",
                input.path.display()
            )));
        }
    }
    Ok(inputs)
}

/// True when a name is to be matched, not found: it has one of the signs of a glob.
pub(super) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

fn expand_one(argument: &str) -> Result<Vec<Input>> {
    let path = Path::new(argument);
    if path.is_dir() {
        let found = walk(path, path)?;
        return match found.is_empty() {
            false => Ok(found),
            true => {
                let problem = "no .parquet file in this directory or below it";
                Err(Error::data(Place::file(path), problem))
            }
        };
    }
    if path.exists() {
        return Ok(vec![single(path)]);
    }
    if !is_glob(argument) {
        let source = rustix::io::Errno::NOENT.into();
        return Err(Error::Io { action: "open", path: path.into(), source });
    }
    let matches =
        glob::glob(argument).map_err(|e| Error::Misuse(format!("'{argument}' is no glob: {e}")))?;
    let mut found = Vec::new();
    for entry in matches {
        let path = entry.map_err(|e| Error::Io {
            action: "list",
            path: e.path().into(),
            source: e.into(),
        })?;
        if path.is_dir() {
            found.extend(walk(&path, path.parent().unwrap_or(&path))?);
        } else {
            found.push(single(&path));
        }
    }
    if found.is_empty() {
        return Err(Error::data(Place::file(path), "no file matches this glob"));
    }
    Ok(found)
}

fn single(path: &Path) -> Input {
    let relative = path.file_name().map_or_else(|| path.to_path_buf(), PathBuf::from);
    Input { path: path.to_path_buf(), relative }
}

/// True for names that end in .parquet, .parq or .pq.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let known =
        |e: &std::ffi::OsStr| ["parquet", "parq", "pq"].iter().any(|k| e.eq_ignore_ascii_case(k));
    path.extension().is_some_and(known)
}

/// All Parquet files below a directory. Links are followed, but into no directory that is already
/// being listed: a link to one of those would never end.
fn walk(dir: &Path, root: &Path) -> Result<Vec<Input>> {
    let mut found = Vec::new();
    walk_into(dir, root, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn walk_into(
    dir: &Path,
    root: &Path,
    above: &mut Vec<(u64, u64)>,
    found: &mut Vec<Input>,
) -> Result<()> {
    let listed = std::fs::metadata(dir).map_err(Error::io("list", dir))?;
    let identity = (listed.dev(), listed.ino());
    if above.contains(&identity) {
        return Ok(());
    }
    above.push(identity);
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            walk_into(&path, root, above, found)?;
        } else if is_parquet(&path) {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            found.push(Input { path, relative });
        }
    }
    above.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_read_recursively_and_sorted() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.parquet", "dt=1/a.parquet", "_SUCCESS", ".hidden.parquet", "notes.txt"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = dir.path().to_str().unwrap().to_string();
        let names = |args: &[String]| -> Vec<String> {
            expand(args).unwrap().into_iter().map(|i| i.relative.display().to_string()).collect()
        };
        assert_eq!(names(std::slice::from_ref(&root)), ["b.parquet", "dt=1/a.parquet"]);
        assert_eq!(names(&[format!("{root}/*/*.parquet")]), ["a.parquet"]);
        assert!(
            expand(&[format!("{root}/*.orc")]).unwrap_err().to_string().contains("no file matches")
        );
        let twice = expand(&[root.clone(), format!("{root}/b.parquet")]).unwrap_err();
        assert_eq!(twice.exit_code(), 2);
    }

    #[test]
    fn a_link_to_a_directory_above_is_not_followed_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("part")).unwrap();
        std::fs::write(dir.path().join("part/a.parquet"), "").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("part/again")).unwrap();
        let root = dir.path().to_str().unwrap().to_string();
        let found = expand(&[root]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].relative, Path::new("part/a.parquet"));
    }
}
