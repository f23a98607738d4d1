//! `loopdeck diff`: where two recorded runs part.

use crate::exit::{Done, Exit};
use crate::house::House;
use crate::{replay as replay_command, say};
use replay::divergence::{diverge, moves};
use replay::report::Side;
use serde_json::json;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  loopdeck diff 4f1c 9a02\n  loopdeck diff good.tape.zst latest --json\n\nExit: 0 no difference in calls or answer, 1 a difference."
)]
pub(crate) struct Args {
    /// A run as in `show`, or a tape
    left: String,
    /// Another
    right: String,
    /// Print the difference as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let (left, right) = (house.tape(&args.left).await?, house.tape(&args.right).await?);
    let difference = diverge(&moves(&left), &moves(&right));
    let (sides, exit) =
        ((Side::of(&left), Side::of(&right)), if difference.is_some() { Exit::Fail } else { Exit::Ok });
    if args.json {
        say::json(&json!({ "first_difference": difference, "left": sides.0, "right": sides.1 }))?;
        return Ok(exit);
    }
    say::data(&match &difference {
        None => "no difference in calls or answer".to_owned(),
        Some(one) => format!(
            "first difference: turn {} ({})\n  left:  {}\n  right: {}",
            one.turn,
            one.kind,
            say::clip(&one.recorded),
            say::clip(&one.replayed)
        ),
    })?;
    say::data(&replay_command::side("left", &sides.0))?;
    say::data(&replay_command::side("right", &sides.1))?;
    Ok(exit)
}
