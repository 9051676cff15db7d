//! `/keepline/v1`: what the library can do, over HTTP.

mod events;
mod lanes;
pub mod ownership;
mod pipelines;
mod search;
pub mod sessions;
mod stats;
mod transfer;
mod users;

use std::sync::Arc;

use axum::http::Method;

use self::{
    pipelines::{definitions, items, runs},
    sessions::{messages, values, window},
    transfer::{export, import},
};
use crate::{
    events::{SessionChange, announce_of_owner},
    http::{Access, Handler, Route, rows},
};

/// The routes of this family.
pub fn routes() -> Vec<Route> {
    let mut routes = lane_routes();
    routes.extend(session_routes());
    routes.extend(user_routes());
    routes.extend(transfer_routes());
    routes.extend(pipeline_routes());
    routes
}

fn lane_routes() -> Vec<Route> {
    rows! {
        Keepline:
        POST "/keepline/v1/questions" WRITE "Passes a question, which gains what its session remembers" lanes::questions;
        POST "/keepline/v1/answers" WRITE "Passes an answer, which is remembered" lanes::answers;
        POST "/keepline/v1/tools" WRITE "Takes in what a tool did, for the answer of its turn" lanes::tools;
        POST "/keepline/v1/search" READ "Finds messages by their words" search::search;
        POST "/keepline/v1/recall" READ "Shows what a question would recall" search::recall;
        GET "/keepline/v1/stats" READ "Counts sessions, nodes and users" stats::show;
        GET "/keepline/v1/events" READ "Follows events as they happen, as server-sent events" events::follow;
    }
}

fn session_routes() -> Vec<Route> {
    let routes = rows! {
        Keepline:
        GET "/keepline/v1/sessions" READ "Lists sessions" sessions::list;
        POST "/keepline/v1/sessions" WRITE "Begins a session" sessions::create;
        DELETE "/keepline/v1/sessions" ADMIN "Deletes all sessions" sessions::delete_all;
        GET "/keepline/v1/sessions/{id}" READ "Describes a session" sessions::show;
        PATCH "/keepline/v1/sessions/{id}" WRITE "Changes a session's title and settings" sessions::change, "if-match";
        DELETE "/keepline/v1/sessions/{id}" WRITE "Forgets a session" sessions::delete;
        POST "/keepline/v1/sessions/{id}/resume" WRITE "Counts a use of a session" sessions::resume;
        GET "/keepline/v1/sessions/{id}/messages" READ "Lists messages" messages::list;
        POST "/keepline/v1/sessions/{id}/messages" WRITE "Appends messages" messages::append;
        PUT "/keepline/v1/sessions/{id}/messages" WRITE "Replaces all messages" messages::replace, "if-match";
        DELETE "/keepline/v1/sessions/{id}/messages" WRITE "Removes all messages, or a branch" messages::clear, "if-match";
        PATCH "/keepline/v1/sessions/{id}/messages/{position}" WRITE "Rewrites a message" messages::rewrite, "if-match";
        DELETE "/keepline/v1/sessions/{id}/messages/{position}" WRITE "Removes a message" messages::remove, "if-match";
        GET "/keepline/v1/sessions/{id}/messages/{position}/text" READ "Reads the text of a message" messages::text;
        GET "/keepline/v1/sessions/{id}/messages/{position}/lines" READ "Finds lines of a message" messages::lines;
        GET "/keepline/v1/sessions/{id}/window" READ "Shows what the next question gets, and why" window::window;
        GET "/keepline/v1/sessions/{id}/branches" READ "Lists the branches of a conversation" window::branches;
        GET "/keepline/v1/sessions/{id}/keys" READ "Lists the keys of a session's values" values::list;
        DELETE "/keepline/v1/sessions/{id}/keys" WRITE "Removes all values of a session" values::clear;
        GET "/keepline/v1/sessions/{id}/keys/{key}" READ "Reads a value" values::get;
        PUT "/keepline/v1/sessions/{id}/keys/{key}" WRITE "Stores a value" values::put, "if-match", "if-none-match";
        DELETE "/keepline/v1/sessions/{id}/keys/{key}" WRITE "Removes a value" values::remove, "if-match";
        POST "/keepline/v1/sessions/{id}/keys/{key}/increment" WRITE "Adds to a counter" values::increment;
        GET "/keepline/v1/sessions/{id}/history" READ "Lists what was done to the values" values::history;
    };
    routes.into_iter().map(announced).collect()
}

