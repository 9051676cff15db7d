//! What passes while titles and summaries are made beside it, without a model.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use keepline::{
    Keepline, Plugin,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
};
use tokio::runtime::Handle;

use super::{Effort, Talking, Tested, keepline, with_window};
use crate::{
    measure::{Contender, Samples, micros},
    report::Section,
};

/// Sessions in turn. With long turns, a summary becomes due at every twelfth answer.
const SESSIONS: u64 = 4;
const TURN: u64 = 350;
const WINDOW: u64 = 4_000;

pub(super) async fn measure(
    plugin: &Plugin,
    stores: &[Tested],
    effort: Effort,
    background: &Handle,
) -> Result<Section> {
    let columns = ["question: p50 µs", "question: p99 µs", "answer: p50 µs", "answer: p99 µs"];
    let mut section = Section::new("Conversation: entries beside deferred work", &columns);
    section.heading = "store".into();
    for Tested { name, store, .. } in stores {
        let alone =
            keepline(plugin, store, with_window(WINDOW).replace('}', r#", "auto_generate_titles": false}"#)).await?;
        let busy =
            keepline(plugin, store, with_window(WINDOW).replace(r#""summaries": false"#, r#""summaries": true"#))
                .await?;
        let work = Maintenance::new(busy.clone(), Arc::new(NoModel), MaintenanceOptions::default(), background.clone());
        let mut contenders = [
            Beside { talking: talking(&alone, "alone"), work: None },
            Beside { talking: talking(&busy, "busy"), work: Some(work.clone()) },
        ];
        let mut samples = [Samples::new()?, Samples::new()?];
        for _ in 0..effort.rounds {
            for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
                samples.round(contender, effort.pairs).await?;
            }
        }
        let abandoned = work.shutdown(Duration::from_secs(60)).await;
        let done = work.counters();
        ensure!(abandoned == 0 && done.summaries.done > 0, "deferred work was not done: {done:?}");
        for (samples, what) in samples.iter().zip(["alone", "beside deferred work"]) {
            let values =
                [&samples.question, &samples.answer].map(|lane| [0.5, 0.99].map(|part| Some(micros(lane, part))));
            section.row(format!("{name}, {what}"), &values.concat());
        }
        section.note(format!("{name}: {} summaries and {} titles meanwhile", done.summaries.done, done.titles.done));
    }
    section.note(format!("turns of {TURN} tokens, a window of {WINDOW}, {SESSIONS} sessions in turn, no model"));
    Ok(section)
}

fn talking(keepline: &Keepline, name: &str) -> Talking {
    Talking::new(keepline, &format!("deferred-{name}"), SESSIONS, TURN)
}

/// Has done what its answers name.
struct Beside {
    talking: Talking,
    work: Option<Maintenance>,
}

impl Contender for Beside {
    async fn prepare(&mut self) -> Result<()> {
        self.talking.prepare().await
    }

    async fn question(&mut self) -> Result<()> {
        self.talking.question().await
    }

    async fn answer(&mut self) -> Result<()> {
        let passed = self.talking.pipe.answer(&self.talking.answer, "{}").await?;
        if let Some(work) = &self.work {
            work.submit(passed.due);
        }
        Ok(())
    }
}
