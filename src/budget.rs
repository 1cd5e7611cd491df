//! Bytes: how people write them, how many this machine has, and the list that every big buffer is
//! on before it exists.
//!
//! A [`MemoryPlan`] is filled by the planner, phase by phase (streaming, decomposition, writing).
//! Its peak is the largest phase, and a plan whose peak is over the [`Budget`] never starts.

use crate::error::{Error, Result};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of the machine's memory that is used when ⟦memory⟧ is not given.
pub(crate) const DEFAULT_SHARE: u64 = 4;

/// What the process holds before it has read a row: code, libraries, BLAS work areas.
pub(crate) const PROGRAM_BYTES: u64 = 24 << 20;

/// A number of bytes that prints and parses the way people write it: `250MB`, `2GiB`, `1.5G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::words::bytes(self.0))
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let wrong = || format!("'{text}' is no size; write it like 500MB, 2GB or 1GiB");
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let scale: f64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1e3,
            "m" | "mb" => 1e6,
            "g" | "gb" => 1e9,
            "t" | "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1024f64.powi(2),
            "gib" => 1024f64.powi(3),
            "tib" => 1024f64.powi(4),
            _ => return Err(wrong()),
        };
        let bytes = number * scale;
        if bytes.is_finite() && bytes >= 1.0 && bytes < u64::MAX as f64 {
            Ok(Bytes(bytes as u64))
        } else {
            Err(wrong())
        }
    }
}

/// How many bytes the work may hold, and who said so.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The ceiling.
    pub bytes: Bytes,
    /// True when the user gave it, false when it is a share of the machine.
    pub asked: bool,
}

impl Budget {
    /// The user's ceiling, or a quarter of the machine's (or its control group's) memory.
    pub fn new(asked: Option<Bytes>) -> Budget {
        match asked {
            Some(bytes) => Budget { bytes, asked: true },
            None => Budget { bytes: Bytes(machine_memory() / DEFAULT_SHARE), asked: false },
        }
    }
}

/// Physical memory, or the control group's limit where that is smaller; 4 GiB where neither tells.
fn machine_memory() -> u64 {
    // SAFETY: sysconf reads a constant of the system and has no preconditions.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let physical = if pages > 0 && size > 0 { pages as u64 * size as u64 } else { 4 << 30 };
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(&limit_files(&groups), |path| std::fs::read_to_string(path).ok());
    limit.map_or(physical, |l| l.min(physical))
}

/// Where version 2 of the control groups is mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Where the memory controller of version 1 is.
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";

/// The files that may limit this process, given its /proc/self/cgroup: those of its own group and
/// of all above it, in both versions. In a container the path may be that of the host, where it is
/// not to be found; the root of what is mounted is then its own group.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        // "0::/user.slice/a" is version 2, "9:memory:/a" a hierarchy of version 1.
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" if id == "0" => (GROUPS, "memory.max"),
            some if some.split(',').any(|c| c == "memory") => {
                (MEMORY_GROUPS, "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A path of another namespace ("/../a") is not below the mount.
        let inside = !path.components().any(|part| part == Component::ParentDir);
        let path = if inside { path } else { Path::new("") };
        files.extend(path.ancestors().map(|group| Path::new(root).join(group).join(file)));
    }
    files.push(Path::new(GROUPS).join("memory.max"));
    files.push(Path::new(MEMORY_GROUPS).join("memory.limit_in_bytes"));
    files
}

/// The least of the limits that are numbers: "max" is none.
fn group_limit(files: &[PathBuf], read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    files.iter().filter_map(|file| read(file)?.trim().parse::<u64>().ok()).min()
}

/// What the allocator keeps at the end of a heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_FREE: libc::c_int = 256 << 20;

/// Tells the allocator to keep freed blocks for the next one instead of returning them to the
/// system.
///
/// Blocks and pages of some megabytes come and go all the time; mapping them anew each time cost a
/// fifth of a fit in page faults (300,000 × 768 f32: 4.5 s → 3.2 s). Matrices beyond 32 MiB are
/// still mapped on their own and returned when freed. Does nothing where the C library is not
/// glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes any numbers and is called before other threads exist.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE);
    }
}

/// Threads that have worked at the same time, each with a heap of its own.
static HEAPS: AtomicUsize = AtomicUsize::new(0);

/// Threads that have worked leave heaps, which [`release_freed_memory`] must know of.
pub(crate) fn count_heaps(threads: usize) {
    HEAPS.fetch_max(threads.min(MOST_HEAPS), Ordering::Relaxed);
}

/// More heaps than this are not looked for.
const MOST_HEAPS: usize = 64;

