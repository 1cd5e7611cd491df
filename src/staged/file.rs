//! A file in the making: a hidden one beside the target, which it replaces in one step.

use super::alive::alive;
use super::kept;
use super::mode::keep_mode;
use super::strays::{is_at, remove_strays};
use super::target::{Target, check_file};
use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;
use tempfile::NamedTempFile;

/// A file in the making.
pub(crate) struct StagedFile {
    temporary: Option<NamedTempFile>,
    target: Target,
}

impl StagedFile {
    /// Creates the temporary file beside the target, or beside the file that a link points to.
    pub(crate) fn create(target: &Path) -> Result<StagedFile> {
        check_file(target)?;
        let target = Target::of(target)?;
        remove_strays(&target);
        let mut alive = alive();
        let temporary = loop {
            let made = tempfile::Builder::new().prefix(&target.prefix).tempfile_in(&target.parent);
            let temporary = made.map_err(Error::io("create", &target.shown))?;
            let _ = temporary.as_file().lock();
            // Until it was locked another run could take it for a stray.
            if is_at(temporary.as_file(), temporary.path()) {
                break temporary;
            }
        };
        alive.insert(temporary.path().to_path_buf());
        Ok(StagedFile { temporary: Some(temporary), target })
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        self.temporary.as_mut().expect("only commit and drop take it").as_file_mut()
    }

    /// Syncs and renames.
    pub(crate) fn commit(mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else {
            return Ok(());
        };
        let (shown, real) = (&self.target.shown, &self.target.real);
        let synced = temporary.as_file().sync_all().map_err(Error::io("write", shown));
        let mut alive = alive();
        alive.remove(temporary.path());
        synced?;
        keep_mode(temporary.as_file(), std::fs::metadata(real).ok().as_ref());
        temporary.persist(real).map_err(|e| Error::io("create", shown)(e.error))?;
        kept().write(shown);
        self.target.sync_parent();
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let mut alive = alive();
            alive.remove(temporary.path());
            drop(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_a_committed_one_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m");
        std::fs::write(&target, "old").unwrap();
        let mut staged = StagedFile::create(&target).unwrap();
        staged.file().write_all(b"half").unwrap();
        drop(staged);
        assert_eq!(names(dir.path()), ["m"]);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
        let mut staged = StagedFile::create(&target).unwrap();
        staged.file().write_all(b"new").unwrap();
        staged.commit().unwrap();
        assert_eq!(names(dir.path()), ["m"]);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    }

    #[test]
    fn the_mode_of_what_is_replaced_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o7777
        };
        std::fs::write(dir.path().join("plain"), "").unwrap();
        StagedFile::create(&dir.path().join("new")).unwrap().commit().unwrap();
        assert_eq!(mode("new"), mode("plain"));
        for kept in [0o600, 0o640, 0o444] {
            let target = dir.path().join("new");
            std::fs::set_permissions(&target, PermissionsExt::from_mode(kept)).unwrap();
            let mut staged = StagedFile::create(&target).unwrap();
            assert_eq!(staged.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
            staged.commit().unwrap();
            assert_eq!(mode("new"), kept);
        }
    }

    #[test]
    fn strays_go_and_live_stages_and_what_is_not_ours_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (target, at) = (dir.path().join("m"), |name: &str| dir.path().join(name));
        std::fs::write(at(".m.eigenstream-dead"), "").unwrap();
        std::fs::create_dir(at(".m.eigenstream-unlocked")).unwrap();
        std::fs::write(at("kept"), "kept").unwrap();
        std::os::unix::fs::symlink("kept", at(".m.eigenstream-link")).unwrap();
        let pipe = at(".m.eigenstream-pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let left = [".m.eigenstream-link", ".m.eigenstream-pipe", "kept"];
        let live = StagedFile::create(&target).unwrap();
        let second = StagedFile::create(&target).unwrap();
        assert_eq!(names(dir.path()).len(), left.len() + 2, "both live ones are there");
        drop((live, second));
        assert_eq!(names(dir.path()), left);
    }
}
