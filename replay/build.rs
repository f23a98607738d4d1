//! Lets this crate's test binaries find libduckdb at run time: the room `trace` tells where it lies.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(dir) = std::env::var_os("DEP_LOOPDECK_DUCKDB_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", dir.display());
    }
}
