//! Transactions whose receipts are checked against the contract.

pub(crate) use keepline_store_client::checked::*;
