//! Decompresses the bodies of requests, within the limit that holds for those that are not compressed.

use std::io::Read;

use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::ApiError;

/// The body as its sender wrote it before it was compressed.
///
/// # Errors
/// When it is more than `limit` bytes, damaged, or compressed otherwise than by gzip or zstd.
pub fn decode(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes, ApiError> {
    match headers.get(header::CONTENT_ENCODING).map(|coding| coding.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"identity" | b"") => Ok(body),
        Some(b"gzip" | b"x-gzip") => read_within(MultiGzDecoder::new(&*body), limit),
        Some(b"zstd") => {
            let decoder = zstd::stream::read::Decoder::with_buffer(&*body);
            read_within(decoder.map_err(|error| ApiError::internal(&error))?, limit)
        }
        Some(_) => Err(ApiError {
            path: Some("content-encoding".into()),
            ..ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "content-encoding must be gzip, zstd or identity",
            )
        }),
    }
}

/// 413: a body of more than the limit.
pub fn too_large(limit: usize) -> ApiError {
    let message = format!("a body may have {limit} bytes, decompressed");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}

fn read_within(decoder: impl Read, limit: usize) -> Result<Bytes, ApiError> {
    let mut decoded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = decoder.take(most).read_to_end(&mut decoded);
    read.map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "malformed", "the compressed body is damaged"))?;
    if decoded.len() > limit { Err(too_large(limit)) } else { Ok(decoded.into()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap().into()
    }

    fn status(coding: &str, body: Bytes, limit: usize) -> Result<Bytes, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
        decode(&headers, body, limit).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn bodies_are_decompressed_up_to_the_limit_and_not_beyond() {
        let zeros = vec![0; 1 << 20];
        for (coding, packed) in [("gzip", gzip(&zeros)), ("zstd", zstd::encode_all(&*zeros, 19).unwrap().into())] {
            assert!(packed.len() < 2000, "{coding}");
            assert_eq!(status(coding, packed.clone(), 1 << 20).unwrap(), zeros, "{coding}");
            assert_eq!(status(coding, packed.clone(), (1 << 20) - 1), Err(413), "{coding}");
            let cut = packed.slice(..packed.len() - 6);
            assert_eq!(status(coding, cut, 1 << 20), Err(400), "{coding}");
        }
        assert_eq!(status("br", Bytes::new(), 1), Err(415));
        assert_eq!(status("gzip, zstd", Bytes::new(), 1), Err(415));
        assert_eq!(status("identity", "x".into(), 1).unwrap(), "x");
    }
}
