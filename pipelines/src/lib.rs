//! Declared retrieval: definitions that say how to find, rank, format and place what a model should know.

pub mod value;
