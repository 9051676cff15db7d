//! CodeBolt's routes: memories, context assembly and rule engines, as its client SDK calls them, and the socket of its agent
//! SDK. Both reach the same functions.

mod assembly;
mod definitions;
mod desk;
mod forms;
mod request_table;
mod requests;
mod rest;
mod rule_forms;
mod rules;
mod runs;
mod socket;
mod steps;

pub use self::request_table::request_types;
use self::rest::{context, engines, memories};
use crate::http::{Route, rows};

/// The routes of this family.
pub fn routes() -> Vec<Route> {
    let mut routes = memory_routes();
    routes.extend(assembly_routes());
    routes.extend(engine_routes());
    routes.extend(rows! {
        CodeBolt:
        GET "/codebolt" READ "Opens the agent SDK's socket" socket::open;
        GET "/ws" READ "Opens the same socket" socket::open;
    });
    routes
}

fn memory_routes() -> Vec<Route> {
    rows! {
        CodeBolt:
        GET "/persistent-memory/types" READ "Lists memories" memories::list;
        POST "/persistent-memory/types" WRITE "Stores a new memory" memories::create;
        GET "/persistent-memory/types/{definition}" READ "Reads a memory" memories::get;
        PUT "/persistent-memory/types/{definition}" WRITE "Changes a memory" memories::update, "if-match", "if-none-match";
        DELETE "/persistent-memory/types/{definition}" WRITE "Removes a memory" memories::delete, "if-match", "if-none-match";
        POST "/persistent-memory/types/{definition}/execute" READ "Runs a memory" memories::execute;
        GET "/persistent-memory/types/{definition}/export" READ "Exports a memory" memories::export;
        POST "/persistent-memory/types/{definition}/duplicate" WRITE "Copies a memory" memories::duplicate;
        POST "/persistent-memory/validate" READ "Validates a memory" memories::validate;
        POST "/persistent-memory/import" WRITE "Imports a memory" memories::import;
        GET "/persistent-memory/step-specs" READ "Lists the types of steps" memories::step_specs;
        GET "/persistent-memory/step-specs/user-configurable" READ "Lists those that are for users" memories::user_step_specs;
    }
}

fn assembly_routes() -> Vec<Route> {
    rows! {
        CodeBolt:
        POST "/context-assembly/assemble" READ "Assembles what memories contribute" context::assemble;
        POST "/context-assembly/validate" READ "Checks a request without running it" context::validate;
        GET "/context-assembly/memory-types" READ "Lists the memories in use" context::memory_types;
        POST "/context-assembly/evaluate-rules" READ "Asks rule engines" context::evaluate_rules;
        POST "/context-assembly/required-variables" READ "Says what memories need" context::required_variables;
    }
}

fn engine_routes() -> Vec<Route> {
    rows! {
        CodeBolt:
        GET "/context-rule-engine" READ "Lists rule engines" engines::list;
        POST "/context-rule-engine" WRITE "Stores a new rule engine" engines::create;
        GET "/context-rule-engine/variables" READ "Lists what rules may look at" engines::variables;
        POST "/context-rule-engine/evaluate" READ "Asks all rule engines" context::evaluate_rules;
        GET "/context-rule-engine/{definition}" READ "Reads a rule engine" engines::get;
        PUT "/context-rule-engine/{definition}" WRITE "Changes a rule engine" engines::update, "if-match", "if-none-match";
        DELETE "/context-rule-engine/{definition}" WRITE "Removes a rule engine" engines::delete, "if-match", "if-none-match";
        POST "/context-rule-engine/{definition}/evaluate" READ "Asks one rule engine" engines::evaluate;
    }
}
