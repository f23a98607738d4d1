//! The program as people start it: arguments in; stdout, stderr and exit code out.

use loopback::Loopback;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_loopdeck");

/// What one command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A home in a temporary folder, and the program that lives in it.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) folder: TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes a file beside the home.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// An agent.toml without tools that asks this provider.
    pub(crate) fn agent(&self, base_url: &str, wire: &str) -> PathBuf {
        let text = format!(
            "[model]\nname = \"m\"\nwire = \"{wire}\"\nkey_env = \"\"\nbase_url = \"{base_url}\"\n\
             [budget]\nmax_retries_per_model_call = 1\n"
        );
        self.file(&format!("agent-{wire}.toml"), text)
    }

    /// A command, not yet started. No key, proxy or exporter of the surroundings reaches it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.folder.path()).env("LOOPDECK_HOME", self.home());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Said {
        said(self.command(PROGRAM).args(arguments))
    }

    /// Runs the program to its end while the runtime goes on, for a provider in this process to answer.
    pub(crate) async fn run_beside(&self, arguments: &[&str]) -> Said {
        let mut command = self.command(PROGRAM);
        command.args(arguments);
        tokio::task::spawn_blocking(move || said(&mut command)).await.unwrap()
    }

    /// The rows of a statement.
    pub(crate) fn sql(&self, statement: &str) -> Vec<Value> {
        let said = self.run(&["sql", statement, "--json"]);
        assert_eq!(said.code, 0, "{statement}: {}", said.err);
        serde_json::from_str(&said.out).unwrap()
    }

    /// The one value of a statement.
    pub(crate) fn value(&self, statement: &str) -> Value {
        let rows = self.sql(statement);
        rows[0].as_object().unwrap().values().next().unwrap().clone()
    }

    /// Starts `serve` on free ports and waits until it answers.
    pub(crate) fn serve(&self) -> Server {
        let mut command = self.command(PROGRAM);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"])
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = |what: &str| {
            let line = lines.next().unwrap().unwrap();
            let address = line.strip_prefix(what).unwrap_or_else(|| panic!("{what}: {line}")).trim_start();
            assert!(address.starts_with("http://127.0.0.1:"), "{line}");
            address.split_whitespace().next().unwrap().trim_end_matches('/').to_owned()
        };
        let (pages, _otlp, enter) = (told("pages"), told("OTLP"), told("owner"));
        // Read on, so that the server never waits for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, pages, enter }
    }
}

/// A `serve` of its own process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where its pages are.
    pub(crate) pages: String,
    /// The address that makes a browser the owner's.
    pub(crate) enter: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A provider that plays this to every request.
pub(crate) async fn provider(play: impl Fn() -> loopback::Play + Send + Sync + 'static) -> Loopback {
    Loopback::start(move |_: &loopback::RequestSeen| play()).await.unwrap()
}

/// Real recorded input; `None`, said aloud, where it is not there. That is a failure in CI.
pub(crate) fn real_data(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("LOOPDECK_REAL_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let path = root.join(file);
    if Path::exists(&path) {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no real data in CI: {}", path.display());
    // Past the capture of the test runner, or nobody would hear it.
    let _ = std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!("skipped: no real data ({} is not there)\n", path.display()),
    );
    None
}
