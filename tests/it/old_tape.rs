//! Tapes of earlier formats, as the programs of their day wrote them: read, verified and replayed exactly today.
//!
//! `datasets/tapes/format-N` holds them. A change of the machine, of a default or of the configuration's shape that
//! would let a stored run end otherwise is found here.

use crate::kit::program::House;
use std::path::PathBuf;

/// The tapes of all formats, by folder.
fn tapes() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("datasets/tapes");
    let mut tapes: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    tapes.sort();
    tapes
}

#[test]
fn every_format_before_this_one_has_tapes() {
    let mut formats: Vec<u32> =
        tapes().iter().map(|path| trace::tape::Tape::read(path).unwrap().header().format).collect();
    formats.dedup();
    assert_eq!(formats, (1..trace::tape::FORMAT).collect::<Vec<_>>());
}

#[test]
fn tapes_of_earlier_formats_verify_and_replay_exactly() {
    let house = House::new();
    let tapes = tapes();
    for command in ["verify", "replay"] {
        let said = house.command(crate::kit::program::PROGRAM).arg(command).args(&tapes).output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success(), "{command}: {out}{}", String::from_utf8_lossy(&said.stderr));
        let words = if command == "verify" { "whole and unchanged" } else { ": exact: " };
        assert_eq!(out.matches(words).count(), tapes.len(), "{out}");
    }
}
