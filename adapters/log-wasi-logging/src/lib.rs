//! Exports Keepline's log on a host's `wasi:logging`. All levels are passed on: such a host decides what it shows.

use self::bindings::{
    exports::keepline::host::log::{Guest, Level},
    wasi::logging::logging::{self, Level as HostLevel},
};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit/deps/common", "../../wit/deps/host", "../wit/logging"],
        inline: "
            package keepline:adapters;

            world log-wasi-logging {
                export keepline:host/log@0.3.0;
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        world: "keepline:adapters/log-wasi-logging",
        generate_all,
    });
}

struct Component;

bindings::export!(Component with_types_in bindings);

impl Guest for Component {
    fn write(level: Level, context: String, message: String) {
        let level = match level {
            Level::Trace => HostLevel::Trace,
            Level::Debug => HostLevel::Debug,
            Level::Info => HostLevel::Info,
            Level::Warn => HostLevel::Warn,
            Level::Error => HostLevel::Error,
            Level::Critical => HostLevel::Critical,
        };
        logging::log(level, &context, &message);
    }
}
