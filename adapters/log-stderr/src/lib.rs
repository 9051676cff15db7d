//! Exports Keepline's log on a host's standard error, a line a message. What is below `info` is left out, as hosts have no way to
//! say what they want.

use self::bindings::{
    exports::keepline::host::log::{Guest, Level},
    wasi::cli::stderr,
};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit/deps/common", "../../wit/deps/host", "../wit/stderr"],
        inline: "
            package keepline:adapters;

            world log-stderr {
                export keepline:host/log@0.3.0;
                import wasi:cli/stderr@0.2.0;
            }
        ",
        world: "keepline:adapters/log-stderr",
        generate_all,
    });
}

/// The most that a stream takes at a time.
const CHUNK: usize = 4096;

struct Component;

bindings::export!(Component with_types_in bindings);

impl Guest for Component {
    fn write(level: Level, context: String, message: String) {
        let name = match level {
            Level::Trace | Level::Debug => return,
            Level::Info => "info",
            Level::Warn => "warning",
            Level::Error | Level::Critical => "error",
        };
        let line = format!("{name}: {context}: {}\n", message.replace(['\n', '\r'], " "));
        let stream = stderr::get_stderr();
        for chunk in line.as_bytes().chunks(CHUNK) {
            // Nobody could be told.
            if stream.blocking_write_and_flush(chunk).is_err() {
                return;
            }
        }
    }
}
