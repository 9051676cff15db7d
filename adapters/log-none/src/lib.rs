//! Exports Keepline's log and drops what is written to it, for hosts that lend neither a log nor standard error.

use self::bindings::exports::keepline::host::log::{Guest, Level};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit/deps/common", "../../wit/deps/host"],
        inline: "
            package keepline:adapters;

            world log-none {
                export keepline:host/log@0.3.0;
            }
        ",
        world: "keepline:adapters/log-none",
        generate_all,
    });
}

struct Component;

bindings::export!(Component with_types_in bindings);

impl Guest for Component {
    fn write(_: Level, _: String, _: String) {}
}
