//! The command line. Its help texts are its documentation.

use std::{num::NonZeroU8, path::PathBuf};

use clap::{Parser, ValueEnum};

/// Measures what an entry costs beside the lowest possible cost, and how it scales.
///
/// Contenders take turns within one run: compare the rows of one table, not tables of different runs.
#[derive(Debug, Parser)]
#[command(name = "keepline-bench", version, max_term_width = 100)]
pub struct Arguments {
    #[arg(long, help = "Print JSON instead of tables")]
    pub json: bool,
    /// Also write the JSON report to this file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do a tenth of the work: quick, but imprecise
    #[arg(long)]
    pub quick: bool,
    /// Run only this part
    #[arg(long, value_name = "PART")]
    pub only: Option<Part>,
    /// Measure at most N points of each growth curve, smallest first
    #[arg(long, value_name = "N")]
    pub points: Option<NonZeroU8>,
    /// Measure directories on the disk that this directory is on
    ///
    /// They are created there and removed at the end; about 2 GB, or 200 MB with --quick. Default: the system's temporary
    /// directory, or the working directory if that is in memory.
    #[arg(long, value_name = "DIRECTORY")]
    pub disk: Option<PathBuf>,
    /// Draw the growth curves as SVG files in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
    /// Plot an existing report, written with --output, instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "points", "disk"])]
    pub from: Option<PathBuf>,
}

/// A part of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What an entry costs, next to the lowest possible cost
    Speed,
    /// A directory: pairs for each directory_sync, questions beside writers, growth
    Directory,
    /// What a conversation costs, and how much of its prompts stays the same
    Conversation,
    /// What recall costs a question, an answer and Redis
    Recall,
    /// All growth curves below
    Growth,
    /// Growth with the keys of a session
    Keys,
    /// Growth with the length of a session's history
    History,
    /// Growth with the size of an answer
    Sizes,
    /// Growth with the number of sessions
    Sessions,
    /// Growth with the number of pipes
    Pipes,
}
