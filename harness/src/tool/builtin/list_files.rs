//! `list_files`: what is in a folder.

use super::walk::{Kind, walk};
use super::{Root, inside};
use crate::tool::typed::Typed;
use crate::tool::{Effect, Risk};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use trace::fact::Fault;

/// Most entries that one call gives.
const MAX_ENTRIES: usize = 2_000;
/// Most folders deep.
const MAX_DEPTH: u32 = 32;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the folder, relative to the root; the root itself where absent.
    #[serde(default)]
    path: Option<String>,
    /// How many folders deep to list, 1 to 32; 1 where absent.
    #[serde(default)]
    depth: Option<u32>,
}

pub(super) fn tool(root: Arc<Root>) -> Typed {
    let description = "Lists the files and folders of a folder, one a line: folders end in `/`, files have their \
                       size, symbolic links are shown and not followed, `.git` is left out.";
    Typed::new("list_files", description, Risk::Read, Effect::Pure, move |arguments: Arguments, _| {
        root.clone().work(move |root| list(root, &arguments))
    })
}

fn list(root: &Root, arguments: &Arguments) -> Result<String, Fault> {
    let path = inside(arguments.path.as_deref().unwrap_or("."))?;
    let depth = arguments.depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let (mut listed, mut count) = (String::new(), 0);
    let whole = walk(root, &path, depth, &mut |entry| {
        if count == MAX_ENTRIES {
            return ControlFlow::Break(());
        }
        count += 1;
        let name = entry.path.display();
        // Writing to a string cannot fail.
        let _ = match entry.kind {
            Kind::Folder => writeln!(listed, "{name}/"),
            Kind::File { bytes } => writeln!(listed, "{name}  {bytes} bytes"),
            Kind::Link => writeln!(listed, "{name}  symbolic link"),
            Kind::Other => writeln!(listed, "{name}  special file"),
        };
        ControlFlow::Continue(())
    })?;
    if count == 0 {
        listed.push_str("[the folder is empty]\n");
    }
    if !whole {
        let _ = writeln!(listed, "[there are more: {count} are listed; ask for a folder further down]");
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{house, tool, ways_out};
    use super::*;
    use crate::config::Builtin;
    use crate::tool::sample::ran;
    use serde_json::json;

    #[tokio::test]
    async fn a_folder_is_listed_in_order_and_links_are_not_followed() {
        let house = house();
        let list = tool(&house, Builtin::ListFiles, &[]);
        std::fs::create_dir_all(house.path().join("root/.git/objects")).unwrap();
        #[cfg(unix)]
        insta::assert_snapshot!(ran(&list, r#"{"depth":3}"#).await.unwrap(), @r"
        absolute.txt  symbolic link
        door  symbolic link
        hello.txt  19 bytes
        inner.txt  symbolic link
        link.txt  symbolic link
        notes/
        notes/plan.md  22 bytes
        ");
        assert_eq!(ran(&list, r#"{"path":"notes"}"#).await.unwrap(), "notes/plan.md  22 bytes\n");
    }

    #[tokio::test]
    async fn no_path_and_no_link_leads_out_of_the_root() {
        let house = house();
        let list = tool(&house, Builtin::ListFiles, &[]);
        for path in ways_out(&house).into_iter().chain(["..".to_owned(), "door".to_owned()]) {
            assert!(ran(&list, &json!({"path": path}).to_string()).await.is_err(), "{path}");
        }
    }

    #[tokio::test]
    async fn a_folder_with_too_much_in_it_says_so() {
        let house = house();
        for index in 0..=MAX_ENTRIES {
            std::fs::write(house.path().join(format!("root/notes/{index:05}")), "").unwrap();
        }
        let list = tool(&house, Builtin::ListFiles, &[]);
        let answer = ran(&list, r#"{"path":"notes"}"#).await.unwrap();
        assert!(answer.ends_with("[there are more: 2000 are listed; ask for a folder further down]\n"));
    }
}
