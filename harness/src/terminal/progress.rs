//! Progress bars.

use std::fmt;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::set_progress_bar;

/// Shows progress on a terminal, in fewer than 80 columns.
pub fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {rate}/s  {eta} left") {
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A bar that can't be drawn is no reason to stop.
            let _ = write!(out, "{:.0}", state.per_sec());
        };
        bar.set_style(style.with_key("rate", rate));
    }
    set_progress_bar(&bar);
    bar
}
