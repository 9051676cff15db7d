//! Serves a filter's lanes over HTTP, where a host lends no more than that: `wasmtime serve`, wasmCloud.
//!
//! `POST /questions` and `POST /answers` take an entry as a JSON object and reply with one. Nothing is kept between requests but the
//! options: the client gets the turn of a question, and passes it, and the question's text, with the answers. `POST /entries` takes
//! many, a line each.

mod body;
mod due;
mod lane;

use self::{
    bindings::{
        exports::wasi::http::incoming_handler::Guest,
        wasi::http::types::{IncomingRequest, Method, ResponseOutparam},
    },
    lane::Reply,
};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../wit/http"],
        inline: "
            package keepline:adapters;

            world front-http {
                import keepline:memory/lanes@0.3.0;
                import keepline:memory/tasks@0.3.0;
                import keepline:host/log@0.3.0;
                import wasi:cli/environment@0.2.0;
                export wasi:http/incoming-handler@0.2.0;
            }
        ",
        world: "keepline:adapters/front-http",
        generate_all,
    });
}

struct Component;

bindings::export!(Component with_types_in bindings);

impl Guest for Component {
    fn handle(request: IncomingRequest, response: ResponseOutparam) {
        let Reply { status, body, due } = reply_to(&request);
        body::send(response, status, &body);
        // The client has its reply.
        due::work_on(due);
    }
}

fn reply_to(request: &IncomingRequest) -> Reply {
    let path = request.path_with_query().unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let answer = match path {
        "/questions" => lane::question,
        "/answers" => lane::answer,
        "/entries" => lane::entries,
        _ => return Reply::refused(404, "not-found", "there are /questions, /answers and /entries"),
    };
    if !matches!(request.method(), Method::Post) {
        return Reply::refused(405, "method-not-allowed", "an entry is sent with POST");
    }
    match body::read(request) {
        Ok(body) => answer(&body),
        Err(refused) => refused,
    }
}
