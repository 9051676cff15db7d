//! Which family a path belongs to that no route has: its errors look as that family's do.

use std::collections::HashMap;

use crate::http::{ErrorShape, Route};

/// Shapes of errors by the first part of a path.
pub struct Families(HashMap<&'static str, ErrorShape>);

impl Families {
    /// Those of a table.
    pub fn of(routes: &[Route]) -> Self {
        Self(routes.iter().map(|route| (first_part(route.path), route.errors)).collect())
    }

    /// How errors of a path look.
    pub fn shape_of(&self, path: &str) -> ErrorShape {
        self.0.get(first_part(path)).copied().unwrap_or(ErrorShape::Keepline)
    }
}

fn first_part(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_no_route_has_fails_as_its_family() {
        let families = Families::of(&super::super::table());
        for (path, shape) in [
            ("/api/memory", ErrorShape::NeuroLink),
            ("/persistent-memory/nowhere", ErrorShape::CodeBolt),
            ("/ws/none", ErrorShape::CodeBolt),
            ("/keepline/v1/none", ErrorShape::Keepline),
            ("/", ErrorShape::Keepline),
        ] {
            assert_eq!(families.shape_of(path), shape, "{path}");
        }
    }
}
