//! A directory of up to a million sessions, which is more than a gigabyte. Nothing is synced: the disk would hide the growth.

use std::{fs, path::Path, sync::Arc, time::Instant};

use anyhow::Result;
use keepline::store::DirectorySync;

use super::{
    Growth,
    curve::{Column, Figure, table, take_turns},
    fill, label,
    names::*,
    visitors::Sessions,
    visits,
};
use crate::{
    contenders::{ANSWER, answer_of},
    directory::{open, over},
    measure::median,
    report::{Section, thousands},
    stores::A_DAY,
};

const SESSIONS: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// How often a store is opened for a figure.
const OPENED: usize = 5;

/// What a store of so many sessions takes.
struct Size {
    count: u64,
    bytes: u64,
    open_ms: f64,
}

impl Growth<'_> {
    /// `parent` is where the directories are made.
    pub fn directory(&self, parent: &Path) -> Result<Section> {
        let text: Arc<str> = answer_of(ANSWER).into();
        let (mut points, mut sizes) = (Vec::new(), Vec::new());
        // Each point has a store of its own.
        for count in self.effort.points(&SESSIONS).filter(|count| *count <= self.effort.max_sessions) {
            self.progress.set_message(format!("{} sessions in a directory", thousands(count as f64)));
            let (sessions, path) = (Sessions::new("s", count), parent.join(count.to_string()));
            self.all.block_on(async {
                let (keepline, _) = over(self.plugin, &path, DirectorySync::Off, A_DAY).await?;
                fill::sessions(&keepline, &sessions, &text, self.progress).await
            })?;
            // All of it is in the database by now: the last one to close it makes a checkpoint.
            let bytes = fs::metadata(path.join("keepline.db"))?.len();
            sizes.push(Size { count, bytes, open_ms: time_to_open(&path)? });
            let (keepline, _) = self.single.block_on(over(self.plugin, &path, DirectorySync::Off, A_DAY))?;
            points.extend(visits(&keepline, &sessions, &text, self.effort.redis_pairs));
        }
        self.progress.set_message("sessions in a directory");
        self.single.block_on(take_turns(&mut points, self.effort.rounds, self.progress))?;
        let columns = [
            Column { name: QUESTION, series: ANY, figure: Figure::Question },
            Column { name: ANSWER_TO_IT, series: ANY, figure: Figure::Answer },
            Column { name: CREATION, series: NEW, figure: Figure::Question },
            Column { name: HOT_QUESTION, series: HOT, figure: Figure::Question },
            Column { name: HOT_ANSWER, series: HOT, figure: Figure::Answer },
        ];
        let mut section = table(SESSIONS_DIRECTORY, "sessions", label, &points, &columns);
        let size = |at: f64| sizes.iter().find(|size| size.count as f64 == at);
        section.column(MIB, |at| Some(size(at)?.bytes as f64 / f64::from(1 << 20)));
        section.column(BYTES_A_SESSION, |at| Some(size(at)?.bytes as f64 / at));
        section.column(OPENING, |at| Some(size(at)?.open_ms));
        section.note("any of the existing sessions, at random; a creation is the first question of a new one");
        section.note("same ten: always the same ten of all the sessions, which the caches hold");
        section.note(
            "directory_sync off; each session has one answer; to open: a directory that was closed, its pages \
                      in the system's cache",
        );
        Ok(section)
    }
}

fn time_to_open(path: &Path) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..OPENED {
        let started = Instant::now();
        let store = open(path, DirectorySync::Off)?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        drop(store);
    }
    Ok(median(&times))
}
