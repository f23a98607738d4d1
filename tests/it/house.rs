//! The house rules: what the compiler and the lints cannot hold, read from the files themselves.
//!
//! Place in the flow: none; it looks at the tree as a newcomer does. Each rule fails with the file that breaks it
//! and with what to do. An exception stands in a list here with its reason, and is removed when it is over.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file may grow to this many lines, its tests left out, without being asked why.
const LONG_LINES: usize = 450;

/// Files over [`LONG_LINES`], each with the reason why it is one file.
const LONG_FILES: [(&str, &str); 1] =
    [("eval/src/report.rs", "one document, whose parts are read together by its three writers")];

/// Code outside tests that writes SQL itself, each with the reason why it is no `.sql` file.
const SQL_IN_CODE: [(&str, &str); 3] = [
    ("harness/trace/src/store/ask.rs", "wraps a statement whose columns are known only when it is asked"),
    ("harness/trace/src/store/schema.rs", "one row of the schema's own version"),
    ("src/replay.rs", "the condition that a person types is a part of the statement"),
];

/// Which rooms a room may use, and which only its tests may use. The arrows of ARCHITECTURE.md.
const ARROWS: [(&str, &[&str], &[&str]); 7] = [
    ("harness/trace", &[], &[]),
    ("harness", &["trace"], &["loopback"]),
    ("harness/loopback", &["trace", "harness"], &[]),
    ("replay", &["trace", "harness"], &["loopback"]),
    ("eval", &["trace", "harness", "replay"], &["loopback"]),
    ("dashboard", &["trace"], &[]),
    (".", &["trace", "harness", "loopback", "replay", "eval", "dashboard"], &[]),
];

/// Crates that few rooms may use; the fakes of tests may serve HTTP too.
const OWNED: [(&str, &[&str]); 4] = [
    ("duckdb", &["harness/trace"]),
    ("axum", &["dashboard", "harness/loopback"]),
    ("askama", &["dashboard"]),
    ("clap", &["."]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// All files of the project, by their path from the root; what is built, recorded or hidden is left out, CI aside.
fn files() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let hidden = name.starts_with('.') && name != ".ci" && name != ".github";
            match path.is_dir() {
                true if !hidden && name != "target" => open.push(path),
                false if !hidden => found.push(path),
                _ => {}
            }
        }
    }
    let mut names: Vec<String> =
        found.iter().map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    assert!(names.len() > 100, "only {} files were found: the walk is broken", names.len());
    names
}

fn files_ending_in(ending: &str) -> Vec<String> {
    files().into_iter().filter(|name| name.ends_with(ending)).collect()
}

/// The text of a source file without its tests; nothing where the whole file is tests.
fn production(path: &str) -> String {
    let in_tests = path.contains("tests/") || path.contains("benches/") || path.ends_with("tests.rs");
    match in_tests {
        true => String::new(),
        false => read(path).split("#[cfg(test)]").next().unwrap_or_default().to_owned(),
    }
}

fn manifest(room: &str) -> toml::Table {
    toml::from_str(&read(&format!("{room}/Cargo.toml"))).unwrap_or_else(|why| panic!("{room}: {why}"))
}

/// The names in one dependency table of a room, tables of single targets included.
fn dependencies(room: &str, table: &str) -> Vec<String> {
    let manifest = manifest(room);
    let names = |holder: &toml::Table| -> Vec<String> {
        holder
            .get(table)
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect()
    };
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flatten().filter_map(|(_, one)| one.as_table()).flat_map(&names);
    names(&manifest).into_iter().chain(of_targets).collect()
}

