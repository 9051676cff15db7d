//! Commands about the component.

pub mod component;
pub mod inspect;
