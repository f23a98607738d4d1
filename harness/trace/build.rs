//! Finds or fetches the official DuckDB library, and tells the linker and the other rooms where it lies.
//!
//! Order: `DUCKDB_LIB_DIR`; the copy a former build left in `<target>/duckdb`; the release archive; the
//! platform package of `npm pack`. What is fetched is checked against the pinned SHA-256 of the library itself,
//! so it does not matter which source answered. With the feature `bundled` nothing is fetched.

use sha2::{Digest, Sha256};
use std::env;
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The DuckDB release that the crate `duckdb =1.10505.0` binds.
const VERSION: &str = "1.5.5";
/// The build of the npm platform packages that carries that release.
const NPM_VERSION: &str = "1.5.5-r.5";

/// One prebuilt library: where it is published and what it must hash to.
struct Prebuilt {
    os: &'static str,
    arch: &'static str,
    archive: &'static str,
    npm: &'static str,
    file: &'static str,
    sha256: &'static str,
}

const PREBUILT: [Prebuilt; 4] = [
    Prebuilt {
        os: "linux",
        arch: "x86_64",
        archive: "libduckdb-linux-amd64.zip",
        npm: "linux-x64",
        file: "libduckdb.so",
        sha256: "fc23f12e376c47be520f75221288281906e7942e8fd6f6ce4849198ba60d0405",
    },
    Prebuilt {
        os: "linux",
        arch: "aarch64",
        archive: "libduckdb-linux-arm64.zip",
        npm: "linux-arm64",
        file: "libduckdb.so",
        sha256: "d00d007f3f7ca1f2896a5e4b89c2ce141bf0508506a9d6d56f9598b8e59d074e",
    },
    Prebuilt {
        os: "macos",
        arch: "aarch64",
        archive: "libduckdb-osx-universal.zip",
        npm: "darwin-arm64",
        file: "libduckdb.dylib",
        sha256: "b9027d18ef3e8d960568f77e946a83ca68009cb22d71cf7f94de842afdd094d8",
    },
    Prebuilt {
        os: "macos",
        arch: "x86_64",
        archive: "libduckdb-osx-universal.zip",
        npm: "darwin-x64",
        file: "libduckdb.dylib",
        sha256: "b9027d18ef3e8d960568f77e946a83ca68009cb22d71cf7f94de842afdd094d8",
    },
];

