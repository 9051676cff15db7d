//! The table of routes. Each family has a room of its own.

mod codebolt;
mod families;
mod keepline;
mod neurolink;
mod openapi;
mod operations;
mod page;

pub use self::families::Families;
use crate::http::Route;

/// Every route of the service.
pub fn table() -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(keepline::routes());
    routes.extend(codebolt::routes());
    routes.extend(neurolink::routes());
    routes.extend(operations::routes());
    routes.extend(page::routes());
    let described = openapi::routes(&routes);
    routes.extend(described);
    routes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;
