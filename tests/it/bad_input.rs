//! Bad input at the command line: each case ends with its exit code and says what is wrong, where, and what to do.

use crate::kit::program::{House, PROGRAM, Said, said};
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, said as answer};
use crate::reseal::OpenLines;
use std::path::PathBuf;

const AGENT: &str = "[model]\nname = \"m\"\n";

/// Asserts one row of a table.
fn expect(name: &str, said: &Said, code: i32, fragments: &[&str]) {
    assert_eq!(said.code, code, "{name}: {}{}", said.out, said.err);
    for fragment in fragments {
        assert!(said.err.contains(fragment), "{name}: no `{fragment}` in: {}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{name}: {}", said.err);
}

#[test]
fn a_configuration_that_cannot_be_used_is_named_with_file_key_and_line() {
    let house = House::new();
    let rows: [(&str, &str, &[&str]); 9] = [
        (
            "unknown key",
            "[model]\nname = \"m\"\n[budget]\nmax_turns = 3\n",
            &["line 4", "max_turns", "max_model_turns"],
        ),
        ("unknown table", "[model]\nname = \"m\"\n[budgets]\n", &["line 3", "budgets"]),
        ("wrong type", "[model]\nname = 3\n", &["line 2", "string"]),
        ("no TOML", "[model\nname", &["line 1"]),
        ("no model", "[agent]\nname = \"a\"\n", &["model"]),
        ("empty model", "[model]\nname = \"\"\n", &["model.name", "gpt-4o-mini"]),
        ("unknown wire", "[model]\nname = \"m\"\nwire = \"soap\"\n", &["model.wire", "use chat"]),
        (
            "no prompt file",
            "[agent]\nprompt_file = \"gone.txt\"\n[model]\nname = \"m\"\n",
            &["gone.txt", "cannot be read"],
        ),
        (
            "schema that is none",
            "[model]\nname = \"m\"\nkey_env = \"\"\n[[tool]]\nname = \"t\"\ndescription = \"\"\ncommand = [\"true\"]\ninput_schema = { type = 3 }\n",
            &["tool `t`", "JSON Schema"],
        ),
    ];
    for (name, text, fragments) in rows {
        let file = house.file("agent.toml", text);
        let said = house.run(&["run", file.to_str().unwrap(), "a task"]);
        expect(name, &said, 2, &[fragments, &["agent.toml"]].concat());
    }
    expect("no file", &house.run(&["run", "gone.toml", "a task"]), 2, &["gone.toml: cannot be read"]);
    expect("a folder", &house.run(&["run", ".", "a task"]), 2, &["cannot be read"]);
    std::fs::write(house.folder.path().join("latin.toml"), b"[model]\nname = \"\xe9\"\n").unwrap();
    expect(
        "no UTF-8",
        &house.run(&["run", "latin.toml", "a task"]),
        2,
        &["latin.toml: cannot be read", "UTF-8"],
    );
}

#[test]
fn a_missing_key_of_a_provider_is_named_and_nothing_is_begun() {
    let house = House::new();
    for (wire, key) in [("chat", "OPENAI_API_KEY"), ("messages", "ANTHROPIC_API_KEY")] {
        let file = house.file("agent.toml", format!("{AGENT}wire = \"{wire}\"\n"));
        let said = house.run(&["run", file.to_str().unwrap(), "a task"]);
        expect(wire, &said, 2, &["agent.toml", key, "is not set", "model.key_env"]);
    }
    let own = house.file("agent.toml", format!("{AGENT}key_env = \"MY_KEY\"\n"));
    expect("own", &house.run(&["run", own.to_str().unwrap(), "a task"]), 2, &["MY_KEY"]);
    expect(
        "empty task",
        &house.run(&["run", house.agent("http://127.0.0.1:9", "chat").to_str().unwrap(), " "]),
        2,
        &["task is empty"],
    );
}

/// A recorded run, copied into the home as an open tape of this text.
async fn with_tape(house: &House, change: impl FnOnce(String) -> String) -> (Recorded, PathBuf) {
    let tool = InProcess::reading("look", Deed::Say("seen"));
    let run = Kit::new([asks(&[("a", "look", "{}")]), answer("Done.")]).tool(&tool).run().await;
    let tapes = house.home().join("tapes");
    std::fs::create_dir_all(&tapes).unwrap();
    let path = tapes.join(format!("{}.tape", run.tape.started().unwrap().run_id));
    std::fs::write(&path, change(OpenLines::read(&run.path).sealed())).unwrap();
    (run, path)
}

#[tokio::test]
async fn a_torn_tape_is_readable_up_to_its_tear_and_says_so() {
    let house = House::new();
    let (_run, path) = with_tape(&house, |text| text[..text.len() - 40].to_owned()).await;
    let path = path.to_str().unwrap();
    let verified = house.run(&["verify", path]);
    expect("verify", &verified, 0, &[]);
    assert!(verified.out.contains("its torn last line dropped"), "{}", verified.out);
    let replayed = house.run(&["replay", path]);
    expect("replay", &replayed, 0, &[]);
    assert!(replayed.out.contains("the tape ends before the run did"), "{}", replayed.out);
    assert_eq!(house.value("select status from runs"), "running");
}

#[tokio::test]
async fn a_damaged_tape_is_named_with_its_line() {
    let house = House::new();
    let (_run, path) = with_tape(&house, |text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[6] = lines[6]
            .replacen("look", "took", 1)
            .replacen("seen", "sean", 1)
            .replacen("\"at\":1", "\"at\":2", 1);
        lines.join("\n") + "\n"
    })
    .await;
    let path = path.to_str().unwrap();
    expect("verify", &house.run(&["verify", path]), 1, &["line 7", ".tape"]);
    expect("replay", &house.run(&["replay", path]), 2, &["line 7", ".tape"]);
    expect("readers go on and say it", &house.run(&["runs"]), 0, &["line 7", ".tape"]);
    let empty = house.file("empty.tape", "");
    expect("empty", &house.run(&["verify", empty.to_str().unwrap()]), 1, &["empty.tape", "no tape"]);
    let newer = house.file("newer.tape", OpenLines(vec![
        "{\"seq\":0,\"at\":1,\"type\":\"tape\",\"format\":99,\"program\":\"loopdeck 9\",\"redaction_key_id\":\"x\"".to_owned(),
    ]).sealed());
    expect(
        "newer",
        &house.run(&["verify", newer.to_str().unwrap()]),
        1,
        &["format 99 is newer", "use a newer loopdeck"],
    );
}

