//! DATA as typed (files, globs, directories) → a list of files, sorted by path.
//!
//! Holds one path per file. Names that start with `_` or `.` inside directories, and those that a
//! glob only happens to match, are passed over, as Spark and Hive do (`_SUCCESS`, `._part.crc`, our
//! own temporary files).

use super::globs;
use crate::error::{Error, Place, Result};
use std::collections::HashSet;
use std::ffi::OsStr;
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
pub(crate) fn expand<P: AsRef<OsStr>>(data: &[P]) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in data {
        let mut found = expand_one(argument.as_ref())?;
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

fn expand_one(argument: &OsStr) -> Result<Vec<Input>> {
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
    // Globs are text.
    let argument = argument.to_str().unwrap_or_default();
    not_elsewhere(argument)?;
    if !is_glob(argument) {
        let source = rustix::io::Errno::NOENT.into();
        return Err(Error::Io { action: "open", path: path.into(), source });
    }
    let (found, passed_over) = globbed(argument)?;
    let problem = match (found.is_empty(), passed_over) {
        (false, _) => return Ok(found),
        (true, 0) => "no file matches this glob",
        (true, _) => "no file matches this glob; names that start with . or _ are passed over",
    };
    Err(Error::data(Place::file(path), problem))
}

/// The files that a glob matches, those in directories that it matches too, and how many matches
/// were passed over.
fn globbed(argument: &str) -> Result<(Vec<Input>, usize)> {
    let (mut found, mut passed_over) = (Vec::new(), 0);
    for path in globs::matching(argument)? {
        if is_hidden(&path, argument) {
            passed_over += 1;
        } else if path.is_dir() {
            found.extend(walk(&path, path.parent().unwrap_or(&path))?);
        } else {
            found.push(single(&path));
        }
    }
    Ok((found, passed_over))
}

/// True when a part of a path starts with `.` or `_` where no part of the glob spells that out.
fn is_hidden(path: &Path, glob: &str) -> bool {
    let spelt_out = |name: &str| {
        let begins = |part: &&str| part.chars().next() == name.chars().next();
        let matches = |part: &str| glob::Pattern::new(part).is_ok_and(|p| p.matches(name));
        glob.split('/').filter(begins).any(matches)
    };
    path.components().any(|part| match part {
        std::path::Component::Normal(name) => {
            let name = name.to_string_lossy();
            name.starts_with(HIDDEN) && !spelt_out(&name)
        }
        _ => false,
    })
}

/// How names start that are passed over.
const HIDDEN: [char; 2] = ['_', '.'];

/// Refuses what is on no disk of this machine, with the way to it.
fn not_elsewhere(argument: &str) -> Result<()> {
    let way = match argument.split_once("://") {
        _ if argument == "-" => {
            "standard input is not read: Parquet is read from its end, and more than once; write \
             it to a file first"
                .to_string()
        }
        None => return Ok(()),
        Some(("file", path)) => format!("paths are written without file://: {path}"),
        Some((kind, _)) => format!(
            "{argument}: {kind}:// is not read, only files of this machine are; copy it to one \
             first, or mount what it is in"
        ),
    };
    Err(Error::Misuse(way))
}

/// Refuses a place for output that is none, or that promises another format.
pub(crate) fn check_output(path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    if shown == "-" {
        return Error::misuse(
            "standard output takes no Parquet files; name a .parquet file or a directory",
        );
    }
    if let Some((kind, _)) = shown.split_once("://") {
        return Error::misuse(format!(
            "{shown}: {kind}:// is not written to; write a file here, and copy it there"
        ));
    }
    match foreign_format(path) {
        None => Ok(()),
        Some(format) => Error::misuse(format!(
            "{shown}: {format} is not written, Parquet is; name a file that ends in .parquet, or a \
             directory"
        )),
    }
}

/// The format that a name promises, if it is a known one that is not Parquet.
pub(super) fn foreign_format(path: &Path) -> Option<&'static str> {
    const FORMATS: [(&str, &str); 16] = [
        ("csv", "CSV"),
        ("tsv", "TSV"),
        ("txt", "text"),
        ("json", "JSON"),
        ("jsonl", "JSON"),
        ("ndjson", "JSON"),
        ("arrow", "Arrow IPC"),
        ("feather", "Feather"),
        ("orc", "ORC"),
        ("avro", "Avro"),
        ("xlsx", "Excel"),
        ("npy", "NumPy"),
        ("npz", "NumPy"),
        ("h5", "HDF5"),
        ("hdf5", "HDF5"),
        ("pkl", "pickle"),
    ];
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let plain = [".gz", ".zst", ".bz2"].iter().find_map(|end| name.strip_suffix(end));
    let (_, extension) = plain.unwrap_or(&name).rsplit_once('.')?;
    FORMATS.iter().find(|(known, _)| *known == extension).map(|(_, format)| *format)
}

