//! NeuroLink's routes, as [`super::descriptions`] has those of Keepline.

use super::descriptions::{Description, NONE, Parameters, of};

const USER: Parameters = &[("userId", "Whose conversations")];
const LISTED: Parameters = &[
    ("userId", "Whose conversations"),
    ("limit", "The most: at most 100, by default 50"),
    ("offset", "How many are left out at the beginning"),
];

/// One for each route.
pub const DESCRIPTIONS: &[Description] = &[
    of("GET /api/memory/sessions", LISTED, "", "NeuroLinkSessions"),
    of("DELETE /api/memory/sessions", NONE, "", "NeuroLinkAllCleared"),
    of("GET /api/memory/sessions/{id}", USER, "", "NeuroLinkSession"),
    of("DELETE /api/memory/sessions/{id}", USER, "", "NeuroLinkCleared"),
    of("GET /api/memory/sessions/{id}/messages", LISTED, "", "NeuroLinkMessages"),
    of("GET /api/memory/stats", NONE, "", "NeuroLinkStats"),
    of("GET /api/memory/health", NONE, "", "NeuroLinkHealth"),
];