/// Returns what [`keep_freed_memory`] has kept: between two phases that need different buffers.
///
/// What is free at the end of a thread's heap goes only with a large block that this heap's thread
/// frees beyond the threshold. Heaps of threads that have ended go to the next ones, so as many are
/// started, and each frees a block. (A fit of 3,000 vectors of 1,500 features held 20 MB so, beside
/// its decomposition.)
pub(crate) fn release_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes any numbers. Threads that free a block of their own at this moment may
        // return it earlier than they would, and nothing else.
        let keep = |bytes| unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes) };
        keep(64 << 10);
        on_every_heap(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20))));
        keep(KEPT_FREE);
        // SAFETY: gives free pages back to the system; live ones are not touched.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Does this on as many threads as have worked, all of them there at the same time.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn on_every_heap(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        let (started, waiting) = crossbeam_channel::bounded::<()>(0);
        // A thread may have begun before the one that had its heap was gone, and made another.
        for _ in 0..2 * HEAPS.load(Ordering::Relaxed) + 2 {
            let (waiting, work) = (waiting.clone(), &work);
            let all_are_there = move || {
                let _ = waiting.recv();
                work();
            };
            // Without a thread its heap stays as it is.
            let _ = std::thread::Builder::new().spawn_scoped(scope, all_are_there);
        }
        drop(started);
    });
}

/// One buffer of a phase.
#[derive(Debug, Clone)]
pub struct Item {
    /// What it holds, for people.
    pub what: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The buffers that are alive at the same time.
#[derive(Debug, Clone)]
pub struct Phase {
    /// "streaming", "decomposition", "writing", "scoring", …
    pub name: &'static str,
    /// What is held.
    pub items: Vec<Item>,
}

impl Phase {
    /// A phase that starts with what the program holds anyway.
    pub fn new(name: &'static str) -> Phase {
        Phase {
            name,
            items: vec![Item { what: "program and libraries".into(), bytes: PROGRAM_BYTES }],
        }
    }

    /// Adds a buffer.
    pub fn hold(mut self, what: impl Into<String>, bytes: u64) -> Phase {
        self.items.push(Item { what: what.into(), bytes });
        self
    }

    /// Bytes of all its buffers.
    pub fn bytes(&self) -> u64 {
        self.items.iter().fold(0, |sum, item| sum.saturating_add(item.bytes))
    }

    /// The largest buffer.
    pub fn largest(&self) -> &Item {
        self.items.iter().max_by_key(|item| item.bytes).expect("a phase holds the program at least")
    }
}

/// All phases of a piece of work.
#[derive(Debug, Clone, Default)]
pub struct MemoryPlan {
    /// In the order they run.
    pub phases: Vec<Phase>,
}

impl MemoryPlan {
    /// The phase that holds most.
    pub fn peak(&self) -> Option<&Phase> {
        self.phases.iter().max_by_key(|phase| phase.bytes())
    }

    /// Bytes of that phase.
    pub fn peak_bytes(&self) -> u64 {
        self.peak().map_or(0, Phase::bytes)
    }

    /// Refuses what does not fit; `hint` says what would.
    pub fn check(&self, budget: &Budget, hint: impl FnOnce() -> String) -> Result<()> {
        let Some(phase) = self.peak() else {
            return Ok(());
        };
        if phase.bytes() <= budget.bytes.0 {
            return Ok(());
        }
        Err(Error::Budget {
            what: format!(
                "{} (most of it {}, {})",
                phase.name,
                phase.largest().what,
                Bytes(phase.largest().bytes)
            ),
            needs: phase.bytes(),
            budget: budget.bytes.0,
            hint: hint(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let parse = |s: &str| s.parse::<Bytes>().map(|b| b.0);
        assert_eq!(parse("500MB"), Ok(500_000_000));
        assert_eq!(parse("2 GiB"), Ok(2 << 30));
        assert_eq!(parse("1.5g"), Ok(1_500_000_000));
        assert_eq!(parse("64"), Ok(64));
        for bad in ["", "MB", "2XB", "-1GB", "0", "1e400GB", "nan"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_peak_is_the_largest_phase() {
        let ledger = MemoryPlan {
            phases: vec![Phase::new("stream").hold("a", 5), Phase::new("decompose").hold("b", 9)],
        };
        assert_eq!(ledger.peak().unwrap().name, "decompose");
        assert_eq!(ledger.peak_bytes(), PROGRAM_BYTES + 9);
        let budget = Budget { bytes: Bytes(PROGRAM_BYTES), asked: true };
        assert!(
            ledger
                .check(&budget, || "use less".into())
                .unwrap_err()
                .to_string()
                .contains("use less")
        );
    }

    fn limits(groups: &str) -> Vec<String> {
        limit_files(groups).iter().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn limits_are_looked_for_from_the_own_group_upwards() {
        let root = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let v2 = limits("0::/user.slice/job\n");
        assert_eq!(
            v2[..3],
            [
                "/sys/fs/cgroup/user.slice/job/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        let v1 = limits("12:cpu,cpuacct:/a\n9:memory:/docker/b:c\n1:name=systemd:/a\n");
        assert_eq!(
            v1[..3],
            [
                "/sys/fs/cgroup/memory/docker/b:c/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert_eq!(limits("no group\n0::\n")[1..], root);
        assert_eq!(limits("0::/../../outside\n")[1..], root, "not below what is mounted");
        assert_eq!(limits(""), root);
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let files = limit_files("0::/a/b\n");
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_string()),
            "/sys/fs/cgroup/a/memory.max" => Some("500\n".to_string()),
            "/sys/fs/cgroup/memory.max" => Some("900\n".to_string()),
            _ => None,
        };
        assert_eq!(group_limit(&files, read), Some(500));
        assert_eq!(group_limit(&files, |_| Some("max".into())), None);
    }
}
