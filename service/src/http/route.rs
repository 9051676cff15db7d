//! One row of the table of routes.

use std::{future::Future, pin::Pin};

use axum::{http::Method, response::Response};

use super::{ApiError, Call, ErrorShape};
use crate::access::Scope;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone, without a key.
    Public,
    /// Keys with this scope.
    Needs(Scope),
}

impl Access {
    /// For [`rows`].
    pub const PUBLIC: Self = Self::Public;
    /// For [`rows`].
    pub const READ: Self = Self::Needs(Scope::Read);
    /// For [`rows`].
    pub const WRITE: Self = Self::Needs(Scope::Write);
    /// For [`rows`].
    pub const ADMIN: Self = Self::Needs(Scope::Admin);
}

type Reply = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;
/// What a route does.
pub type Handler = Box<dyn Fn(Call) -> Reply + Send + Sync>;

/// A route: which requests it matches, who may send them, how it fails, and what it does.
pub struct Route {
    pub method: Method,
    /// With `{name}` for each parameter, as axum's.
    pub path: &'static str,
    pub access: Access,
    pub errors: ErrorShape,
    /// The headers of conditions that it takes.
    pub conditions: &'static [&'static str],
    /// A sentence for the description of the interface.
    pub about: &'static str,
    pub handler: Handler,
}

/// Makes a handler of a function.
pub fn handler<F>(function: fn(Call) -> F) -> Handler
where
    F: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    Box::new(move |call| Box::pin(function(call)))
}

/// Rows of the table, which fail in one shape: method, path, who may use it (a constant of [`Access`]), description, handler, and
/// the headers of conditions that it takes.
macro_rules! rows {
    ($errors:ident: $($method:ident $path:literal $access:ident $about:literal $handler:expr $(, $condition:literal)*;)*) => {
        vec![$($crate::http::Route {
            method: axum::http::Method::$method,
            path: $path,
            access: $crate::http::Access::$access,
            errors: $crate::http::ErrorShape::$errors,
            conditions: &[$($condition),*],
            about: $about,
            handler: $crate::http::handler($handler),
        },)*]
    };
}
pub(crate) use rows;
