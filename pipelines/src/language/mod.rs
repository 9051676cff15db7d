//! The small languages that parameters are written in.

pub mod comparison;
pub mod expression;
pub mod handlebars;
pub mod template;
