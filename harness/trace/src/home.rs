//! The home folder: where logs, index, lock and settings of one loopdeck lie.
//!
//! Place in the flow: every command opens a [`Home`] first; the logs, the lock and the store take their paths
//! from it and from nowhere else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the home folder.
pub const VARIABLE: &str = "LOOPDECK_HOME";
/// The home folder where the variable is not set, relative to the working directory.
pub const DEFAULT: &str = ".loopdeck";

/// A home folder that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// The home folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {}: {source}; set {VARIABLE} to a folder that can be written", path.display())]
pub struct HomeError {
    path: PathBuf,
    source: io::Error,
}

impl Home {
    /// Opens the folder and creates what is missing in it, readable by its owner only.
    ///
    /// # Errors
    /// When a folder cannot be created.
    pub fn open(root: PathBuf) -> Result<Self, HomeError> {
        let home = Self { root };
        for folder in [home.root.clone(), home.tapes(), home.inbox(), home.ops()] {
            create(&folder).map_err(|source| HomeError { path: folder, source })?;
        }
        Ok(home)
    }

    /// Where the home folder is: the variable, else the default.
    #[must_use]
    pub fn located() -> PathBuf {
        std::env::var_os(VARIABLE)
            .filter(|path| !path.is_empty())
            .map_or_else(|| DEFAULT.into(), PathBuf::from)
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The recordings of our own runs, one file a run.
    #[must_use]
    pub fn tapes(&self) -> PathBuf {
        self.root.join("tapes")
    }

    /// What came in by OTLP and import, one file an appending process.
    #[must_use]
    pub fn inbox(&self) -> PathBuf {
        self.root.join("inbox")
    }

    /// Scores, alert transitions, silences and annotations, one file an appending process.
    #[must_use]
    pub fn ops(&self) -> PathBuf {
        self.root.join("ops")
    }

    /// The DuckDB file: derived, can be deleted.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("loopdeck.duckdb")
    }

    /// The file whose lock decides who opens the database.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Address and token of the `serve` that owns the database.
    #[must_use]
    pub fn owner(&self) -> PathBuf {
        self.root.join("owner.json")
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.root.join("loopdeck.toml")
    }
}

#[cfg(unix)]
fn create(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_creates_what_is_missing_and_a_second_time_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let home = Home::open(root.clone()).unwrap();
        assert!(home.tapes().is_dir() && home.inbox().is_dir() && home.ops().is_dir());
        assert_eq!(Home::open(root).unwrap(), home);
    }

    #[test]
    fn a_home_that_is_a_file_is_a_clear_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = Home::open(file.path().join("home")).unwrap_err().to_string();
        assert!(told.starts_with("cannot create ") && told.contains("LOOPDECK_HOME"), "{told}");
    }
}
