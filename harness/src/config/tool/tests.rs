//! Which keys of `[[tool]]` and `[[mcp]]` go together, and what is said where they do not.

use crate::config::AgentConfig;
use std::path::Path;

fn parse(tables: &str) -> Result<AgentConfig, String> {
    let text = format!("[model]\nname = \"m\"\n{tables}");
    AgentConfig::parse(&text, Path::new("agent.toml")).map_err(|why| why.to_string())
}

#[test]
fn every_kind_of_tool_and_server_can_be_configured() {
    let config = parse(include_str!("tables.toml")).unwrap();
    let names: Vec<&str> = config.tools.iter().map(super::ToolTable::tool_name).collect();
    assert_eq!(
        names,
        ["lookup", "read_file", "list_files", "search_files", "write_file", "build", "weather"]
    );
    let servers: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(servers, ["files", "tickets"]);
}

#[test]
fn keys_that_do_not_go_together_are_named_with_their_file() {
    let http = "input_schema = {}\nhttp = { method = \"GET\", url = ";
    for (tables, wanted) in [
        ("[[tool]]\nname = \"a\"", "tool[0].command"),
        ("[[tool]]\nname = \"a\"\ncommand = [\"x\"]\nbuiltin = \"read_file\"", "exactly one"),
        ("[[tool]]\nname = \"a b\"\ncommand = [\"x\"]\ninput_schema = {}", "tool[0].name"),
        ("[[tool]]\nname = \"a\"\ncommand = [\"x\"]", "tool[0].input_schema"),
        ("[[tool]]\nname = \"a\"\ncommand = [\"x\"]\ninput_schema = {}\nroot = \".\"", "tool[0].root"),
        ("[[tool]]\nbuiltin = \"read_file\"", "tool[0].root"),
        ("[[tool]]\nbuiltin = \"format_disk\"\nroot = \".\"", "format_disk"),
        ("[[tool]]\nbuiltin = \"read_file\"\nroot = \".\"\nrisk = \"read\"", "tool[0].risk"),
        ("[[tool]]\nbuiltin = \"read_file\"\nroot = \".\"\nprograms = [\"ls\"]", "tool[0].programs"),
        ("[[tool]]\nbuiltin = \"run_program\"\nroot = \".\"", "tool[0].programs"),
        (&format!("[[tool]]\nname = \"a\"\n{http}\"file:///etc/passwd\" }}"), "tool[0].http.url"),
        (&format!("[[tool]]\nname = \"a\"\n{http}\"https://me:secret@host/\" }}"), "bearer_env"),
        (&format!("[[tool]]\nname = \"a\"\n{http}\"https://host/\", follow = true }}"), "follow"),
        (
            "[[tool]]\nbuiltin = \"read_file\"\nroot = \".\"\n[[tool]]\nbuiltin = \"read_file\"\nroot = \".\"",
            "tool[1].name",
        ),
        ("[[mcp]]\nname = \"a\"", "mcp[0].command"),
        ("[[mcp]]\nname = \"a\"\ncommand = [\"x\"]\nurl = \"http://localhost/\"", "exactly one"),
        ("[[mcp]]\nname = \"a\"\nurl = \"ftp://localhost/\"", "mcp[0].url"),
        ("[[mcp]]\nname = \"a\"\ncommand = [\"x\"]\nbearer_env = \"KEY\"", "mcp[0].bearer_env"),
        ("[[mcp]]\nname = \"a\"\ncommand = [\"x\"]\n[[mcp]]\nname = \"a\"\ncommand = [\"x\"]", "mcp[1].name"),
        ("[[mcp]]\nname = \"a\"\ncomand = [\"x\"]", "comand"),
    ] {
        let why = parse(tables).unwrap_err();
        assert!(why.contains("agent.toml") && why.contains(wanted), "{tables}: {why}");
    }
}

#[test]
fn a_table_as_old_tapes_hold_it_is_written_back_byte_for_byte() {
    let old = r#"{"name":"t","description":"","command":["x"],"input_schema":{},"risk":"execute","effect":"at_most_once","timeout_seconds":30}"#;
    let table: super::ToolTable = serde_json::from_str(old).unwrap();
    assert_eq!(serde_json::to_string(&table).unwrap(), old);
}
