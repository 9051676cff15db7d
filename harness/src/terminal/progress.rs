//! Progress bars, on a terminal only, in fewer than 80 columns.

use std::fmt;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::set_progress_bar;

/// Progress by the number of things that are done.
pub fn progress_bar(length: u64) -> ProgressBar {
    start_bar(ProgressBar::new(length), "{bar:24} {pos}/{len}  {rate}/s  {eta} left")
}

/// Progress in bytes.
pub fn bytes_bar(length: u64) -> ProgressBar {
    start_bar(ProgressBar::new(length), "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
}

/// Progress whose length is known later.
pub fn percent_bar() -> ProgressBar {
    start_bar(ProgressBar::new(0), "{bar:40} {percent}%  {eta} left")
}

/// Progress without a known end.
pub fn spinner(what: &'static str) -> ProgressBar {
    start_bar(ProgressBar::new_spinner().with_message(what), "{spinner} {msg}")
}

fn start_bar(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A bar that can't be drawn is no reason to stop.
            let _ = write!(out, "{:.0}", state.per_sec());
        };
        bar.set_style(style.with_key("rate", rate));
    }
    set_progress_bar(&bar);
    bar
}
