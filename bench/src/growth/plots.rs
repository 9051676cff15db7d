//! The plots of the growth curves.

use super::{load, names::*};
use crate::report::{Axis, Ink, Line, Panel, Plot};

/// All plots; those of which nothing was measured among them.
pub fn plots() -> Vec<Plot> {
    let line = |label: &str, section: &str, column: &str, ink, dashed| Line {
        label: label.into(),
        section: section.into(),
        column: column.into(),
        ink,
        dashed,
    };
    let micros = |logarithmic| Axis { title: "µs (median)".into(), logarithmic };
    let panel = |title: &str, x: &str, y: Axis, lines| Panel {
        title: title.into(),
        x: Axis { title: x.into(), logarithmic: true },
        y,
        lines,
    };
    let plot = |name: &str, title: &str, panels| Plot { name: name.into(), title: title.into(), panels };
    let lanes = |section: &str, question: &str, answer: &str| {
        vec![line("question", section, question, Ink::Blue, false), line("answer", section, answer, Ink::Orange, false)]
    };
    // The same curve for both stores, with further lines.
    let both = |x: &str, section: &str, logarithmic, memory: Vec<Line>, redis: Vec<Line>| {
        let of_memory = lanes(section, MEMORY_QUESTION, MEMORY_ANSWER).into_iter().chain(memory);
        let of_redis = lanes(section, REDIS_QUESTION, REDIS_ANSWER).into_iter().chain(redis);
        vec![
            panel(MEMORY_TITLE, x, micros(logarithmic), of_memory.collect()),
            panel(REDIS_TITLE, x, micros(logarithmic), of_redis.collect()),
        ]
    };
    let whole = |question, answer| {
        vec![
            line("question, kept whole", WHOLE, question, Ink::Blue, true),
            line("answer, kept whole", WHOLE, answer, Ink::Orange, true),
        ]
    };
    vec![
        plot(
            "growth-keys",
            "An entry's cost by the keys of its session",
            both(
                "keys in the session",
                KEYS_A_SESSION,
                true,
                vec![line("question, per key", KEYS_A_SESSION, MEMORY_A_KEY, Ink::Green, false)],
                vec![line("question, per key", KEYS_A_SESSION, REDIS_A_KEY, Ink::Green, false)],
            ),
        ),
        plot(
            "growth-history",
            "An entry's cost by the length of its session's history",
            both(
                "operations in the history",
                FOLDED,
                false,
                whole(MEMORY_QUESTION, MEMORY_ANSWER),
                whole(REDIS_QUESTION, REDIS_ANSWER),
            ),
        ),
        plot(
            "growth-sessions",
            "An entry's cost by the sessions that the store holds",
            [
                (SESSIONS_MEMORY, MEMORY_TITLE, MAP_READ, "bare hash table"),
                (SESSIONS_REDIS, REDIS_TITLE, BARE_READS, "bare reads"),
            ]
            .map(|(section, title, bare, bare_label)| {
                let mut lines = lanes(section, QUESTION, ANSWER_TO_IT);
                lines.push(line("creation", section, CREATION, Ink::Green, false));
                lines.push(line("question, same ten", section, HOT_QUESTION, Ink::Blue, true));
                lines.push(line("answer, same ten", section, HOT_ANSWER, Ink::Orange, true));
                lines.push(line(bare_label, section, bare, Ink::Grey, true));
                panel(title, "sessions in the store", micros(false), lines)
            })
            .into(),
        ),
        plot(
            "growth-entry-size",
            "An entry's cost by its size",
            both("KiB of the answer", ENTRY_SIZE, true, Vec::new(), Vec::new()),
        ),
        plot(
            "growth-pipes",
            "Pipes side by side",
            vec![
                panel(
                    "throughput",
                    "pipes",
                    Axis { title: "pairs a second".into(), logarithmic: true },
                    vec![
                        line("memory store", load::PIPES, load::MEMORY.rate, Ink::Blue, false),
                        line("Redis", load::PIPES, load::REDIS.rate, Ink::Orange, false),
                    ],
                ),
                panel(
                    "latency of a pair",
                    "pipes",
                    Axis { title: "µs".into(), logarithmic: true },
                    vec![
                        line("memory store, p50", load::PIPES, load::MEMORY.p50, Ink::Blue, false),
                        line("p99", load::PIPES, load::MEMORY.p99, Ink::Blue, true),
                        line("Redis, p50", load::PIPES, load::REDIS.p50, Ink::Orange, false),
                        line("p99", load::PIPES, load::REDIS.p99, Ink::Orange, true),
                    ],
                ),
            ],
        ),
    ]
}
