//! Declared retrieval: definitions that say how to find, rank, format and place what a model should know.

mod datasets;
mod finding; mod steps;
mod run;
mod value;
