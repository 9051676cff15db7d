//! From a request to its reply: who may send it is decided on the route that matched.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use axum::{
    Router,
    body::Body,
    extract::{
        Path, Query, Request,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use keepline::store::Deadline;
use parking_lot::Mutex;
use tokio::time;

use super::{Shared, conditions::ConditionTakers, request_log::RequestLog};
use crate::{
    access::{Authenticated, KeyRefusal, OriginRefusal},
    http::{Access, ApiError, Call, ErrorShape, Parameters, Route, StreamEnd, require_scope},
    routes::{self, Families},
};

type PathParameters = Result<Path<HashMap<String, String>>, PathRejection>;
type QueryParameters = Result<Query<HashMap<String, String>>, QueryRejection>;

/// The router of all routes.
pub fn router(shared: Arc<Shared>) -> anyhow::Result<Router> {
    let mut by_path: BTreeMap<&'static str, Vec<Arc<Route>>> = BTreeMap::new();
    let table = routes::table();
    let families = Arc::new(Families::of(&table));
    let takers = Arc::new(ConditionTakers::of(&table));
    for route in table {
        by_path.entry(route.path).or_default().push(Arc::new(route));
    }
    let mut router = Router::new();
    for (path, routes) in by_path {
        router = router.route(path, method_router(&routes, &shared, &takers)?);
    }
    let not_found = move |request: Request| {
        let shared = shared.clone();
        let error = ApiError::not_found("there is no such route; GET /openapi.json describes those that there are");
        let shape = families.shape_of(request.uri().path());
        async move { refuse(&shared, "none", shape, &error, &request) }
    };
    Ok(router.fallback(not_found))
}

/// The routes of one path.
fn method_router(
    routes: &[Arc<Route>],
    shared: &Arc<Shared>,
    takers: &Arc<ConditionTakers>,
) -> anyhow::Result<MethodRouter> {
    let mut router = MethodRouter::new();
    for route in routes {
        let filter = MethodFilter::try_from(route.method.clone())?;
        let (route, shared, takers) = (route.clone(), shared.clone(), takers.clone());
        let serve = move |path: PathParameters, query: QueryParameters, request: Request| {
            let (route, shared, takers) = (route.clone(), shared.clone(), takers.clone());
            async move { dispatch(&route, &shared, &takers, (path, query), request).await }
        };
        router = router.merge(on(filter, serve));
    }
    let allowed: Vec<_> = routes.iter().map(|route| route.method.as_str()).collect();
    let allowed = HeaderValue::try_from(allowed.join(", "))?;
    let Some(first) = routes.first().cloned() else { return Ok(router) };
    let shared = shared.clone();
    let refuse_method = move |request: Request| {
        let (shared, first, allowed) = (shared.clone(), first.clone(), allowed.clone());
        let message = "the route has other methods: see the header allow";
        let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        async move {
            let mut response = refuse(&shared, first.path, first.errors, &error, &request);
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
    };
    Ok(router.fallback(refuse_method))
}

/// Refuses a request that has no route.
fn refuse(shared: &Shared, route: &'static str, shape: ErrorShape, error: &ApiError, request: &Request) -> Response {
    let log = RequestLog::begin(request.method(), request.headers(), route);
    let mut response = error.respond(shape, &log.id, Instant::now());
    secure(&mut response);
    log.end(&mut response, None, &shared.counters);
    response
}

/// Serves a request that has been matched.
async fn dispatch(
    route: &Route,
    shared: &Shared,
    takers: &ConditionTakers,
    (path, query): (PathParameters, QueryParameters),
    request: Request,
) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let log = RequestLog::begin(&parts.method, &parts.headers, route.path);
    let mut caller = None;
    let served = match allow(route, shared, &parts) {
        Ok(authenticated) => {
            caller = Some(authenticated.caller.clone());
            let deadline = Deadline::after(shared.request_timeout);
            let taken = takers.check(route, &parts.headers);
            let served = async {
                taken?;
                serve(route, shared, authenticated, deadline, (path, query, parts, body), &log.id).await
            };
            time::timeout(shared.request_timeout, served).await.unwrap_or_else(|_| Err(timed_out()))
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = served.unwrap_or_else(|error| error.respond(route.errors, &log.id, started));
    secure(&mut response);
    log.end(&mut response, caller.as_ref(), &shared.counters);
    response
}

/// Whether a request may be sent by whoever sends it.
fn allow(route: &Route, shared: &Shared, parts: &Parts) -> Result<Authenticated, ApiError> {
    let let_in = shared.origins.check(&parts.method, &parts.uri, &parts.headers);
    let_in.map_err(|refusal| match refusal {
        OriginRefusal::Host => {
            let message = "this service is not reached by that name: --allow-host lets it";
            ApiError { path: Some("host".into()), ..ApiError::new(StatusCode::FORBIDDEN, "forbidden", message) }
        }
        OriginRefusal::Origin => {
            let message = "pages of that origin may not use this service: --allow-origin lets them";
            ApiError { path: Some("origin".into()), ..ApiError::new(StatusCode::FORBIDDEN, "forbidden", message) }
        }
    })?;
    let needed = match route.access {
        Access::Public => return Ok(Authenticated::of_nobody()),
        Access::Needs(scope) => scope,
    };
    let authenticated = shared.keys.authenticate(&parts.headers).map_err(|refusal| {
        shared.counters.count_refused_key(refusal);
        match refusal {
            KeyRefusal::Missing => ApiError::new(
                StatusCode::UNAUTHORIZED,
                "key_required",
                "send a key: authorization: Bearer KEY, or x-api-key: KEY",
            ),
            KeyRefusal::Invalid => {
                ApiError::new(StatusCode::UNAUTHORIZED, "key_invalid", "the key is unknown or revoked")
            }
        }
    })?;
    require_scope(&authenticated.caller, needed)?;
    Ok(authenticated)
}

/// Hands a request to its handler, unless too many are at work.
async fn serve(
    route: &Route,
    shared: &Shared,
    authenticated: Authenticated,
    deadline: Deadline,
    (path, query, parts, body): (PathParameters, QueryParameters, Parts, Body),
    request_id: &str,
) -> Result<Response, ApiError> {
    let Path(path) = path.map_err(|_| ApiError::not_found("the path is not UTF-8"))?;
    let Query(query) = query.map_err(|error| ApiError::invalid("query", error.body_text()))?;
    let public = route.access == Access::Public;
    // Whoever asks whether the service is alive is answered also while it has too much to do.
    let _at_work = match shared.at_work.try_acquire() {
        Err(_) if !public => return Err(ApiError::unavailable("too many requests are at work")),
        slot => slot.ok(),
    };
    let tenant = shared.tenants.get(authenticated.caller.tenant.as_ref()).await?;
    let call = Call {
        tenant,
        tenants: shared.tenants.clone(),
        caller: Arc::new(authenticated.caller.clone()),
        path: Parameters(path),
        query: Parameters(query),
        counters: shared.counters.clone(),
        parts,
        body: Mutex::new(body),
        body_limit: shared.body_limit,
        deadline,
        started: Instant::now(),
        request_id: request_id.into(),
        sockets: shared.sockets.clone(),
        write_timeout: shared.write_timeout,
        end: StreamEnd::new(shared.stop.clone(), authenticated),
    };
    (route.handler)(call).await
}

fn timed_out() -> ApiError {
    let message = "the request took too long; the store may have done what was asked";
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timed_out", message)
}

/// What browsers are told with every reply.
fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    #[test]
    fn every_method_of_the_table_is_one_that_a_router_takes() {
        for route in routes::table() {
            assert!(MethodFilter::try_from(route.method.clone()).is_ok(), "{}", route.path);
            assert!(!matches!(route.method, Method::HEAD | Method::OPTIONS), "{}", route.path);
        }
    }
}
