//! `write_file`: a text file, whole or not at all.

use super::{Root, failed, inside};
use crate::tool::typed::Typed;
use crate::tool::{Effect, Risk};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Largest content, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the root; missing folders are made.
    path: String,
    /// The whole new content; what the file held before is gone.
    content: String,
}

pub(super) fn tool(root: Arc<Root>) -> Typed {
    let description = "Writes a text file: makes it, or replaces all of its content.";
    Typed::new(
        "write_file",
        description,
        Risk::Write,
        Effect::Idempotent,
        move |arguments: Arguments, permit| {
            let key = permit.idempotency_key().to_owned();
            root.clone().work(move |root| write(root, &arguments, &key))
        },
    )
}

fn write(root: &Root, arguments: &Arguments, key: &str) -> Result<String, Fault> {
    let refused = |why: String| Err(Fault::new(FaultClass::Permanent, why));
    let path = inside(&arguments.path)?;
    let Some(name) = path.file_name() else { return refused(format!("`{}` names no file", arguments.path)) };
    if arguments.content.len() > MAX_BYTES {
        return refused(format!(
            "the content has {} bytes; at most {MAX_BYTES} are written",
            arguments.content.len()
        ));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    root.dir.create_dir_all(folder).map_err(|why| failed("make the folder", folder, &why))?;
    let folder = root.dir.open_dir(folder).map_err(|why| failed("open the folder", folder, &why))?;
    let old = folder.symlink_metadata(name).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return refused(format!("`{}` is there and is no plain file; it is left as it is", path.display()));
    }
    // A reader, or a crash, sees the old content or the new one. The call's key keeps two calls apart.
    let draft = format!(".{}.{key}.draft", name.to_string_lossy());
    let done = folder
        .write(&draft, &arguments.content)
        .and_then(|()| match &old {
            Some(old) => folder.set_permissions(&draft, old.permissions()),
            None => Ok(()),
        })
        .and_then(|()| folder.rename(&draft, &folder, name));
    if let Err(why) = done {
        let _ = folder.remove_file(&draft);
        return Err(failed("write", &path, &why));
    }
    Ok(format!("wrote {} bytes to {}", arguments.content.len(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{house, tool, ways_out};
    use super::*;
    use crate::config::Builtin;
    use crate::tool::Tool as _;
    use crate::tool::sample::ran;
    use serde_json::json;

    #[tokio::test]
    async fn a_file_is_made_with_its_folders_and_replaced_whole() {
        let house = house();
        let write = tool(&house, Builtin::WriteFile, &[]);
        let at = house.path().join("root/new/deep/file.txt");
        for content in ["a longer first content", "second"] {
            let arguments = json!({"path": "new/deep/file.txt", "content": content}).to_string();
            let answer = ran(&write, &arguments).await.unwrap();
            assert_eq!(answer, format!("wrote {} bytes to new/deep/file.txt", content.len()));
            assert_eq!(std::fs::read_to_string(&at).unwrap(), content);
        }
        let left: Vec<_> = std::fs::read_dir(at.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no draft is left behind");
    }

    #[tokio::test]
    async fn nothing_outside_the_root_is_ever_written() {
        let house = house();
        let write = tool(&house, Builtin::WriteFile, &[]);
        let more = ["..", ".", "notes", "door/new.txt", "../root2/x.txt"].map(str::to_owned);
        for path in ways_out(&house).into_iter().chain(more) {
            let answer = ran(&write, &json!({"path": path, "content": "overwritten"}).to_string()).await;
            assert!(answer.is_err(), "{path}: {answer:?}");
        }
        let secret = house.path().join("outside/secret.txt");
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "the secret");
        assert_eq!(std::fs::read_dir(house.path().join("outside")).unwrap().count(), 1);
        assert!(!house.path().join("root2").exists());
    }

    #[tokio::test]
    async fn too_much_is_refused_before_anything_is_touched() {
        let house = house();
        let write = tool(&house, Builtin::WriteFile, &[]);
        let arguments = json!({"path": "hello.txt", "content": "x".repeat(MAX_BYTES + 1)}).to_string();
        assert!(ran(&write, &arguments).await.unwrap_err().message.contains("at most"));
        assert!(std::fs::read_to_string(house.path().join("root/hello.txt")).unwrap().starts_with("first"));
        assert_eq!((write.spec().risk, write.spec().effect), (Risk::Write, Effect::Idempotent));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_script_stays_a_script() {
        use std::os::unix::fs::PermissionsExt as _;
        let house = house();
        let script = house.path().join("root/hello.txt");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let write = tool(&house, Builtin::WriteFile, &[]);
        ran(&write, r##"{"path":"hello.txt","content":"#!/bin/sh\n"}"##).await.unwrap();
        assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
