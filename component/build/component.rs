//! Builds a Rust crate as a WASI component: cargo for `wasm32-unknown-unknown`, then `wit-component`.
//!
//! `wasm32-unknown-unknown` and not `wasm32-wasip2`, because there std drags in no ambient WASI: what
//! the crate's WIT world imports is all that the component can reach.
//!
//! Shared by the build scripts of `component/`, `adapters/` and `tests/`, and by the projects that `keepline new plugin` makes.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const TARGET: &str = "wasm32-unknown-unknown";

/// What that target's code may use beyond the first version of WebAssembly, as Binaryen calls it.
const FEATURES: [&str; 7] =
    ["bulk-memory", "multivalue", "mutable-globals", "nontrapping-float-to-int", "reference-types", "sign-ext", "simd"];

/// The stack in linear memory, where what has an address is kept; calls themselves are on the host's. The linker's own
/// choice, a megabyte, would be most of an instance. It lies before all data: what goes beyond it traps.
const STACK_BYTES: usize = 128 << 10;

/// Builds the library `name` of the manifest at `manifest` and returns the component's bytes. `is_shrunk`: by Binaryen's
/// `wasm-opt`, too, if it is there. `target_dir` is not that of a cargo that is running: its lock would be waited for.
pub fn build(target_dir: &Path, manifest: &Path, name: &str, is_shrunk: bool) -> Result<Vec<u8>, String> {
    let mut cargo = toolchain()?;
    cargo
        // With an rlib beside it cargo leaves out LTO: that is 7 % smaller.
        .args(["rustc", "--lib", "--crate-type", "cdylib,rlib", "--profile", "component", "--target", TARGET])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_dir)
        // The parent's flags are for the parent's target. Ours take this machine's paths out of the
        // messages of panics: the same sources give the same bytes.
        .env("CARGO_ENCODED_RUSTFLAGS", flags(manifest))
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let output = cargo.output().map_err(|error| format!("can't start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the component {name} does not compile:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let module = target_dir.join(TARGET).join("component").join(format!("{}.wasm", name.replace('-', "_")));
    let shrunk = if is_shrunk { shrink(&module)? } else { None };
    let module = shrunk.unwrap_or(module);
    let module = fs::read(&module).map_err(|error| format!("can't read {}: {error}", module.display()))?;
    wit_component::ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.validate(true).encode())
        .map(|component| without_names(&component).unwrap_or(component))
        .map_err(|error| format!("the component {name} can't be wrapped: {error:#}"))
}

/// What the compiler leaves, for it sees one function at a time: a fourteenth of the component. The file with the shorter
/// module; none: there is no `wasm-opt` here, and the component is right without it.
fn shrink(module: &Path) -> Result<Option<PathBuf>, String> {
    let shrunk = module.with_extension("small.wasm");
    let mut tool = Command::new("wasm-opt");
    // Constants that are long to write stand once for each function, and functions that are called often have short
    // numbers: a sixtieth, and as fast. Large functions are not put into their only caller: an engine takes more than
    // twice as long to compile twice as much in one.
    tool.args(["-O3", "--one-caller-inline-max-function-size=3000", "--const-hoisting", "--reorder-functions"]);
    // Functions that differ in a constant alone become one with a parameter. Once more, until nothing becomes shorter.
    tool.args(["--merge-similar-functions", "--converge"]);
    // The first kilobyte is the far end of the stack, where no address is calculated from one below it: so constants go
    // into loads and stores. And what the text of WebAssembly can't say (values left on its stack) makes code shorter.
    tool.args(["--low-memory-unused", "--generate-stack-ir", "--optimize-stack-ir"]);
    tool.args(FEATURES.map(|feature| format!("--enable-{feature}"))).arg(module).arg("-o").arg(&shrunk);
    match tool.output() {
        Ok(output) if output.status.success() => Ok(Some(shrunk)),
        Ok(output) => Err(format!("wasm-opt fails:\n{}", String::from_utf8_lossy(&output.stderr))),
        Err(_) => {
            println!("cargo::warning=without wasm-opt the component is larger: run `make setup`, or install binaryen");
            Ok(None)
        }
    }
}

/// Drops the names of the component's parts, which only debuggers read: a hundredth of its size. None: the
/// bytes are not what they should be, so hands off.
fn without_names(component: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let (header, mut rest) = component.split_at_checked(HEADER)?;
    let mut kept = header.to_vec();
    while let Some((id, mut body)) = rest.split_first() {
        // A section: its id, its size as LEB128, its bytes.
        let (mut size, mut shift) = (0_usize, 0_u32);
        loop {
            let (byte, tail) = body.split_first()?;
            body = tail;
            size |= usize::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let after = body.get(size..)?;
        let is_names = *id == 0 && body.starts_with(b"\x0ecomponent-name");
        if !is_names {
            kept.extend_from_slice(rest.get(..rest.len() - after.len())?);
        }
        rest = after;
    }
    Some(kept)
}

fn flags(manifest: &Path) -> String {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")));
    // The crate's own folder, and those beside which the workspace's other crates lie; of two that fit, the last counts.
    let manifest = fs::canonicalize(manifest).ok();
    let folder = |up: usize| Some(manifest.as_ref()?.ancestors().nth(up)?.display().to_string());
    let remap = |(from, to)| format!("--remap-path-prefix={from}={to}");
    let remapped = [
        folder(3).map(|folder| (folder, "../..")),
        home.ok().map(|home| (home, "cargo")),
        folder(2).map(|folder| (folder, "..")),
        folder(1).map(|folder| (folder, ".")),
    ];
    let stack = format!("-Clink-arg=-zstack-size={STACK_BYTES}");
    // It hashes what is no name, which is rare: unrolled, SHA-256 would be a twenty-fifth of the component.
    let compact = "--cfg=sha2_backend_soft=\"compact\"".to_owned();
    // The linker leaves five bytes for every address and every function's number: a sixteenth of the component.
    let short = "-Clink-arg=--compress-relocations".to_owned();
    // No engine inlines, so the compiler does, more than opt-level "z" alone would: as fast as "s" at 25 KB less, and the
    // most that stays below the limit of 640 KiB (docs/performance.md has the figures).
    let inline = "-Cllvm-args=-inline-threshold=20".to_owned();
    // Four numbers at a time, where recall ranks passages. Every engine that runs components has it.
    let vectors = "-Ctarget-feature=+simd128".to_owned();
    let ours = [stack, compact, short, inline, vectors];
    let flags: Vec<_> = remapped.into_iter().flatten().map(remap).chain(ours).collect();
    // As cargo separates them.
    flags.join("\x1f")
}

/// The cargo that can compile for wasm: this one if its target is installed, else Debian's own Rust.
/// `.ci/setup`, which `make` runs, installs the one or the other.
fn toolchain() -> Result<Command, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libdir = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let has_target = libdir.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists());
    if has_target {
        return Ok(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())));
    }
    let stand_in = ["/usr/bin/cargo", "/usr/bin/rustc", "/usr/bin/wasm-ld-19"];
    if stand_in.iter().all(|tool| Path::new(tool).exists()) {
        let mut cargo = Command::new("/usr/bin/cargo");
        cargo
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", "/usr/bin/rustc")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld-19")
            .env("PATH", format!("/usr/bin:{}", env::var("PATH").unwrap_or_default()));
        return Ok(cargo);
    }
    Err(format!(
        "the Rust target {TARGET} is missing. Run `rustup target add {TARGET}`, or `make setup` in Keepline's repository, or on Debian \
         `apt-get install rustc-web cargo-web rust-web-src lld-19`"
    ))
}
