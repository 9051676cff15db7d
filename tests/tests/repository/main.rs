//! Rules of the repository: which crates and modules may know each other, one build for all, and tests behind every promise.

mod layers;
mod one_build;
mod promises;
mod rooms;
