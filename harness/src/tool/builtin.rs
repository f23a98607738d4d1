//! The tools that loopdeck brings along. None of them can leave its root folder.
//!
//! Place in the flow: made from `[[tool]] builtin = ...` of agent.toml. The root is held as a capability, so a
//! symbolic link that points outside is refused by the open itself and not by a look beforehand; `..` and
//! absolute paths are refused earlier, with words. Every size has a cap, named beside its tool.

mod list_files;
mod read_file;
mod run_program;
mod search_files;
mod walk;
mod write_file;

#[cfg(feature = "mcp")]
pub(super) use run_program::USUAL_ENV;

use super::ToolboxError;
use super::typed::Typed;
use crate::config::{Builtin, ToolTable};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// A folder that tools cannot leave.
#[derive(Debug)]
struct Root {
    dir: Dir,
    path: PathBuf,
}

impl Root {
    fn open(path: &Path) -> std::io::Result<Self> {
        let path = path.canonicalize()?;
        Ok(Self { dir: Dir::open_ambient_dir(&path, ambient_authority())?, path })
    }

    /// Does work that waits for the disk, away from the loop's threads.
    async fn work<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        match tokio::task::spawn_blocking(move || work(&self)).await {
            Ok(done) => done,
            Err(_) => Err(Fault::new(FaultClass::Permanent, "the tool panicked")),
        }
    }
}

/// The tool of a `[[tool]]` table, rooted as seen from `folder`.
pub(super) fn of_table(kind: Builtin, table: &ToolTable, folder: &Path) -> Result<Typed, ToolboxError> {
    let name = table.tool_name();
    let path = folder.join(table.root.as_deref().unwrap_or(Path::new(".")));
    let root =
        Root::open(&path).map_err(|why| ToolboxError::Root { tool: name.to_owned(), root: path, why })?;
    let root = Arc::new(root);
    let tool = match kind {
        Builtin::ReadFile => read_file::tool(root),
        Builtin::ListFiles => list_files::tool(root),
        Builtin::SearchFiles => search_files::tool(root),
        Builtin::WriteFile => write_file::tool(root),
        Builtin::RunProgram => run_program::tool(root, &table.programs, &table.env),
    };
    let tool = tool.named(name).within_ms(table.timeout_ms());
    Ok(if table.description.is_empty() { tool } else { tool.described(&table.description) })
}

/// The path as it may be opened below a root.
fn inside(path: &str) -> Result<PathBuf, Fault> {
    let mut inside = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                let why = format!(
                    "`{path}` is refused: paths are relative to the tool's root and never lead out of it"
                );
                return Err(Fault::new(FaultClass::Permanent, why));
            }
        }
    }
    Ok(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside })
}

/// Why a path could not be used, without the root's own path: that is nothing for the model.
fn failed(doing: &str, path: &Path, why: &std::io::Error) -> Fault {
    Fault::new(FaultClass::Permanent, format!("cannot {doing} `{}`: {why}", path.display()))
}

#[cfg(test)]
mod sample {
    //! A root with a secret beside it, and ways out of it.

    use super::{Builtin, ToolTable, Typed, of_table};

    /// The folder: `outside/secret.txt` and `root/`, with links of both kinds in it.
    pub(super) fn house() -> tempfile::TempDir {
        let house = tempfile::tempdir().unwrap();
        let at = |path: &str| house.path().join(path);
        std::fs::create_dir_all(at("outside")).unwrap();
        std::fs::create_dir_all(at("root/notes")).unwrap();
        std::fs::write(at("outside/secret.txt"), "the secret").unwrap();
        std::fs::write(at("root/hello.txt"), "first\nsecond\nthird\n").unwrap();
        std::fs::write(at("root/notes/plan.md"), "a plan\nno Secret here\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("../outside/secret.txt", at("root/link.txt")).unwrap();
            symlink("../outside", at("root/door")).unwrap();
            symlink(at("outside/secret.txt"), at("root/absolute.txt")).unwrap();
            symlink("hello.txt", at("root/inner.txt")).unwrap();
        }
        house
    }

    /// A built-in tool over `root/`.
    pub(super) fn tool(house: &tempfile::TempDir, kind: Builtin, programs: &[&str]) -> Typed {
        let table = ToolTable {
            builtin: Some(kind),
            root: Some("root".into()),
            programs: programs.iter().map(|name| (*name).to_owned()).collect(),
            ..ToolTable::default()
        };
        of_table(kind, &table, house.path()).unwrap()
    }

    /// Paths that lead out of `root/`.
    pub(super) fn ways_out(house: &tempfile::TempDir) -> Vec<String> {
        let absolute = house.path().join("outside/secret.txt").display().to_string();
        let mut ways =
            vec!["../outside/secret.txt".to_owned(), "notes/../../outside/secret.txt".to_owned(), absolute];
        if cfg!(unix) {
            ways.extend(["link.txt", "absolute.txt", "door/secret.txt"].map(str::to_owned));
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_root_or_is_refused() {
        for (path, wanted) in [("", "."), (".", "."), ("./a//b", "a/b"), ("a/./b", "a/b")] {
            assert_eq!(inside(path).unwrap(), Path::new(wanted), "{path}");
        }
        for path in ["/", "/etc/passwd", "..", "a/../b", "a/.."] {
            assert!(inside(path).unwrap_err().message.contains("refused"), "{path}");
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_named_with_its_tool() {
        let house = sample::house();
        let table = ToolTable { root: Some("gone".into()), ..ToolTable::default() };
        let why = of_table(
            Builtin::ReadFile,
            &ToolTable { builtin: Some(Builtin::ReadFile), ..table },
            house.path(),
        )
        .unwrap_err()
        .to_string();
        assert!(why.contains("read_file") && why.contains("gone"), "{why}");
    }
}