fn user_routes() -> Vec<Route> {
    rows! {
        Keepline:
        GET "/keepline/v1/users" READ "Lists users" users::list;
        GET "/keepline/v1/users/{user}" READ "Says what is known of a user" users::show;
        DELETE "/keepline/v1/users/{user}" WRITE "Forgets a user" users::forget;
        GET "/keepline/v1/users/{user}/sessions" READ "Lists the sessions of a user" users::sessions;
        GET "/keepline/v1/users/{user}/keys" READ "Lists the values of a user" users::values;
        GET "/keepline/v1/users/{user}/keys/{key}" READ "Reads a value of a user" users::value;
        PUT "/keepline/v1/users/{user}/keys/{key}" WRITE "Stores a value of a user" users::put_value, "if-match", "if-none-match";
        DELETE "/keepline/v1/users/{user}/keys/{key}" WRITE "Removes a value of a user" users::remove_value, "if-match";
    }
}

fn transfer_routes() -> Vec<Route> {
    rows! {
        Keepline:
        GET "/keepline/v1/sessions/{id}/export" READ "Exports a session as JSON lines" export::session;
        GET "/keepline/v1/users/{user}/export" READ "Exports the sessions of a user" export::sessions_of_user;
        GET "/keepline/v1/export" ADMIN "Exports all sessions" export::all;
        POST "/keepline/v1/import" WRITE "Imports sessions that were exported" import::import;
    }
}

fn pipeline_routes() -> Vec<Route> {
    rows! {
        Keepline:
        GET "/keepline/v1/definitions/{kind}" READ "Lists memories or rule engines" definitions::list;
        POST "/keepline/v1/definitions/{kind}/check" READ "Validates a definition" definitions::check;
        GET "/keepline/v1/definitions/{kind}/{definition}" READ "Reads a definition" definitions::get;
        PUT "/keepline/v1/definitions/{kind}/{definition}" WRITE "Stores a definition" definitions::put, "if-match", "if-none-match";
        PATCH "/keepline/v1/definitions/{kind}/{definition}" WRITE "Changes a definition" definitions::update, "if-match";
        DELETE "/keepline/v1/definitions/{kind}/{definition}" WRITE "Removes a definition" definitions::remove, "if-match";
        POST "/keepline/v1/definitions/{kind}/{definition}/duplicate" WRITE "Copies a definition" definitions::duplicate;
        POST "/keepline/v1/memories/{definition}/run" READ "Runs a memory" runs::run;
        GET "/keepline/v1/steps" READ "Lists the types of steps" definitions::steps;
        GET "/keepline/v1/items/{dataset}" READ "Lists the items of a data set" items::list;
        PUT "/keepline/v1/items/{dataset}" WRITE "Puts items into a data set" items::put;
        POST "/keepline/v1/items/{dataset}/remove" WRITE "Removes items from a data set" items::remove;
        POST "/keepline/v1/assemble" READ "Assembles what memories contribute" runs::assemble;
        POST "/keepline/v1/evaluate" READ "Evaluates rule engines" runs::evaluate;
    }
}

/// The same route: what changes the session of its path is announced, once it has succeeded.
fn announced(route: Route) -> Route {
    if route.access != Access::WRITE || !route.path.contains("/{id}") {
        return route;
    }
    let deletes = route.path.ends_with("/{id}") && route.method == Method::DELETE;
    let change = if deletes { SessionChange::Deleted } else { SessionChange::Updated };
    let handler = Arc::new(route.handler);
    let announcing: Handler = Box::new(move |call| {
        let handler = handler.clone();
        Box::pin(async move {
            let (tenant, id) = (call.tenant.clone(), call.path("id").to_owned());
            // Before it is deleted.
            let owner = ownership::owner_bucket(&call, &id).await;
            let reply = handler(call).await?;
            announce_of_owner(&tenant, change, &id, owner);
            Ok(reply)
        })
    });
    Route { handler: announcing, ..route }
}