#[test]
fn a_file_that_is_no_conversation_is_named_with_entry_and_field_and_nothing_is_imported() {
    let house = House::new();
    let rows: [(&str, &str, &[&str]); 7] = [
        ("broken.json", "{\"messages\": [", &["line 1"]),
        ("text.json", "hello", &["line 1", "expected chat JSON"]),
        ("empty.json", "[]", &["no conversation"]),
        (
            "other.json",
            "[{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}, {\"rows\": []}]",
            &["entry 2", "`messages`", "missing"],
        ),
        (
            "role.json",
            "{\"messages\": [{\"role\": \"user\"}, {\"content\": \"hi\"}]}",
            &["entry 1", "`messages[1].role`"],
        ),
        (
            "reward.json",
            "[{\"traj\": [{\"role\": \"user\"}], \"reward\": \"good\"}]",
            &["entry 1", "`reward`", "number"],
        ),
        (
            "lines.jsonl",
            "{\"messages\": [{\"role\": \"user\"}]}\n{\"messages\": 3}\n",
            &["`messages`", "entry 2"],
        ),
    ];
    for (name, text, fragments) in rows {
        let file = house.file(name, text);
        let said = house.run(&["import", file.to_str().unwrap()]);
        expect(name, &said, 2, &[fragments, &[name]].concat());
    }
    expect("no file", &house.run(&["import", "gone.json"]), 2, &["gone.json"]);
    assert_eq!(house.value("select count(*) from runs"), 0);
}

#[test]
fn a_port_in_use_is_named() {
    let house = House::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    expect("pages", &house.run(&["serve", "--listen", &address, "--otlp-http", free]), 2, &[&address]);
    expect("OTLP", &house.run(&["serve", "--listen", free, "--otlp-http", &address]), 2, &[&address]);
    expect("no address", &house.run(&["serve", "--listen", "here"]), 2, &["here"]);
    expect("not loopback", &house.run(&["serve", "--listen", "0.0.0.0:0"]), 2, &["0.0.0.0", "localhost"]);
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let house = House::new();
    let agent = house.agent("http://127.0.0.1:9", "chat");
    // Permissions do not bind the superuser, who runs many test machines; a file in the way binds everybody.
    let file = house.file("in-the-way", "");
    let mut command = house.command(PROGRAM);
    let said_so = said(
        command.args(["run", agent.to_str().unwrap(), "a task"]).env("LOOPDECK_HOME", file.join("home")),
    );
    expect("a file in the way", &said_so, 5, &["cannot create", "in-the-way", "LOOPDECK_HOME"]);
    std::fs::create_dir_all(house.home().join("redaction.key")).unwrap();
    expect(
        "a key that is a folder",
        &house.run(&["run", agent.to_str().unwrap(), "a task"]),
        5,
        &["redaction.key"],
    );
}

