//! Compiles in a separate process, whose memory and processor time the operating system limits.
//!
//! The host starts a program, usually itself ([`Compiler::this_program`](crate::plugin::Compiler::this_program)), that
//! calls [`serve`]. It gets the component on standard input, so that what was measured is what is compiled, and a
//! directory for the compiled code. It reports on standard output what it refused, and ends. It has none of the host's
//! environment, which may hold secrets.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    engine::compile_into,
    error::{PluginError, printable_text},
};
use crate::sandbox::{CompilerCommand, PluginLimits, running_program};

/// How much of what the process says is read.
const LONGEST_MESSAGE: u64 = 4096;
/// How many times its processor time may pass on the clock, on a busy machine.
const PATIENCE: u32 = 6;
/// Memory grows with the functions that are compiled at a time.
const MOST_THREADS: usize = 4;
const REFUSED: u8 = 1;
const DEFECT: u8 = 2;
const LIMITED_ARGUMENT: &str = "limited";

/// Compiles a component into a directory.
pub(super) fn compile_in_process(
    command: &CompilerCommand,
    bytes: &[u8],
    limits: &PluginLimits,
    directory: &Path,
) -> Result<(), PluginError> {
    let failed = |error: io::Error| {
        PluginError::Sandbox(format!("can't run the compiler {}: {error}", command.program.display()))
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let mut child = Command::new(&command.program)
        .args(&command.arguments)
        .arg(directory)
        .arg(limits.compile_memory_bytes.to_string())
        .arg(limits.compile_time.as_secs().max(1).to_string())
        .env_clear()
        .envs(env::var_os("LD_LIBRARY_PATH").map(|value| ("LD_LIBRARY_PATH", value)))
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ended = thread::scope(|scope| {
        // It need not read all of it: then it says why, or its end does.
        scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
        let output = scope.spawn(move || collect(output));
        let errors = scope.spawn(move || collect(errors));
        let status = wait(&mut child, limits.compile_time.saturating_mul(PATIENCE))?;
        let text = |thread: thread::ScopedJoinHandle<'_, String>| thread.join().unwrap_or_default();
        io::Result::Ok((status, text(output), text(errors)))
    });
    let (status, output, errors) = ended.map_err(failed)?;
    let Some(status) = status else { return Err(out_of_time(limits)) };
    check_exit_status(status, output, &errors, limits)
}

fn out_of_time(limits: &PluginLimits) -> PluginError {
    PluginError::CompileTime { limit_ms: limits.compile_time.as_millis() }
}

/// What the end of the process says.
fn check_exit_status(
    status: ExitStatus,
    output: String,
    errors: &str,
    limits: &PluginLimits,
) -> Result<(), PluginError> {
    // The allocator's words, in either stream; or the system's, of memory that was not allocated by it.
    let is_out_of_memory = [output.as_str(), errors]
        .iter()
        .any(|text| text.contains("memory allocation of") || text.contains("os error 12"));
    match status.code() {
        Some(0) => Ok(()),
        _ if is_out_of_memory => Err(PluginError::CompileMemory { limit_bytes: limits.compile_memory_bytes }),
        Some(code) if code == i32::from(REFUSED) => Err(PluginError::NotAComponent(printable_text(output))),
        Some(code) if code == i32::from(DEFECT) => Err(PluginError::EngineDefect(printable_text(output))),
        _ if is_out_of_time(status) => Err(out_of_time(limits)),
        _ => Err(PluginError::EngineDefect(format!("the compiler ended with {status}"))),
    }
}

#[cfg(unix)]
fn is_out_of_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::Signal;

    status.signal().is_some_and(|signal| [Signal::XCPU.as_raw(), Signal::KILL.as_raw()].contains(&signal))
}

#[cfg(not(unix))]
fn is_out_of_time(_: ExitStatus) -> bool {
    false
}

/// Waits for the end. None: it did not end in time, and was killed.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn collect(from: Option<impl Read>) -> String {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // What can't be read is missing in a message.
        let _ = from.by_ref().take(LONGEST_MESSAGE).read_to_end(&mut kept);
        let _ = io::copy(&mut from, &mut io::sink());
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The compiler process, for the `main` of a program that [`Compiler`](crate::plugin::Compiler) names: `arguments` are those that follow its own.
/// Limits itself, compiles the component on standard input, and returns the exit code.
pub fn serve(arguments: &[OsString]) -> ExitCode {
    match serve_checked(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (code, message) = match error {
                PluginError::NotAComponent(problem) => (REFUSED, problem),
                PluginError::EngineDefect(problem) => (DEFECT, problem),
                other => (DEFECT, other.to_string()),
            };
            // The exit code says it as well, if no one reads this.
            let _ = io::stdout().write_all(message.as_bytes());
            ExitCode::from(code)
        }
    }
}

fn serve_checked(arguments: &[OsString]) -> Result<(), PluginError> {
    let usage = || PluginError::Sandbox("a compiler takes a directory, bytes of memory and seconds".into());
    let [directory, memory, seconds, more @ ..] = arguments else { return Err(usage()) };
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse().ok()).ok_or_else(usage);
    if more.first().is_none_or(|word| word != LIMITED_ARGUMENT) {
        limit(number(memory)?, number(seconds)?).map_err(|error| PluginError::Sandbox(error.to_string()))?;
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| PluginError::Sandbox(error.to_string()))?;
    // The only thing that this process does; and its panics are in the exit code.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(io::stderr(), "{panic}");
    }));
    compile_into(Path::new(directory), &bytes)
}

/// Limits this process and restarts it: what its allocator has reserved so far would not count.
#[cfg(unix)]
fn limit(memory: u64, seconds: u64) -> io::Result<()> {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    for (resource, limit) in [(Resource::Data, memory), (Resource::Cpu, seconds), (Resource::Core, 0)] {
        let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    let mut again = Command::new(running_program()?);
    Err(again.args(env::args_os().skip(1)).arg(LIMITED_ARGUMENT).exec())
}

/// Only the time on the clock is limited, by the host.
#[cfg(not(unix))]
fn limit(_: u64, _: u64) -> io::Result<()> {
    Ok(())
}
