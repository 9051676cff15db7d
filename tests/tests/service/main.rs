//! `keepline serve`, as programs in any language use it: the real binary on a free port of loopback, over plain HTTP.

mod coming_from;
mod conditions;
mod described;
mod events;
mod exactly_once;
mod host_kit;
mod keys;
mod lanes;
mod limits;
mod pipelines;
mod readme;
mod search;
mod server;
mod sessions;
mod transfer;
mod users;