/// How a file of another format becomes one that is read.
pub(super) fn conversion(path: &Path, format: &str) -> String {
    let (shown, to) = (path.display(), path.with_extension("parquet"));
    let way = match format {
        "CSV" | "TSV" | "JSON" => {
            format!("convert it first, in DuckDB: COPY (FROM '{shown}') TO '{}'", to.display())
        }
        _ => "convert it first".to_string(),
    };
    format!("is {format}, and only Parquet is read; {way}")
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

/// All Parquet files below a directory. Links are followed, but into no directory twice: links to
/// directories above them would never end, and to one beside them count its rows again.
fn walk(dir: &Path, root: &Path) -> Result<Vec<Input>> {
    let mut found = Vec::new();
    walk_into(dir, root, &mut HashSet::new(), &mut found)?;
    Ok(found)
}

fn walk_into(
    dir: &Path,
    root: &Path,
    seen: &mut HashSet<(u64, u64)>,
    found: &mut Vec<Input>,
) -> Result<()> {
    let listed = std::fs::metadata(dir).map_err(Error::io("list", dir))?;
    if !seen.insert((listed.dev(), listed.ino())) {
        return Ok(());
    }
    for path in listed_paths(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(HIDDEN) {
            continue;
        }
        // Not `is_dir`, which is false for what cannot be looked at.
        let is_dir = match std::fs::metadata(&path) {
            Ok(found) => found.is_dir(),
            // A link to nothing that would be read.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !is_parquet(&path) => continue,
            Err(e) => return Err(Error::io("list", &path)(e)),
        };
        if is_dir {
            walk_into(&path, root, seen, found)?;
        } else if is_parquet(&path) {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            found.push(Input { path, relative });
        }
    }
    Ok(())
}

/// What is in a directory, links last: a directory that is there twice is read under its own name.
fn listed_paths(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("list", dir))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("list", dir))?;
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        paths.push((is_link, entry.path()));
    }
    paths.sort();
    Ok(paths.into_iter().map(|(_, path)| path).collect())
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
    fn a_glob_passes_over_what_a_directory_does() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.parquet", ".b.parquet", "_c.parquet", "_tmp/d.parquet", "e/.f.parquet"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |glob: &str| -> Vec<String> {
            let inputs = expand(&[format!("{}/{glob}", dir.path().display())]).unwrap();
            inputs.into_iter().map(|i| i.relative.display().to_string()).collect()
        };
        // The directory of a test may have such a name itself.
        assert_eq!(found("*.parquet"), ["a.parquet"]);
        assert_eq!(found("**/*.parquet"), ["a.parquet"]);
        assert_eq!(found("_*.parquet"), ["_c.parquet"]);
        assert_eq!(found("_tmp/*.parquet"), ["d.parquet"]);
        assert_eq!(found("*/.f.parquet"), [".f.parquet"]);
        let none = expand(&[format!("{}/e/*.parquet", dir.path().display())]).unwrap_err();
        assert!(none.to_string().contains("names that start with . or _"), "{none}");
    }

    #[test]
    fn what_is_not_on_a_disk_here_is_refused_with_the_way() {
        let refused = |argument: &str| expand(&[argument.to_string()]).unwrap_err().to_string();
        assert!(refused("s3://bucket/*.parquet").contains("s3:// is not read"));
        assert!(refused("https://host/a.parquet").contains("copy it to one first"));
        assert!(refused("file:///data/a.parquet").ends_with("without file://: /data/a.parquet"));
        assert!(refused("-").starts_with("standard input is not read"));
        for name in ["x.csv", "x.CSV.gz", "-", "s3://bucket/x.parquet", "x.json"] {
            assert!(check_output(Path::new(name)).is_err(), "{name}");
        }
        for name in ["x.parquet", "scores", "scores.v2", "out/csv", "gz"] {
            assert!(check_output(Path::new(name)).is_ok(), "{name}");
        }
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
