//! Conditions that a route does not take: refused, since a change that ignores one is made where it must not be.

use axum::http::{HeaderMap, Method};

use crate::http::{ApiError, CONDITIONS, ErrorShape, Route};

/// Which routes take which condition.
#[derive(Debug)]
pub struct ConditionTakers {
    /// By header, those that take it: method and path.
    by_header: Vec<(&'static str, Vec<String>)>,
}

impl ConditionTakers {
    /// Those of a table.
    pub fn of(table: &[Route]) -> Self {
        let mut by_header: Vec<(&'static str, Vec<String>)> = Vec::new();
        for route in table.iter().filter(|route| is_bound(route)) {
            for name in route.conditions {
                let place = format!("{} {}", route.method, route.path);
                match by_header.iter_mut().find(|(header, _)| header == name) {
                    Some((_, takers)) => takers.push(place),
                    None => by_header.push((name, vec![place])),
                }
            }
        }
        Self { by_header }
    }

    /// Refuses a change under a condition that its route does not take.
    pub fn check(&self, route: &Route, headers: &HeaderMap) -> Result<(), ApiError> {
        let is_taken = |name: &str| route.conditions.contains(&name);
        let refused = CONDITIONS.iter().find(|name| headers.contains_key(*name) && !is_taken(name.as_str()));
        let Some(name) = refused.filter(|_| is_bound(route)) else { return Ok(()) };
        let takers = self.by_header.iter().find(|(header, _)| *header == name.as_str());
        let message = match takers {
            Some((_, takers)) => format!("this route takes no {name}; these do: {}", takers.join(", ")),
            None => format!("no route takes {name}"),
        };
        Err(ApiError::invalid(name.as_str(), message))
    }
}

/// Whether conditions hold a route back: one of Keepline's own that may change something. Other systems' clients know their own.
fn is_bound(route: &Route) -> bool {
    route.errors == ErrorShape::Keepline && route.method != Method::GET
}
