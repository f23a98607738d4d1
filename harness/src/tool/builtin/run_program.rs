//! `run_program`: one of the programs that agent.toml names, started in the root folder without a shell.
//!
//! Only the program and the folder it starts in are held: what a program may then open is for policy and its
//! sandbox to say. It sees a few harmless environment variables and those that agent.toml names, so the keys of
//! the process stay with the process.

use super::Root;
use crate::sandbox;
use crate::tool::command::drain;
use crate::tool::typed::Typed;
use crate::tool::{Effect, Risk};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use trace::caller::TRACEPARENT;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Environment variables that every program sees, where they are set.
pub(in crate::tool) const USUAL_ENV: &[&str] =
    &["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SystemRoot", "TEMP", "TMP"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The program: one of those that the description names.
    program: String,
    /// Its arguments, one an element; no shell sees them.
    #[serde(default)]
    arguments: Vec<String>,
    /// What it reads from its standard input; nothing where absent.
    #[serde(default)]
    stdin: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Ended {
    /// Exit code; null where a signal ended it.
    exit_code: Option<i32>,
    /// What it wrote to its standard output.
    stdout: String,
    /// What it wrote to its standard error.
    stderr: String,
}

pub(super) fn tool(root: Arc<Root>, programs: &[String], env: &[String]) -> Typed {
    let description = format!(
        "Runs a program in the root folder and gives its exit code and output. Programs: {}.",
        programs.join(", ")
    );
    let allowed = Arc::new(programs.to_vec());
    let env: Arc<Vec<String>> =
        Arc::new(USUAL_ENV.iter().map(|name| (*name).to_owned()).chain(env.iter().cloned()).collect());
    Typed::new(
        "run_program",
        description,
        Risk::Execute,
        Effect::AtMostOnce,
        move |arguments: Arguments, permit| {
            let surroundings = Surroundings {
                env: env.clone(),
                traceparent: permit.traceparent().map(str::to_owned),
                is_sandboxed: permit.is_sandboxed(),
            };
            run(root.clone(), allowed.clone(), surroundings, arguments)
        },
    )
    .in_sandbox()
}

/// What a program runs in besides its folder.
struct Surroundings {
    env: Arc<Vec<String>>,
    traceparent: Option<String>,
    is_sandboxed: bool,
}

async fn run(
    root: Arc<Root>,
    allowed: Arc<Vec<String>>,
    surroundings: Surroundings,
    arguments: Arguments,
) -> Result<Ended, Fault> {
    let name = &arguments.program;
    let Some(program) = allowed.iter().find(|allowed| *allowed == name) else {
        let why = format!("`{name}` may not be run; these may: {}", allowed.join(", "));
        return Err(Fault::new(FaultClass::Permanent, why));
    };
    let fault = |doing: &str, why: std::io::Error| {
        Fault::new(FaultClass::Permanent, format!("cannot {doing} `{program}`: {why}"))
    };
    let mut command = tokio::process::Command::new(program);
    command
        .args(&arguments.arguments)
        .current_dir(&root.path)
        .env_clear()
        .envs(surroundings.env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(surroundings.traceparent.map(|parent| (TRACEPARENT, parent)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let started = sandbox::spawn(command, surroundings.is_sandboxed.then_some(root.path.as_path()));
    let (mut child, _scratch) = started.map_err(|why| fault("start", why))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut stdin), Some(text)) = (stdin, &arguments.stdin) {
            // A program that does not read its input closes the pipe: not a failure of the call.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
    };
    let ((), out, err, status) = tokio::join!(feed, drain(stdout), drain(stderr), child.wait());
    Ok(Ended {
        exit_code: status.map_err(|why| fault("wait for", why))?.code(),
        stdout: out.map_err(|why| fault("read", why))?,
        stderr: err.map_err(|why| fault("read", why))?,
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::sample::{house, tool};
    use crate::config::Builtin;
    use crate::tool::Tool as _;
    use crate::tool::sample::ran;
    use serde_json::{Value, json};

    async fn run(arguments: &Value) -> Result<Value, String> {
        let house = house();
        let tool = tool(&house, Builtin::RunProgram, &["cat", "sh"]);
        let answer = ran(&tool, &arguments.to_string()).await.map_err(|fault| fault.message)?;
        Ok(serde_json::from_str(&answer).unwrap())
    }

    #[tokio::test]
    async fn a_named_program_runs_in_the_root_and_tells_how_it_ended() {
        let cat = run(&json!({"program": "cat", "arguments": ["notes/plan.md"]})).await.unwrap();
        assert_eq!(cat, json!({"exit_code": 0, "stdout": "a plan\nno Secret here\n", "stderr": ""}));
        let fed = run(&json!({"program": "cat", "stdin": "fed"})).await.unwrap();
        assert_eq!(fed["stdout"], "fed");
        let failed =
            run(&json!({"program": "sh", "arguments": ["-c", "echo no >&2; exit 3"]})).await.unwrap();
        assert_eq!(failed, json!({"exit_code": 3, "stdout": "", "stderr": "no\n"}));
    }

    #[tokio::test]
    async fn no_other_program_runs_and_no_shell_reads_the_arguments() {
        for program in ["ls", "/bin/cat", "./cat", "cat; ls", "../bin/sh", ""] {
            let why = run(&json!({"program": program})).await.unwrap_err();
            assert!(why.contains("may not be run; these may: cat, sh"), "{why}");
        }
        let answer = run(&json!({"program": "cat", "arguments": ["$(echo hello.txt)"]})).await.unwrap();
        assert_ne!(answer["exit_code"], 0);
    }

    #[tokio::test]
    async fn the_keys_of_the_process_stay_with_the_process() {
        let seen = run(&json!({"program": "sh", "arguments": ["-c", "env"]})).await.unwrap();
        let seen = seen["stdout"].as_str().unwrap();
        assert!(seen.contains("PATH="), "{seen}");
        // Cargo sets this one for every test.
        assert!(
            std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !seen.contains("CARGO_MANIFEST_DIR"),
            "{seen}"
        );
    }

    #[test]
    fn the_model_is_told_the_programs() {
        let tool = tool(&house(), Builtin::RunProgram, &["cargo", "git"]);
        assert!(tool.spec().description.ends_with("Programs: cargo, git."));
        assert!(tool.spec().output_schema.is_some());
    }
}
