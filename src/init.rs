//! `loopdeck init`: a commented agent.toml, a prompt and a task to begin with. What is there already stays.

use crate::exit::{Done, Exit, Failure};
use crate::say;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What is written, by name.
const FILES: [(&str, &str); 3] = [
    ("agent.toml", include_str!("init/agent.toml")),
    ("prompt.txt", include_str!("init/prompt.txt")),
    ("task.txt", include_str!("init/task.txt")),
];

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/init.txt"))]
pub(crate) struct Args {
    /// Where to write; made where it is missing
    #[arg(default_value = ".")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Done {
    let folder = &args.folder;
    let wrong = |path: &Path, why: std::io::Error| Failure::usage(format!("{}: {why}", path.display()));
    fs::create_dir_all(folder).map_err(|why| wrong(folder, why))?;
    // All or nothing: half of the files would be an agent that nobody wrote.
    if let Some((name, _)) = FILES.iter().find(|(name, _)| folder.join(name).exists()) {
        let path = folder.join(name);
        return Err(Failure::usage(format!(
            "{} is there already and stays as it is; name another folder: loopdeck init FOLDER",
            path.display()
        )));
    }
    for (name, text) in FILES {
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|why| wrong(&path, why))?;
        say::data(&path.display().to_string())?;
    }
    let (agent, task) = (folder.join("agent.toml"), folder.join("task.txt"));
    say::talk(&format!(
        "next: set OPENAI_API_KEY (or change [model] of agent.toml), then: loopdeck run {} - < {}",
        agent.display(),
        task.display()
    ));
    Ok(Exit::Ok)
}
