//! Going through a folder in a fixed order, without following links.

use super::{Root, failed};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use trace::fact::Fault;

/// Most entries that one walk looks at.
pub(super) const MAX_WALKED: usize = 50_000;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File {
        /// Its size.
        bytes: u64,
    },
    /// A symbolic link, never followed.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// One entry of a walk.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its path below the root.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) kind: Kind,
}

/// Visits what is below `path`, at most `depth` folders deep, sorted by name; `.git` is left out.
///
/// Ends early where the visitor breaks or after [`MAX_WALKED`] entries; says whether it came to the end.
pub(super) fn walk(
    root: &Root,
    path: &Path,
    depth: u32,
    visit: &mut dyn FnMut(&Entry) -> ControlFlow<()>,
) -> Result<bool, Fault> {
    let mut waiting: Vec<(Entry, u32)> = entries(root, path)?.into_iter().map(|entry| (entry, 1)).collect();
    waiting.reverse();
    let mut walked = 0;
    while let Some((entry, level)) = waiting.pop() {
        walked += 1;
        if walked > MAX_WALKED || visit(&entry).is_break() {
            return Ok(false);
        }
        if entry.kind == Kind::Folder && level < depth {
            // A folder that cannot be read (or is gone by now) hides what is in it and nothing else.
            let inner = entries(root, &entry.path).unwrap_or_default();
            waiting.extend(inner.into_iter().rev().map(|entry| (entry, level + 1)));
        }
    }
    Ok(true)
}

fn entries(root: &Root, path: &Path) -> Result<Vec<Entry>, Fault> {
    let listed = root.dir.read_dir(path).map_err(|why| failed("list", path, &why))?;
    let mut found: Vec<Entry> = listed
        .take(MAX_WALKED)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name() != ".git")
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let kind = match metadata.file_type() {
                kind if kind.is_symlink() => Kind::Link,
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File { bytes: metadata.len() },
                _ => Kind::Other,
            };
            let name = entry.file_name();
            let path = if path == Path::new(".") { PathBuf::from(name) } else { path.join(name) };
            Some(Entry { path, kind })
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}
