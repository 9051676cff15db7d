//! Random entries get the same answers from every store, and from the original filter.

mod lanes;
mod original;
