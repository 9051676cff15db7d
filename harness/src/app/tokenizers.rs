//! Counts tokens with OpenAI's published vocabularies (byte pair encoding).

use std::sync::Arc;

use keepline::{TokenCounter, config::Config};
use tiktoken_rs::{
    CoreBPE, cl100k_base_singleton, o200k_base_singleton,
    tokenizer::{Tokenizer, get_tokenizer},
};

/// The vocabulary for models that are not known to have another one. It is unpacked at first use, which takes a moment.
#[derive(Debug)]
struct Vocabulary(fn() -> &'static CoreBPE);

impl TokenCounter for Vocabulary {
    fn count(&self, text: &str) -> u32 {
        count_tokens(text, self.0())
    }

    fn count_for(&self, model: &str, text: &str) -> u32 {
        // Routers put the provider's name in front.
        let name = model.rsplit('/').next().unwrap_or(model);
        // The name may come from a client: it selects one of two vocabularies and loads no other.
        let vocabulary = match get_tokenizer(name) {
            Some(Tokenizer::Cl100kBase) => cl100k_base_singleton(),
            Some(Tokenizer::O200kBase | Tokenizer::O200kHarmony) => o200k_base_singleton(),
            _ => self.0(),
        };
        count_tokens(text, vocabulary)
    }
}

fn count_tokens(text: &str, vocabulary: &CoreBPE) -> u32 {
    u32::try_from(vocabulary.count_ordinary(text)).unwrap_or(u32::MAX)
}

/// The configured counter. `None`: tokens are estimated.
pub fn configured_token_counter(config: &Config) -> Option<Arc<dyn TokenCounter>> {
    let counter = match &*config.host.token_counter {
        "cl100k_base" => Vocabulary(cl100k_base_singleton),
        "o200k_base" => Vocabulary(o200k_base_singleton),
        _ => return None,
    };
    Some(Arc::new(counter))
}