/// Mounts want a namespace of their own, which some machines forbid; there this says that it was skipped.
#[test]
fn a_full_or_read_only_disk_ends_the_run_with_its_reason() {
    let house = House::new();
    let agent = house.agent("http://127.0.0.1:9", "chat");
    let mount = house.folder.path().join("disk");
    std::fs::create_dir(&mount).unwrap();
    let script = |options: &str, before: &str| {
        format!(
            "mount -t tmpfs -o {options} tmpfs '{0}' || exit 99; mkdir -p '{0}/home' && {before}; \
             LOOPDECK_HOME='{0}/home' exec '{PROGRAM}' run '{1}' 'a task'",
            mount.display(),
            agent.display()
        )
    };
    let rows: [(&str, String, &[&str]); 2] = [
        (
            "full",
            script(
                "size=64k",
                &format!(
                    "'{PROGRAM}' completions bash >/dev/null; mkdir -p '{0}/home/tapes'; cat /dev/zero > '{0}/fill' 2>/dev/null; true",
                    mount.display()
                ),
            ),
            &["No space left"],
        ),
        (
            "read-only",
            script("size=64k", &format!("mount -o remount,ro '{}'", mount.display())),
            &["Read-only"],
        ),
    ];
    for (name, script, fragments) in rows {
        let said = said(house.command("unshare").args(["-rm", "sh", "-c", &script]));
        if said.code == 99
            || said.err.contains("unshare failed")
            || said.err.contains("Operation not permitted")
        {
            println!("skipped: mounts are not permitted here");
            return;
        }
        expect(name, &said, 5, fragments);
        assert!(said.err.contains("disk/home"), "{name} names the place: {}", said.err);
    }
}

#[tokio::test]
async fn a_run_that_is_not_there_or_not_one_is_named() {
    let house = House::new();
    for command in ["show", "verify", "replay"] {
        expect(command, &house.run(&[command, "4f1c"]), 2, &["no run `4f1c`", "loopdeck runs"]);
        expect(command, &house.run(&[command, "latest"]), 2, &["latest"]);
    }
    let mut starts = std::collections::BTreeSet::new();
    // Seventeen runs have two that begin with the same of sixteen digits.
    let twice = loop {
        let (run, _) = with_tape(&house, |text| text).await;
        let first = run.tape.started().unwrap().run_id.as_str()[..1].to_owned();
        if !starts.insert(first.clone()) {
            break first;
        }
    };
    expect("ambiguous", &house.run(&["show", &twice]), 2, &["several runs", &twice]);
}

#[test]
fn sql_that_is_wrong_or_writes_is_refused() {
    let house = House::new();
    let rows: [(&str, &[&str]); 8] = [
        ("selec 1", &["selec"]),
        ("select nothing from runs", &["nothing"]),
        ("select * from nowhere", &["nowhere"]),
        ("drop table span", &["read"]),
        ("delete from span", &["read"]),
        ("create table mine as select 1", &["read"]),
        ("select 1; drop table span", &["read"]),
        ("copy runs to 'out.csv'", &["read"]),
    ];
    for (statement, fragments) in rows {
        expect(statement, &house.run(&["sql", statement]), 2, fragments);
    }
    let outside = house.file("secret.csv", "a\n1\n");
    expect("files outside", &house.run(&["sql", &format!("select * from '{}'", outside.display())]), 2, &[]);
    assert_eq!(house.value("select count(*) from runs"), 0);
}

#[test]
fn a_suite_that_cannot_be_used_is_named_with_its_key_and_an_empty_selection_is_no_pass() {
    let house = House::new();
    let recorded =
        "name = \"s\"\n[recorded]\nwhere = \"true\"\n[[scorer]]\nname = \"r\"\nkind = \"reward\"\n";
    let rows: [(&str, String, &[&str]); 4] = [
        ("unknown key", format!("repeat = 3\n{recorded}"), &["line 1", "repeat", "repeats"]),
        ("no scorer", "name = \"s\"\n[recorded]\nwhere = \"true\"\n".to_owned(), &["`scorer`", "missing"]),
        ("unknown scorer", recorded.replace("\"reward\"", "\"vibes\""), &["vibes"]),
        ("bad condition", recorded.replace("\"true\"", "\"nothing = 1\""), &["recorded.where"]),
    ];
    for (name, text, fragments) in rows {
        let file = house.file("suite.toml", text);
        expect(name, &house.run(&["eval", file.to_str().unwrap()]), 2, fragments);
    }
    let file = house.file("suite.toml", recorded);
    let said = house.run(&["eval", file.to_str().unwrap()]);
    assert_eq!(said.code, 4, "{}{}", said.out, said.err);
    expect("report of no kind", &house.run(&["eval", file.to_str().unwrap(), "-o", "x.pdf"]), 2, &["x.pdf"]);
    assert_eq!(house.run(&["replay", "--where", "false"]).code, 4);
}
