//! `loopdeck completions`: the completion script of a shell.

use crate::exit::{Done, Exit};
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  loopdeck completions bash > ~/.local/share/bash-completion/completions/loopdeck"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Line::command(), "loopdeck", &mut script);
    crate::say::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
