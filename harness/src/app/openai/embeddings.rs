//! Computes embeddings with a model behind `/embeddings`.

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    config::Config,
    embedding::{Embedder, Embedding, EmbeddingError},
};
use serde::Deserialize;
use serde_json::json;

use super::{AttemptDeadline, ModelClient, ModelSettings, RequestFailure};

/// The longest reply that is read: 64 embeddings of 4,096 numbers take about half of it.
const MAX_REPLY: u64 = 16 << 20;

pub fn configured_embedder(config: &Config) -> Result<Option<Arc<dyn Embedder>>> {
    let host = &config.host;
    if host.embedding != "openai" {
        return Ok(None);
    }
    let client = ModelClient::new(ModelSettings {
        field: "embedding",
        path: "embeddings",
        who: "the embedding model",
        name: host.embedding_name.clone(),
        url: host.embedding_url.clone(),
        key: host.embedding_key.clone(),
        timeout_ms: host.embedding_timeout_ms,
        retries: host.embedding_retries,
        max_reply: MAX_REPLY,
    })?;
    Ok(Some(Arc::new(EmbeddingModel { client: Arc::new(client), dimensions: host.embedding_dimensions })))
}

struct EmbeddingModel {
    client: Arc<ModelClient>,
    /// 0 means the model's own.
    dimensions: u64,
}

#[async_trait::async_trait]
impl Embedder for EmbeddingModel {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        let (client, model, count) = (self.client.clone(), self.client.settings.name.clone(), texts.len());
        let mut body = json!({"model": model, "input": texts});
        if let Some(members) = body.as_object_mut().filter(|_| self.dimensions > 0) {
            members.insert("dimensions".to_owned(), self.dimensions.into());
        }
        let ask = move |left: AttemptDeadline| {
            let values = parse_embeddings(&client.post(&body, left)?, count)?;
            Ok(values.into_iter().map(|values| Embedding { model: model.clone(), values }).collect())
        };
        self.client.request_with_retries(ask).await.map_err(|failed| match failed.is_refusal {
            true => EmbeddingError::Refused(failed.message),
            false => EmbeddingError::Failed(failed.message),
        })
    }
}

#[derive(Deserialize)]
struct EmbeddingReply {
    data: Vec<EmbeddingDatum>,
}

#[derive(Deserialize)]
struct EmbeddingDatum {
    /// Index of the text; some servers leave it out and keep the order.
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// One embedding for each text, in order. An unreadable reply counts as a refusal, since one text may cause it: servers
/// write `null` or `NaN`.
fn parse_embeddings(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, RequestFailure> {
    const WRONG: &str = "the embedding model's response is not one embedding for each text";
    let reply: EmbeddingReply = serde_json::from_slice(body)
        .map_err(|_| RequestFailure { is_refusal: true, ..RequestFailure::permanent(WRONG) })?;
    let mut found = vec![None; count];
    for (place, datum) in reply.data.into_iter().enumerate() {
        let place = found.get_mut(datum.index.unwrap_or(place)).ok_or_else(|| RequestFailure::permanent(WRONG))?;
        if place.replace(datum.embedding).is_some() {
            return Err(RequestFailure::permanent(WRONG));
        }
    }
    found.into_iter().collect::<Option<_>>().ok_or_else(|| RequestFailure::permanent(WRONG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_gets_its_own_embedding() {
        let body =
            br#"{"object":"list","data":[{"index":1,"embedding":[2,0.5]},{"index":0,"embedding":[1e-1]}],"model":"m"}"#;
        let read = |body: &[u8]| parse_embeddings(body, 2).map_err(|failed| failed.is_refusal);
        assert_eq!(read(body), Ok(vec![vec![0.1], vec![2.0, 0.5]]));
        assert_eq!(read(br#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#), Ok(vec![vec![1.0], vec![2.0]]));
        // One of the texts may be the cause.
        for may_be in [
            &b""[..],
            b"{}",
            b"[]",
            br#"{"data":[{"embedding":[1]},{"embedding":null}]}"#,
            br#"{"data":[{"embedding":[1]},{"embedding":[NaN]}]}"#,
            br#"{"data":[{"embedding":"AAAA"},{"embedding":"AAAA"}]}"#,
        ] {
            assert_eq!(read(may_be), Err(true));
        }
        for wrong in [
            br#"{"data":[{"embedding":[1]}]}"#.as_slice(),
            br#"{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}"#,
            br#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}"#,
            br#"{"data":[{"index":7,"embedding":[1]},{"index":1,"embedding":[1]}]}"#,
        ] {
            assert_eq!(read(wrong), Err(false));
        }
    }
}
