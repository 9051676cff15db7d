//! Serves a [`keepline::Keepline`] over HTTP: REST under `/keepline/v1`, the routes of CodeBolt and NeuroLink, events.
//!
//! One table of routes (`routes`) says what there is, who may use it and in which shape it fails. A request is matched
//! first; whether its key may use the route is decided on what matched, never on the text of its path. Each tenant has a
//! store of its own, so nothing of one is reachable from another.
//!
//! The rooms, the lowest first: `time`, `jsonl` (entries and messages as lines), `append` and `preview` (operations; these three are
//! also the command line's), `access` (who asks and what they may), `metrics` (what is counted), `tenants` (a store and what
//! works on it), `events` (what followers are told), `http` (requests, replies, errors, routes), `routes` (what each does),
//! `server` (the listener and its limits).

#![deny(clippy::multiple_inherent_impl, clippy::too_many_lines)]

mod access;
pub mod append;
mod events;
mod http;
pub mod jsonl;
pub mod metrics;
pub mod preview;
mod routes;
mod server;
mod tenants;
mod time;

pub use self::{
    access::{InvalidTenantName, KeyFile, KeyRecord, KeyRing, KeySecret, Scope, TenantName},
    server::{Service, ServiceOptions, TlsFiles},
    tenants::{Backend, Transfers},
};
