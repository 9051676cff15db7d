//! Reads the body of a request and sends that of a response.

use crate::{
    bindings::wasi::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam},
    bindings::wasi::io::streams::StreamError,
    lane::Reply,
};

/// The longest body of a request: more than an entry may have.
const MAX_BYTES: usize = 16 << 20;
/// How much is read at a time.
const READ: u64 = 64 << 10;
/// The most that a stream takes at a time.
const WRITTEN: usize = 4096;

/// The body of a request as text.
pub fn read(request: &IncomingRequest) -> Result<String, Reply> {
    let unreadable = || Reply::refused(400, "invalid", "the body could not be read");
    let body = request.consume().map_err(|()| unreadable())?;
    let stream = body.stream().map_err(|()| unreadable())?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(READ) {
            Ok(mut more) => bytes.append(&mut more),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(_)) => return Err(unreadable()),
        }
        if bytes.len() > MAX_BYTES {
            return Err(Reply::refused(413, "too-large", "a body has at most 16 MiB"));
        }
    }
    String::from_utf8(bytes).map_err(|_| Reply::refused(400, "invalid", "the body is not UTF-8"))
}

/// Sends a response. If the client has gone, nobody is told.
pub fn send(out: ResponseOutparam, status: u16, text: &str) {
    let headers = [("content-type".to_owned(), b"application/json".to_vec())];
    let Ok(headers) = Fields::from_list(&headers) else { return };
    let response = OutgoingResponse::new(headers);
    let _ = response.set_status_code(status);
    let Ok(body) = response.body() else { return };
    ResponseOutparam::set(out, Ok(response));
    if let Ok(stream) = body.write() {
        for chunk in text.as_bytes().chunks(WRITTEN) {
            if stream.blocking_write_and_flush(chunk).is_err() {
                break;
            }
        }
    }
    let _ = OutgoingBody::finish(body, None);
}
