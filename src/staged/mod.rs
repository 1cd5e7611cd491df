//! Files and directories that are either whole or not there.
//!
//! Everything is written beside its target under a hidden name, for its owner alone, and locked;
//! then synced and renamed, with the mode of what it replaces. A dropped stage removes itself; so
//! does [`exit_on_signals`] before it ends the process, but for files that are complete and that
//! the same command takes up, and for those that a moment does not suffice for. What a killed
//! process left behind is not locked any more, and the next run that writes the same target removes
//! it, if it is its own.
//!
//! | behind `.NAME.eigenstream-` | what it is |
//! |---|---|
//! | six letters | a file in the making ([`StagedFile`]) |
//! | `r` and a key, or a process | a directory in the making ([`StagedDir`]) |
//! | `lock` | held by the run that changes the target ([`LockedFile`]) |
//! | `old` | a directory on its way out, where two cannot be swapped |

mod alive;
mod dir;
mod file;
mod kept;
mod lock;
mod mode;
mod part;
#[cfg(feature = "cli")]
mod removal;
mod stamp;
mod strays;
mod swap;
mod target;

#[cfg(feature = "cli")]
pub(crate) use alive::exit_on_signals;
pub(crate) use dir::StagedDir;
pub(crate) use file::StagedFile;
pub(crate) use kept::kept;
pub(crate) use lock::LockedFile;
pub use lock::Waiting;
pub(crate) use part::PartFile;
pub use stamp::FileStamp;
#[cfg(feature = "cli")]
pub(crate) use target::{check_dir, check_file};
