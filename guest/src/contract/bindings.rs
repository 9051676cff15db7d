//! What the filter exports, generated from `wit/`. Its imports are those of every component.

wit_bindgen::generate!({
    path: "../wit",
    world: "memory-filter",
    with: {
        "keepline:common/shared@0.3.0": keepline_store_client::bindings::keepline::common::shared,
        "keepline:host/log@0.3.0": keepline_store_client::bindings::keepline::host::log,
        "keepline:host/needs@0.3.0": keepline_store_client::bindings::keepline::host::needs,
        "keepline:store/core@0.3.0": keepline_store_client::bindings::keepline::store::core,
        "keepline:store/indexes@0.3.0": keepline_store_client::bindings::keepline::store::indexes,
        "keepline:store/leases@0.3.0": keepline_store_client::bindings::keepline::store::leases,
        "keepline:store/listing@0.3.0": keepline_store_client::bindings::keepline::store::listing,
        "keepline:store/types@0.3.0": keepline_store_client::bindings::keepline::store::types,
        "wasi:clocks/wall-clock@0.2.0": keepline_store_client::bindings::wasi::clocks::wall_clock,
    },
    generate_all,
    // Plugins on this crate export through it, too (`export_lanes!`).
    pub_export_macro: true,
    additional_derives: [PartialEq, Eq, PartialOrd, Ord],
    ownership: Borrowing { duplicate_if_necessary: true },
});