/// The lines of the first fenced block after a heading of the README.
fn block_after(text: &str, heading: &str) -> Vec<String> {
    let part = text.split(heading).nth(1).unwrap_or_else(|| panic!("README.md has no heading `{heading}`"));
    let lines = part.lines().skip_while(|line| !line.starts_with("```")).skip(1);
    lines.take_while(|line| !line.starts_with("```")).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn dependencies_between_rooms_point_one_way() {
    let rooms: Vec<&str> = ARROWS[6].1.to_vec();
    let workspace = manifest(".");
    let members = workspace["workspace"]["members"].as_array().unwrap();
    assert_eq!(members.len() + 1, ARROWS.len(), "a room is missing in ARROWS, or one is gone");
    for (room, allowed, in_tests) in ARROWS {
        for name in dependencies(room, "dependencies").iter().chain(&dependencies(room, "build-dependencies"))
        {
            let ok = !rooms.contains(&name.as_str()) || allowed.contains(&name.as_str());
            assert!(ok, "{room} may not use {name}: see the arrows in ARCHITECTURE.md");
        }
        for name in dependencies(room, "dev-dependencies") {
            let ok =
                !rooms.contains(&name.as_str()) || allowed.contains(&&*name) || in_tests.contains(&&*name);
            assert!(ok, "the tests of {room} may not use {name}: see the arrows in ARCHITECTURE.md");
        }
    }
}

#[test]
fn a_crate_with_an_owner_is_used_by_its_owner_alone() {
    for (name, owners) in OWNED {
        for (room, ..) in ARROWS {
            let uses = |table: &str| dependencies(room, table).iter().any(|one| one == name);
            let used = uses("dependencies") || uses("build-dependencies");
            assert_eq!(used, owners.contains(&room), "{room} and {name}: only {owners:?} may use it, and do");
            let faked = name == "axum" || owners.contains(&room);
            assert!(faked || !uses("dev-dependencies"), "the tests of {room} may not use {name}");
        }
    }
}

#[test]
fn duckdb_is_linked_and_pinned() {
    let workspace = manifest(".");
    let duckdb = &workspace["workspace"]["dependencies"]["duckdb"];
    assert_eq!(
        duckdb["version"].as_str(),
        Some("=1.10505.0"),
        "another version needs another library and hash"
    );
    assert_eq!(duckdb["default-features"].as_bool(), Some(false));
    assert!(
        duckdb.get("features").is_none(),
        "json and parquet imply the bundled build; the library has both inside"
    );
    let of_trace = manifest("harness/trace");
    let features = of_trace["features"].as_table().unwrap();
    assert_eq!(
        features.keys().map(String::as_str).collect::<Vec<_>>(),
        ["bundled"],
        "bundled is never a default"
    );
}

#[test]
fn every_source_file_opens_with_its_purpose() {
    for name in files_ending_in(".rs") {
        assert!(
            read(&name).starts_with("//!"),
            "{name} does not open with `//!`: say its purpose and place in the flow"
        );
    }
}

#[test]
fn no_module_is_named_after_nothing_in_particular() {
    for name in files_ending_in(".rs") {
        let stem = Path::new(&name).file_stem().unwrap().to_string_lossy().into_owned();
        let vague = [
            "util", "utils", "common", "helper", "helpers", "types", "manager", "error", "errors", "misc",
            "mod",
        ];
        assert!(
            !vague.contains(&stem.as_str()),
            "{name}: name it after the data or the deed; `foo.rs` beside `foo/`"
        );
    }
}

#[test]
fn a_long_file_has_a_reason() {
    let reasons = BTreeMap::from(LONG_FILES);
    for name in files_ending_in(".rs") {
        let lines = production(&name).lines().count();
        let listed = reasons.contains_key(name.as_str());
        assert!(
            listed || lines <= LONG_LINES,
            "{name} has {lines} lines: split it, or list it with a reason"
        );
        assert!(
            !listed || lines > LONG_LINES,
            "{name} has {lines} lines: take it off the list of long files"
        );
    }
}

#[test]
fn every_sql_file_is_used() {
    let sources = files_ending_in(".rs");
    for name in files_ending_in(".sql") {
        let room = name.split("/sql/").next().unwrap();
        let path = Path::new(&name);
        let (file, stem) =
            (path.file_name().unwrap().to_string_lossy(), path.file_stem().unwrap().to_string_lossy());
        let spelled = [format!("/{file}\""), format!("\"{stem}\"")];
        let used = sources
            .iter()
            .filter(|source| source.starts_with(&format!("{room}/src/")))
            .any(|source| spelled.iter().any(|one| production(source).contains(one)));
        assert!(used, "{name} is embedded by no source file of {room}: delete it, or use it");
    }
}

#[test]
fn sql_stands_in_files_of_its_own() {
    let reasons = BTreeMap::from(SQL_IN_CODE);
    let words = [
        "\"select ",
        "\"with ",
        "\"insert into ",
        "\"delete from ",
        "\"create table ",
        "\"create view ",
        "\"copy ",
    ];
    for name in files_ending_in(".rs") {
        let code = production(&name).to_lowercase();
        let found = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .any(|line| words.iter().any(|word| line.contains(word)));
        let allowed = reasons.contains_key(name.as_str());
        assert!(!found || allowed, "{name} writes SQL: put it into a `.sql` file and embed it");
        assert!(found || !allowed, "{name} writes no SQL any more: take it off the list");
    }
}

#[test]
fn the_database_is_named_in_one_room() {
    for name in files_ending_in(".rs").into_iter().filter(|name| !name.starts_with("harness/trace/")) {
        assert!(
            !production(&name).contains("duckdb::"),
            "{name} names the crate duckdb: ask trace::store or trace::reader"
        );
    }
}

#[test]
fn the_loop_names_no_store() {
    for name in files_ending_in(".rs").into_iter().filter(|name| name.starts_with("harness/src/")) {
        let code = production(&name);
        let found =
            ["trace::store", "trace::reader", "trace::question"].into_iter().find(|one| code.contains(one));
        assert_eq!(found, None, "{name}: the loop writes tapes and asks no index");
    }
}

#[test]
fn integration_tests_are_one_binary() {
    let names = files_ending_in(".rs");
    let stray: Vec<&String> =
        names.iter().filter(|name| name.starts_with("tests/") && !name.starts_with("tests/it/")).collect();
    assert!(stray.is_empty(), "{stray:?}: each would be a binary of its own; put it into tests/it");
}

#[test]
fn the_readme_needs_two_commands_and_ci_runs_the_same() {
    let readme = read("README.md");
    assert_eq!(block_after(&readme, "## Set up"), ["cargo run -- demo", "cargo test --workspace"]);
    let ci = read(".ci/run");
    for command in ["cargo test --workspace", "cargo run -- demo --exit", ".ci/examples"] {
        assert!(
            ci.lines().any(|line| line.contains(command) && !line.contains("step ")),
            ".ci/run does not run `{command}`"
        );
    }
    assert!(read(".github/workflows/ci.yml").contains("run: .ci/run"), "the workflow has steps of its own");
    assert!(readme.contains("\n```sh\n"), "the README shows nothing that can be tried");
}

#[test]
fn the_readme_tells_every_exit_code_and_every_view() {
    let readme = read("README.md");
    let codes: Vec<String> = read("src/exit.rs")
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ").map(|(_, code)| code.to_owned()))
        .filter(|code| code.parse::<u8>().is_ok())
        .collect();
    assert_eq!(codes.len(), 10, "src/exit.rs is not spelled as this test reads it: {codes:?}");
    for code in codes {
        assert!(readme.contains(&format!("| {code} |")), "README.md does not tell exit code {code}");
    }
    for view in ["runs", "turns", "tool_calls", "model_calls", "spans", "messages", "scores", "alerts"] {
        assert!(
            root().join(format!("harness/trace/sql/view/{view}.sql")).is_file(),
            "the view {view} is gone"
        );
        assert!(readme.contains(&format!("`{view}`")), "README.md does not tell the view {view}");
    }
}

#[test]
fn the_changelog_says_what_is_not_released_yet() {
    assert!(
        read("CHANGELOG.md").contains("\n## [Unreleased]\n"),
        "CHANGELOG.md has no heading `## [Unreleased]`"
    );
}

#[test]
fn what_the_pages_name_is_there() {
    let endings =
        [".rs", ".sql", ".toml", ".md", ".html", ".css", ".txt", ".json", ".jsonl", ".py", ".tsv", ".yml"];
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "datasets/README.md"] {
        let text = read(page);
        // Outside fenced blocks, every second piece between back-ticks is code.
        let prose: String = text.split("```").step_by(2).collect();
        let named = prose.split('`').skip(1).step_by(2).filter(|one| {
            one.contains('/')
                && !one.contains("NAME")
                && !one.contains([' ', '*', '<', '{', '$', '='])
                && endings.iter().any(|end| one.ends_with(end))
        });
        for name in named {
            let beside = root().join(page).parent().map(PathBuf::from).unwrap_or_default().join(name);
            assert!(
                root().join(name).exists() || beside.exists(),
                "{page} names `{name}`, which is not there"
            );
        }
    }
}

