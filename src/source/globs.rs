//! A glob → the paths it matches, sorted. Names that are not UTF-8 are matched too, each of their
//! other bytes as some character; a directory that cannot be listed is an error. Held: the paths.

use super::inputs::is_glob;
use crate::error::{Error, Result};
use glob::Pattern;
use std::collections::{BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Matches part by part; `**` is any number of directories.
pub(super) fn matching(glob: &str) -> Result<BTreeSet<PathBuf>> {
    let no_glob = |e| Error::Misuse(format!("'{glob}' is no glob: {e}"));
    Pattern::new(glob).map_err(no_glob)?;
    let start = if glob.starts_with('/') { "/" } else { "" };
    let mut found = BTreeSet::from([PathBuf::from(start)]);
    for part in glob.split('/').filter(|part| !part.is_empty()) {
        let mut next = BTreeSet::new();
        for dir in &found {
            if part == "**" {
                directories(dir, &mut HashSet::new(), &mut next)?;
            } else if is_glob(part) {
                let pattern = Pattern::new(part).map_err(no_glob)?;
                let names = entries(dir)?.into_iter();
                let matched = names.filter(|path| {
                    let name = path.file_name().unwrap_or_default();
                    pattern.matches(&name.to_string_lossy())
                });
                next.extend(matched);
            } else {
                let path = dir.join(part);
                next.extend(std::fs::symlink_metadata(&path).is_ok().then_some(path));
            }
        }
        found = next;
    }
    Ok(found)
}

/// What is in a directory; nothing in what is none.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let read = match std::fs::read_dir(listed) {
        Ok(read) => read,
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", listed)(e)),
    };
    let path = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.map(|entry| dir.join(entry.file_name())).map_err(Error::io("list", listed))
    };
    read.map(path).collect()
}

/// A directory and those below it, each once: links may lead back up.
fn directories(
    dir: &Path,
    seen: &mut HashSet<(u64, u64)>,
    found: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(there) = std::fs::metadata(listed) else { return Ok(()) };
    if !there.is_dir() || !seen.insert((there.dev(), there.ino())) {
        return Ok(());
    }
    found.insert(dir.to_path_buf());
    entries(dir)?.iter().try_for_each(|path| directories(path, seen, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn parts_are_matched_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.parquet", "x/b.parquet", "x/y/c.parquet", "z/d.txt"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let odd = OsStr::from_bytes(b"x/\xff.parquet");
        std::fs::write(dir.path().join(odd), "").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("x/y/up")).unwrap();
        let found = |glob: &str| -> Vec<PathBuf> {
            let found = matching(&format!("{}/{glob}", dir.path().display())).unwrap();
            found.iter().map(|p| p.strip_prefix(dir.path()).unwrap().to_path_buf()).collect()
        };
        let odd = Path::new(odd);
        assert_eq!(found("*.parquet"), [Path::new("a.parquet")]);
        assert_eq!(found("*/*.parquet"), [Path::new("x/b.parquet"), odd]);
        assert_eq!(found("x/?.parquet"), [Path::new("x/b.parquet"), odd]);
        let all = ["a.parquet", "x/b.parquet", "x/y/c.parquet"].map(Path::new);
        assert_eq!(found("**/*.parquet"), [&all[..], &[odd]].concat());
        assert_eq!(found("**/c.parquet"), [all[2]]);
        assert!(found("none/*").is_empty() && found("a.parquet/*").is_empty());
        let said = matching("a[").unwrap_err().to_string();
        assert!(said.starts_with("'a[' is no glob: "), "{said}");
    }
}
