//! The page at `/`, in a real browser, over the real service: `make page`. Without a Chromium nothing of it can be run, so
//! `make test` leaves it out.

mod browser;
mod data;
mod definitions;
#[path = "../service/described.rs"]
mod described;
mod inert;
mod live;
mod looks;
mod pictures;
mod png;
#[path = "../service/server.rs"]
#[allow(dead_code, reason = "it serves other tests as well")]
mod server;
mod sessions;
mod tab;
mod users;
mod walk;
mod window;