type Failure = String;

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    if env::var_os("CARGO_FEATURE_BUNDLED").is_some() {
        return ExitCode::SUCCESS;
    }
    match library_dir() {
        Ok(dir) => {
            announce(&dir);
            ExitCode::SUCCESS
        }
        Err(why) => {
            why.lines().for_each(|line| println!("cargo::error={line}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells cargo where to link, this crate's tests where to load, and dependents (through `links`) the same.
fn announce(dir: &Path) {
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", dir.display());
    println!("cargo:lib_dir={}", dir.display());
}

fn library_dir() -> Result<PathBuf, Failure> {
    let (os, arch) = (variable("CARGO_CFG_TARGET_OS")?, variable("CARGO_CFG_TARGET_ARCH")?);
    let known = PREBUILT.iter().find(|one| one.os == os && one.arch == arch);
    if let Some(dir) = env::var_os("DUCKDB_LIB_DIR") {
        let dir = PathBuf::from(dir);
        let file = known.map_or("libduckdb.so", |one| one.file);
        return match dir.join(file).is_file() {
            true => Ok(dir),
            false => Err(format!(
                "DUCKDB_LIB_DIR is {}, which holds no {file}: point it at DuckDB {VERSION}, or unset it",
                dir.display()
            )),
        };
    }
    let wanted = known.ok_or_else(|| {
        format!(
            "no prebuilt DuckDB is known for {os} on {arch}: set DUCKDB_LIB_DIR to a folder with DuckDB \
             {VERSION}, or build with `--features bundled` (about 60 CPU-minutes)"
        )
    })?;
    let cache = target_dir()?.join("duckdb").join(format!("{VERSION}-{}", wanted.npm));
    let library = cache.join(wanted.file);
    println!("cargo:rerun-if-changed={}", library.display());
    if fs::read(&library).is_ok_and(|bytes| sha256(&bytes) == wanted.sha256) {
        return Ok(cache);
    }
    let bytes = fetch(wanted)?;
    store(&cache, &library, &bytes)?;
    Ok(cache)
}

/// `<target>/<profile>/build/<crate>-<hash>/out` is cargo's layout: the target folder is four levels up.
fn target_dir() -> Result<PathBuf, Failure> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    out.ancestors().nth(4).map(Path::to_path_buf).ok_or_else(|| format!("odd OUT_DIR {}", out.display()))
}

/// Writes beside and renames, so that two builds at once never see half a library.
fn store(cache: &Path, library: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let part = cache.join(format!("part-{}", std::process::id()));
    fs::create_dir_all(cache)
        .and_then(|()| fs::write(&part, bytes))
        .and_then(|()| fs::rename(&part, library))
        .map_err(|why| format!("cannot write {}: {why}", library.display()))
}

fn fetch(wanted: &Prebuilt) -> Result<Vec<u8>, Failure> {
    let mut failures = Vec::new();
    for (name, source) in [("release archive", from_release as fn(&Prebuilt) -> _), ("npm pack", from_npm)] {
        match source(wanted) {
            Ok(bytes) if sha256(&bytes) == wanted.sha256 => return Ok(bytes),
            Ok(bytes) => failures.push(format!("{name}: SHA-256 is {}, not the pinned one", sha256(&bytes))),
            Err(why) => failures.push(format!("{name}: {why}")),
        }
    }
    Err(format!(
        "cannot get the DuckDB {VERSION} library for {} on {}:\n  {}\n\
         do one of these, then build again:\n  \
         - let this machine reach the release archive, or a registry through `npm pack`\n  \
         - put {} of DuckDB {VERSION} into a folder and set DUCKDB_LIB_DIR to it\n  \
         - build with `--features bundled` (compiles DuckDB: about 60 CPU-minutes)",
        wanted.os,
        wanted.arch,
        failures.join("\n  "),
        wanted.file
    ))
}

fn from_release(wanted: &Prebuilt) -> Result<Vec<u8>, Failure> {
    let url = format!("https://github.com/duckdb/duckdb/releases/download/v{VERSION}/{}", wanted.archive);
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_global(Some(Duration::from_secs(600)))
        .build();
    let mut answer = ureq::Agent::new_with_config(config).get(&url).call().map_err(|why| why.to_string())?;
    let mut archive = Vec::new();
    answer.body_mut().as_reader().read_to_end(&mut archive).map_err(|why| why.to_string())?;
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).map_err(|why| why.to_string())?;
    let mut file = zip.by_name(wanted.file).map_err(|why| why.to_string())?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    Ok(bytes)
}

fn from_npm(wanted: &Prebuilt) -> Result<Vec<u8>, Failure> {
    let folder = PathBuf::from(variable("OUT_DIR")?).join("npm");
    fs::create_dir_all(&folder).map_err(|why| why.to_string())?;
    let package = format!("@duckdb/node-bindings-{}@{NPM_VERSION}", wanted.npm);
    let done = Command::new("npm")
        .args(["pack", "--silent", &package])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("cannot start npm: {why}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    let name = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    let archive = fs::File::open(folder.join(&name)).map_err(|why| format!("{name}: {why}"))?;
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    for entry in tar.entries().map_err(|why| why.to_string())? {
        let mut entry = entry.map_err(|why| why.to_string())?;
        if entry.path().is_ok_and(|path| path.file_name().is_some_and(|f| f == wanted.file)) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|why| why.to_string())?;
            let _ = fs::remove_dir_all(&folder);
            return Ok(bytes);
        }
    }
    Err(format!("{package} holds no {}", wanted.file))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn variable(name: &str) -> Result<String, Failure> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
