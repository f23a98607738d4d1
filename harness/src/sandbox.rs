//! Programs that may write only in one folder and reach nobody by TCP.
//!
//! Place in the flow: policy says `sandbox`, and a tool that starts a program starts it here. The kernel holds it
//! (Landlock, Linux 6.7 and later), the program cannot leave it, and neither can what it starts. It reads what its user
//! may read. Where the kernel cannot hold it, nothing is started.
//!
//! A thread restricts itself and then starts the program, which inherits that; the thread ends, and the rest of this
//! process is as it was.

use std::io;
use std::path::Path;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Whether this machine can hold a sandbox.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), String> {
    kernel::rules(&[]).map(drop)
}

/// Starts a program; in a sandbox where a folder is given, which is then all that it can write in, with a temporary
/// folder of its own that is gone when the second value is dropped.
///
/// # Errors
/// Where it cannot be started, or not held.
pub fn spawn(mut command: Command, folder: Option<&Path>) -> io::Result<(Child, Option<TempDir>)> {
    let Some(folder) = folder else { return Ok((command.spawn()?, None)) };
    let scratch = tempfile::Builder::new().prefix("loopdeck-").tempdir()?;
    command.env("TMPDIR", scratch.path());
    let rules = kernel::rules(&[folder, scratch.path(), Path::new("/dev/null")]).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Handle::current();
    let inside = move || {
        kernel::hold(rules).map_err(io::Error::other)?;
        let _entered = runtime.enter();
        command.spawn()
    };
    let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn(inside)?;
    let child = thread.join().map_err(|_| io::Error::other("the thread of the sandbox panicked"))??;
    Ok((child, Some(scratch)))
}

#[cfg(target_os = "linux")]
mod kernel {
    //! Landlock. Source: https://docs.kernel.org/userspace-api/landlock.html, version 4 of its interface.

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
        RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, path_beneath_rules,
    };
    use std::path::Path;

    /// The rules; writing is left for these places only. An error where the kernel does not know all of it.
    pub(super) fn rules(places: &[&Path]) -> Result<RulesetCreated, String> {
        build(places)
            .map_err(|why| format!("this kernel has no Landlock that holds files and TCP (6.7 has): {why}"))
    }

    fn build(places: &[&Path]) -> Result<RulesetCreated, RulesetError> {
        let write = AccessFs::from_write(ABI::V4);
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(write)?
            .handle_access(AccessNet::from_all(ABI::V4))?
            .create()?
            .add_rules(path_beneath_rules(places, write))
    }

    /// Holds this thread and all that it starts.
    pub(super) fn hold(rules: RulesetCreated) -> Result<(), String> {
        let held = rules.restrict_self().map_err(|why| format!("the kernel does not hold it: {why}"))?;
        match held.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            other => Err(format!("the kernel holds it in part only ({other:?})")),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    //! No sandbox: nothing runs in one.

    use std::path::Path;

    pub(super) fn rules(_places: &[&Path]) -> Result<(), String> {
        Err("only Linux has Landlock".to_owned())
    }

    pub(super) fn hold(_rules: ()) -> Result<(), String> {
        Err("only Linux has Landlock".to_owned())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::Stdio;

    async fn sh(script: &str, folder: &Path, held: bool) -> (bool, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, _scratch) = spawn(command, held.then_some(folder)).unwrap();
        let output = child.wait_with_output().await.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Said aloud and past the capture, where this machine cannot hold one; a failure in CI.
    fn is_missing() -> bool {
        let Err(why) = available() else { return false };
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no sandbox in CI: {why}");
        let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("skipped: {why}\n"));
        true
    }

    #[tokio::test]
    async fn a_program_writes_in_its_folder_and_its_own_temporary_one_and_nowhere_else() {
        if is_missing() {
            return;
        }
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("kept"), "as it was").unwrap();
        let at = other.path().display();
        for (script, works) in [
            ("echo a > inside && cat inside".to_owned(), true),
            ("echo a > \"$TMPDIR/x\" && cat \"$TMPDIR/x\"".to_owned(), true),
            ("echo a > /dev/null".to_owned(), true),
            (format!("cat {at}/kept"), true),
            (format!("echo a > {at}/new"), false),
            (format!("echo a >> {at}/kept"), false),
            (format!("rm {at}/kept"), false),
            (format!("mkdir {at}/folder"), false),
            (format!("sh -c 'echo a > {at}/by-a-child'"), false),
            (format!("ln -s {at}/kept link && echo a > link"), false),
        ] {
            assert_eq!(sh(&script, mine.path(), true).await.0, works, "{script}");
        }
        assert_eq!(std::fs::read_to_string(other.path().join("kept")).unwrap(), "as it was");
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
        assert!(sh(&format!("echo a > {at}/new"), mine.path(), false).await.0, "without one it can");
        std::fs::write(other.path().join("mine"), "still writable by this process").unwrap();
    }

    #[tokio::test]
    async fn a_program_reaches_nobody_by_tcp() {
        if is_missing() {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let script = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
        assert!(sh(&script, folder.path(), false).await.0, "without one it can");
        assert!(!sh(&script, folder.path(), true).await.0, "in a sandbox it cannot");
    }
}
