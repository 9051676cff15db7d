//! Why a request was not carried out.

use keepline_store_client::Problem;

use crate::catalog::CatalogFault;

/// Why a request was not carried out.
#[derive(Debug)]
pub enum RequestError {
    /// What was asked for is wrong, or not there.
    Fault(CatalogFault),
    /// The store's.
    Store(Box<Problem>),
}

impl From<CatalogFault> for RequestError {
    fn from(fault: CatalogFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Box<Problem>> for RequestError {
    fn from(problem: Box<Problem>) -> Self {
        Self::Store(problem)
    }
}