#[test]
fn nothing_tells_where_it_was_written() {
    // Cut in two, so that this file passes its own test.
    let private = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("\"/ho", "me/"),
        concat!(" /ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/fa", "rm/"),
        concat!("registry.npm", "js"),
        concat!("index.crates", ".io"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    for name in files().into_iter().filter(|name| name != "Cargo.lock" && name != "LICENSE") {
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        for word in private {
            assert!(!text.contains(word), "{name} holds `{word}`: say it without a place of one machine");
        }
    }
}

/// How many requirements there are.
const REQUIREMENTS: u32 = 105;

/// The numbers that a text names as `R7`, and as `R7 to R9` with those between.
fn numbers(text: &str) -> Vec<u32> {
    let number = |word: &str| -> Option<u32> {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        word.strip_prefix('R')?.parse().ok()
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(first) = number(word) else { continue };
        let range = words.get(at + 1).filter(|to| **to == "to").and_then(|_| number(words.get(at + 2)?));
        found.extend(first..=range.unwrap_or(first));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_requirement_has_one_row_with_a_test_that_exists_or_is_said_to_be_missing() {
    let table = read("harness/REQUIREMENTS.md");
    let (rows, missing) = table.split_once("## Not satisfied yet").unwrap_or((&table, ""));
    let missing = numbers(missing);
    let sources: String = files_ending_in(".rs").iter().map(|name| read(name)).collect();
    let mut seen = BTreeMap::new();
    for row in rows.lines().filter(|line| line.starts_with("| R") && !line.starts_with("| R |")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, what, place, test] = cells[..] else { panic!("{row}: four cells a row") };
        let number: u32 =
            number.trim_start_matches('R').parse().unwrap_or_else(|_| panic!("{row}: one number a row"));
        assert!(seen.insert(number, what).is_none(), "R{number} has two rows");
        let (place, test) = (place.trim_matches('`'), test.trim_matches('`'));
        assert!(root().join(place).exists(), "R{number} lives in `{place}`, which is not there");
        assert!(
            sources.contains(&format!("fn {test}(")),
            "R{number} names the test `{test}`, which is not there"
        );
        assert!(!missing.contains(&number), "R{number} has a row and is said to be missing");
    }
    assert!(seen.keys().is_sorted(), "the rows are not in order");
    let lost: Vec<u32> =
        (1..=REQUIREMENTS).filter(|n| !seen.contains_key(n) && !missing.contains(n)).collect();
    assert!(lost.is_empty(), "neither a row nor a word in `Not satisfied yet`: {lost:?}");
}

#[test]
fn wires_know_no_policy_no_loop_and_no_budget() {
    let words = ["policy", "machine", "driver", "hands", "budget", "retry::", "validate", "toolbox"];
    let wires = files_ending_in(".rs").into_iter().filter(|name| name.starts_with("harness/src/model"));
    for name in wires {
        let code = production(&name);
        let uses = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in uses.filter(|line| line.contains("crate::") || line.contains("super::")) {
            let found = words.iter().find(|word| line.contains(*word));
            assert!(
                found.is_none(),
                "{name}: `{}`: what may be done is decided outside the wires",
                line.trim()
            );
        }
    }
}
