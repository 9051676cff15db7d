//! Prints log events in the form of the other messages, one line each.

use std::sync::OnceLock;

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Context, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

use super::{print_error, print_message, print_warning};

/// Log events in this context are not printed.
static SUPPRESSED: OnceLock<&str> = OnceLock::new();

/// Suppresses log events in a context, because the command's own error says the same.
pub fn suppress_context(context: &'static str) {
    // The first one stays: a process runs one command.
    let _ = SUPPRESSED.set(context);
}

/// Starts logging: warnings, with `verbose` also debug messages, with `requests` a line for each request that is served.
pub fn start_logging(verbose: bool, requests: bool) {
    let ours = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let of_requests = if requests { LevelFilter::INFO } else { LevelFilter::WARN };
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("keepline", ours)
        .with_target("keepline.access", of_requests)
        .with_target("keepline.service", if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN });
    // Fails only if logging was started before, which happens nowhere else.
    let _ = tracing_subscriber::registry().with(MessageLayer.with_filter(filter)).try_init();
}

/// Prefix of the context of a plugin's own messages.
const PLUGIN_PREFIX: &str = "plugin: ";

struct MessageLayer;

impl<S: Subscriber> Layer<S> for MessageLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = EventLine::default();
        event.record(&mut line);
        let EventLine { message, context, mut fields } = line;
        let kind = context.strip_prefix(PLUGIN_PREFIX).unwrap_or(&context);
        if SUPPRESSED.get().is_some_and(|left_out| *left_out == context || *left_out == kind) {
            return;
        }
        // A plugin's own words are labelled in front: people don't read to the end of a long line.
        let mut label = String::new();
        if context.starts_with(PLUGIN_PREFIX) {
            label = format!("[{context}] ");
        } else if !context.is_empty() {
            fields.insert_str(0, &format!(" [{context}]"));
        }
        let message = format!("{label}{message}{fields}").replace('\n', "\\n");
        match *event.metadata().level() {
            Level::ERROR => print_error(&message),
            Level::WARN => print_warning(&message),
            level => print_message(&level.as_str().to_ascii_lowercase(), Vec::new(), str::to_owned, &message),
        }
    }
}

#[derive(Default)]
struct EventLine {
    message: String,
    context: String,
    fields: String,
}

impl Visit for EventLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "context" => value.clone_into(&mut self.context),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            // Source locations of libraries are of no use to people.
            name if name.starts_with("log.") => {}
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_locations_of_libraries_are_not_printed() {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Expecting), || {
            tracing::warn!(log.file = "/root/.cargo/registry/x.rs", log.line = 259, reason = "r", "damaged");
        });
    }

    struct Expecting;

    impl<S: Subscriber> Layer<S> for Expecting {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut line = EventLine::default();
            event.record(&mut line);
            assert_eq!((line.message.as_str(), line.fields.as_str()), ("damaged", " reason=\"r\""));
        }
    }
}
