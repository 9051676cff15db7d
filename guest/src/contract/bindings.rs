//! The contract's types and functions, generated from `wit/`.
//!
//! What goes to the store is borrowed: a transaction copies no text on this side. An entry goes down and comes up, so it is
//! there twice. Natively the imports are not there to be called: a [`Host`](super::Host) stands in their place.

wit_bindgen::generate!({
    path: "../wit",
    world: "memory-filter",
    generate_all,
    additional_derives: [PartialEq, Eq, PartialOrd, Ord],
    ownership: Borrowing { duplicate_if_necessary: true },
});
