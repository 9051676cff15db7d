//! The first program of an embedder: a plugin, a store, and one conversation that is remembered.

use std::sync::Arc;

use keepline::{Keepline, Options, Plugin, Sandbox, pipe::Effect, store::MemoryStore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plugin = Plugin::bundled(&Sandbox::default())?;
    let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), Options::default()).await?;
    let metadata = r#"{"session_id": "anna"}"#;
    keepline.pipe().answer("In Leipzig.", metadata).await?;
    let asked = keepline.pipe().question("And now?", metadata).await?;
    assert_eq!(asked.effect, Effect::Enriched);
    println!("{}", asked.metadata.unwrap_or_default());
    Ok(())
}
