//! NeuroLink's routes of conversations, as its server has them and its client unwraps them.

mod envelope;
mod rows;
mod sessions;

use crate::http::{Route, rows};

/// The routes of this family.
pub fn routes() -> Vec<Route> {
    rows! {
        NeuroLink:
        GET "/api/memory/sessions" READ "Lists conversations" sessions::list;
        DELETE "/api/memory/sessions" ADMIN "Deletes all conversations" sessions::clear_all;
        GET "/api/memory/sessions/{id}" READ "Reads a conversation" sessions::show;
        DELETE "/api/memory/sessions/{id}" WRITE "Deletes a conversation" sessions::clear;
        GET "/api/memory/sessions/{id}/messages" READ "Lists messages" sessions::messages;
        GET "/api/memory/stats" READ "Counts conversations and turns" sessions::stats;
        GET "/api/memory/health" READ "Says whether there is a memory" sessions::health;
    }
}
