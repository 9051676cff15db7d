//! Plays every conversation of `conformance/routes/` against a service of its own: one test a case.

#[path = "../../../pipelines/tests/cases/case_data.rs"]
#[allow(dead_code, reason = "the runners of pipelines need more of it")]
mod case_data;
mod client;
mod coverage;
#[path = "../service/described.rs"]
mod described;
mod ends;
#[path = "../../../pipelines/tests/cases/matcher.rs"]
mod matcher;
mod named;
mod play;
mod sockets;
#[path = "../pipelines/stored.rs"]
mod stored;
mod world;

use std::path::{Path, PathBuf};

/// Where the cases are, and the list of what they cover.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/routes")
}

macro_rules! cases {
    ($($test:ident = $name:literal,)*) => {
        /// The names of all cases that are played.
        const CASES: &[&str] = &[$($name),*];

        mod case {
            $(#[test]
            fn $test() {
                super::play::play($name);
            })*
        }
    };
}

cases! {
    ca_assemble = "ca-assemble",
    ca_assemble_budget = "ca-assemble-budget",
    ca_assemble_failing = "ca-assemble-failing",
    ca_assemble_flat = "ca-assemble-flat",
    ca_assemble_refused = "ca-assemble-refused",
    ca_assemble_thread_header = "ca-assemble-thread-header",
    ca_evaluate_rules = "ca-evaluate-rules",
    ca_evaluate_rules_refused = "ca-evaluate-rules-refused",
    ca_memory_types = "ca-memory-types",
    ca_memory_types_empty = "ca-memory-types-empty",
    ca_required_variables = "ca-required-variables",
    ca_required_variables_refused = "ca-required-variables-refused",
    ca_validate = "ca-validate",
    ev_assembly = "ev-assembly",
    ev_assembly_error = "ev-assembly-error",
    ev_assembly_failing = "ev-assembly-failing",
    ev_assembly_socket = "ev-assembly-socket",
    ev_created = "ev-created",
    ev_deleted = "ev-deleted",
    ev_executed = "ev-executed",
    ev_none = "ev-none",
    ev_order = "ev-order",
    ev_updated = "ev-updated",
    keys_codebolt = "keys-codebolt",
    keys_neurolink = "keys-neurolink",
    keys_socket = "keys-socket",
    keys_tenants = "keys-tenants",
    nl_clear = "nl-clear",
    nl_clear_all = "nl-clear-all",
    nl_clear_user = "nl-clear-user",
    nl_health = "nl-health",
    nl_list = "nl-list",
    nl_list_all = "nl-list-all",
    nl_list_pages = "nl-list-pages",
    nl_messages = "nl-messages",
    nl_messages_limits = "nl-messages-limits",
    nl_messages_pages = "nl-messages-pages",
    nl_messages_tools = "nl-messages-tools",
    nl_messages_unknown = "nl-messages-unknown",
    nl_no_route = "nl-no-route",
    nl_off = "nl-off",
    nl_request_id = "nl-request-id",
    nl_session = "nl-session",
    nl_session_unknown = "nl-session-unknown",
    nl_stats = "nl-stats",
    nl_stats_empty = "nl-stats-empty",
    nl_store_fails = "nl-store-fails",
    pm_content_type = "pm-content-type",
    pm_create = "pm-create",
    pm_create_defaults = "pm-create-defaults",
    pm_create_exists = "pm-create-exists",
    pm_create_invalid = "pm-create-invalid",
    pm_create_malformed = "pm-create-malformed",
    pm_create_no_id = "pm-create-no-id",
    pm_create_sdk_form = "pm-create-sdk-form",
    pm_create_steps_form = "pm-create-steps-form",
    pm_create_too_large = "pm-create-too-large",
    pm_create_wrong_type = "pm-create-wrong-type",
    pm_delete = "pm-delete",
    pm_duplicate = "pm-duplicate",
    pm_duplicate_default = "pm-duplicate-default",
    pm_duplicate_refused = "pm-duplicate-refused",
    pm_execute = "pm-execute",
    pm_execute_bodies = "pm-execute-bodies",
    pm_execute_failed_step = "pm-execute-failed-step",
    pm_execute_invalid = "pm-execute-invalid",
    pm_execute_missing_variable = "pm-execute-missing-variable",
    pm_execute_unknown = "pm-execute-unknown",
    pm_execute_variables = "pm-execute-variables",
    pm_execute_wrong_types = "pm-execute-wrong-types",
    pm_export = "pm-export",
    pm_export_import = "pm-export-import",
    pm_get_unknown = "pm-get-unknown",
    pm_import_bad = "pm-import-bad",
    pm_import_exists = "pm-import-exists",
    pm_import_forms = "pm-import-forms",
    pm_list = "pm-list",
    pm_list_empty = "pm-list-empty",
    pm_list_filter_invalid = "pm-list-filter-invalid",
    pm_list_filters = "pm-list-filters",
    pm_list_pages = "pm-list-pages",
    pm_method = "pm-method",
    pm_step_specs = "pm-step-specs",
    pm_step_specs_user = "pm-step-specs-user",
    pm_update = "pm-update",
    pm_update_if_match = "pm-update-if-match",
    pm_update_refused = "pm-update-refused",
    pm_update_whole = "pm-update-whole",
    pm_validate = "pm-validate",
    pm_validate_faults = "pm-validate-faults",
    pm_validate_taken = "pm-validate-taken",
    re_create = "re-create",
    re_create_no_id = "re-create-no-id",
    re_create_refused = "re-create-refused",
    re_delete = "re-delete",
    re_evaluate_all = "re-evaluate-all",
    re_evaluate_one = "re-evaluate-one",
    re_evaluate_priority = "re-evaluate-priority",
    re_get_unknown = "re-get-unknown",
    re_list = "re-list",
    re_list_empty = "re-list-empty",
    re_sdk_form = "re-sdk-form",
    re_update = "re-update",
    re_update_refused = "re-update-refused",
    re_variables = "re-variables",
    re_variables_empty = "re-variables-empty",
    ws_bad_frames = "ws-bad-frames",
    ws_ca_evaluate_rules = "ws-ca-evaluate-rules",
    ws_ca_get_context = "ws-ca-get-context",
    ws_ca_memory_types = "ws-ca-memory-types",
    ws_ca_required_variables = "ws-ca-required-variables",
    ws_ca_validate = "ws-ca-validate",
    ws_paths = "ws-paths",
    ws_pm_create = "ws-pm-create",
    ws_pm_create_failures = "ws-pm-create-failures",
    ws_pm_delete = "ws-pm-delete",
    ws_pm_execute = "ws-pm-execute",
    ws_pm_execute_failed_step = "ws-pm-execute-failed-step",
    ws_pm_get = "ws-pm-get",
    ws_pm_list = "ws-pm-list",
    ws_pm_step_specs = "ws-pm-step-specs",
    ws_pm_update = "ws-pm-update",
    ws_pm_validate = "ws-pm-validate",
    ws_re_crud = "ws-re-crud",
    ws_re_evaluate = "ws-re-evaluate",
    ws_re_variables = "ws-re-variables",
    ws_request_ids = "ws-request-ids",
    ws_too_large = "ws-too-large",
}
