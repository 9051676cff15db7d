//! Embeddings by a model behind `/embeddings`.

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    config::Config,
    embedding::{Embedder, Embedding},
    maintenance::ModelError,
};
use serde::Deserialize;
use serde_json::json;

use super::{Client, Failed, Left, Settings};

/// The longest reply that is read: 64 embeddings of 4,096 numbers have about half of it.
const MAX_REPLY: u64 = 16 << 20;

/// The configured model for embeddings.
pub fn configured(config: &Config) -> Result<Option<Arc<dyn Embedder>>> {
    let host = &config.host;
    if host.embedding != "openai" {
        return Ok(None);
    }
    let client = Client::new(&Settings {
        field: "embedding",
        path: "embeddings",
        who: "the embedding model",
        name: &host.embedding_name,
        url: &host.embedding_url,
        key: &host.embedding_key,
        timeout_ms: host.embedding_timeout_ms,
        retries: host.embedding_retries,
        max_reply: MAX_REPLY,
    })?;
    Ok(Some(Arc::new(Embeddings(Arc::new(Inner { client, dimensions: host.embedding_dimensions })))))
}

struct Embeddings(Arc<Inner>);

struct Inner {
    client: Client,
    /// 0: the model's own.
    dimensions: u64,
}

#[async_trait::async_trait]
impl Embedder for Embeddings {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError> {
        let mut body = json!({"model": self.0.client.name, "input": texts});
        if let Some(members) = body.as_object_mut().filter(|_| self.0.dimensions > 0) {
            members.insert("dimensions".to_owned(), self.0.dimensions.into());
        }
        let (inner, count) = (self.0.clone(), texts.len());
        let ask = move |left: Left| {
            let values = embeddings(&inner.client.post(&body, left)?, count).map_err(Failed::lasting)?;
            Ok(values.into_iter().map(|values| Embedding { model: inner.client.name.clone(), values }).collect())
        };
        self.0.client.patiently(ask).await
    }
}

#[derive(Deserialize)]
struct Reply {
    data: Vec<Datum>,
}

#[derive(Deserialize)]
struct Datum {
    /// Of the text; some servers leave it out and keep the order.
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// One for each text, in order.
fn embeddings(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, &'static str> {
    const WRONG: &str = "the embedding model's answer is not one embedding for each text";
    let reply: Reply = serde_json::from_slice(body).map_err(|_| WRONG)?;
    let mut found = vec![Vec::new(); count];
    for (place, datum) in reply.data.into_iter().enumerate() {
        let place = found.get_mut(datum.index.unwrap_or(place)).ok_or(WRONG)?;
        if !place.is_empty() {
            return Err(WRONG);
        }
        *place = datum.embedding;
    }
    if found.iter().any(Vec::is_empty) { Err(WRONG) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_gets_its_own() {
        let body =
            br#"{"object":"list","data":[{"index":1,"embedding":[2,0.5]},{"index":0,"embedding":[1e-1]}],"model":"m"}"#;
        assert_eq!(embeddings(body, 2), Ok(vec![vec![0.1], vec![2.0, 0.5]]));
        assert_eq!(embeddings(br#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#, 2), Ok(vec![vec![1.0], vec![2.0]]));
        for wrong in [
            &b""[..],
            b"{}",
            b"[]",
            br#"{"data":[{"embedding":[1]}]}"#,
            br#"{"data":[{"embedding":[1]},{"embedding":[]}]}"#,
            br#"{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}"#,
            br#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}"#,
            br#"{"data":[{"index":7,"embedding":[1]},{"index":1,"embedding":[1]}]}"#,
            br#"{"data":[{"embedding":"AAAA"},{"embedding":"AAAA"}]}"#,
        ] {
            assert!(embeddings(wrong, 2).is_err());
        }
    }
}
