//! What every component imports, generated from `wit/`.
//!
//! What goes to the store is borrowed: a transaction copies no text on this side. Natively the imports are not there to be
//! called: a [`Host`](super::Host) stands in their place.

wit_bindgen::generate!({
    path: "../wit",
    inline: "
        package keepline:store-client;

        world imports {
            import keepline:store/core@0.3.0;
            import keepline:store/leases@0.3.0;
            import keepline:store/indexes@0.3.0;
            import keepline:store/listing@0.3.0;
            import keepline:host/log@0.3.0;
            import keepline:host/needs@0.3.0;
            import wasi:clocks/wall-clock@0.2.0;
        }
    ",
    world: "keepline:store-client/imports",
    generate_all,
    additional_derives: [PartialEq, Eq, PartialOrd, Ord],
    ownership: Borrowing { duplicate_if_necessary: true },
});
