//! `keepline serve`: memory over HTTP.

use std::{fs, net::SocketAddr, path::PathBuf, pin::pin, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use clap::Args;
use keepline::{
    Keepline, Pipelines,
    config::Config,
    maintenance::Maintenance,
    store::{DirectoryStore, MemoryStore, RedisOptions, RedisStore, Store, TransferStore},
};
use keepline_service::{Backend, KeyFile, KeyRing, Service, ServiceOptions, TenantName, TlsFiles, Transfers};
use keepline_session_file::{TRANSFER_TIMEOUT, remove_abandoned};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    app::{self, error::UsageError, runtime, shutdown::ShutdownSignals},
    args::{GRACE, GlobalArguments, parse_grace_seconds},
    maintenance, session_file, terminal,
};

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const SERVE_HELP: &str = r#"Without any option, conversations are kept in a folder of yours ($XDG_DATA_HOME/keepline/memory, by default ~/.local/share/keepline/memory), and only programs of this machine are served, without a key. --dir, --profile and --set choose another store; several services may share a Redis.

To be reached by others, a service has to ask for keys: make one with `keepline key create`, and name their file with --keys. Each key opens the memory of its tenant, and of one user if it names one.

  keepline serve
  curl localhost:7777/keepline/v1/questions \
    -d '{"text":"Where is my parcel?","metadata":{"session_id":"anna"}}'

/healthz and /readyz tell orchestrators how it is, /metrics tells Prometheus (with a key, if keys are asked for: scope admin), and /openapi.json describes all routes."#;

#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7777")]
    pub listen: SocketAddr,
    /// Ask for the keys in this file; it is read again whenever it changes
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Be reached by this name, beside those of this machine (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Let pages of this origin use the service, for example https://app.example (may be repeated)
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Encrypt: the certificate and those that signed it, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Accept at most this many connections at once; more wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// Work on at most this many requests at once; more are refused with 503
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_requests: u32,
    /// Take bodies of at most this many bytes, decompressed
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    pub max_body: u32,
    /// Give a request this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_grace_seconds)]
    pub request_timeout: Duration,
    /// Let requests go on for this many seconds after a signal [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = parse_grace_seconds)]
    pub grace: Option<Duration>,
    /// Log each request to stderr: method, route, status, time, ids; never a text or a key
    #[arg(long)]
    pub access_log: bool,
}

impl ServeArguments {
    fn options(&self, config: &Config) -> Result<ServiceOptions> {
        let mut options = ServiceOptions::default();
        if let Some(path) = &self.keys {
            options.keys = KeyRing::of_file(KeyFile::new(path)).map_err(|error| UsageError(format!("{error:#}")))?;
        }
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            options.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
        }
        options.allowed_hosts.clone_from(&self.allow_host);
        options.allowed_origins.clone_from(&self.allow_origin);
        options.connection_limit = usize::try_from(self.max_connections).unwrap_or(usize::MAX);
        options.request_limit = usize::try_from(self.max_requests).unwrap_or(usize::MAX);
        options.body_limit = usize::try_from(self.max_body).unwrap_or(usize::MAX);
        options.request_timeout = self.request_timeout;
        options.grace = self.grace.unwrap_or(GRACE);
        options.store_name.clone_from(&config.host.backend);
        Ok(options)
    }
}

/// The configured stores and components.
struct ConfiguredBackend {
    global: GlobalArguments,
    config: Config,
    keepline: Keepline,
    /// Of deferred work, so that it takes no thread from requests.
    background: Handle,
}

#[async_trait]
impl Backend for ConfiguredBackend {
    fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    async fn open_store(&self, tenant: &TenantName) -> Result<Arc<dyn Store>> {
        if let Some(folder) = self.config.directory() {
            let folder = folder.join(format!("@{tenant}"));
            return Ok(Arc::new(DirectoryStore::open(&folder, self.config.directory_options())?));
        }
        if self.config.is_redis() {
            let options = self.config.redis_options();
            let key_prefix = format!("{}@{tenant}", options.key_prefix);
            return Ok(Arc::new(RedisStore::new(RedisOptions { key_prefix, ..options })?));
        }
        Ok(Arc::new(MemoryStore::new(self.config.memory_limits())))
    }

    async fn open_transfers(&self, tenant: Option<&TenantName>) -> Result<Option<Transfers>> {
        let Self { config, .. } = self;
        let own = tenant.map_or_else(String::new, |tenant| format!("@{tenant}"));
        let store: Arc<dyn TransferStore> = if let Some(folder) = config.directory() {
            let mut options = config.directory_options();
            options.timeout = options.timeout.max(TRANSFER_TIMEOUT);
            Arc::new(DirectoryStore::open(folder.join(&own), options)?)
        } else if config.is_redis() {
            let mut options = config.redis_options();
            options.key_prefix.push_str(&own);
            options.store_timeout = options.store_timeout.max(TRANSFER_TIMEOUT);
            Arc::new(RedisStore::new(options)?)
        } else {
            return Ok(None);
        };
        Ok(Some(Transfers::new(store, staging_places(config, &own))))
    }

    fn open_maintenance(&self, keepline: &Keepline) -> Result<Maintenance> {
        maintenance::open_maintenance(keepline, &self.config, &self.background)
    }

    async fn load_pipelines(&self) -> Result<Pipelines> {
        let plugin = app::load_pipelines(&self.global, &self.config)?;
        app::open_pipelines_on(self.keepline.store().clone(), plugin, &self.config, None).await
    }
}

/// Where imported sessions of a tenant may be staged: in its own directory, or in the user's cache below the folder of
/// all.
fn staging_places(config: &Config, tenant: &str) -> Vec<PathBuf> {
    let place = config.directory().map(|folder| folder.join(tenant).join("staging"));
    let others = session_file::cache_staging_directory().map(|cache| cache.join(tenant));
    place.into_iter().chain(others).collect()
}

/// Removes what imports of services that were killed have left, of any tenant.
fn remove_abandoned_imports(config: &Config) {
    let mut tenants = vec![String::new()];
    let roots = config.directory().map(PathBuf::from).into_iter().chain(session_file::cache_staging_directory());
    for entry in roots.filter_map(|root| fs::read_dir(root).ok()).flatten().flatten() {
        tenants.extend(entry.file_name().into_string().ok().filter(|name| name.starts_with('@')));
    }
    for tenant in tenants {
        staging_places(config, &tenant).iter().for_each(|place| remove_abandoned(place));
    }
}

pub fn main(global: &GlobalArguments, arguments: &ServeArguments) -> Result<ExitCode> {
    let config = app::load_service_config(global)?;
    let options = arguments.options(&config)?;
    let plugin = app::load_plugin(global, &config)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().context("can't start the runtime")?;
    let background = runtime::build_background()?;
    let served = runtime.block_on(async {
        let keepline = app::open_keepline_with_pipelines(global, config.store()?, plugin, &config).await?;
        let mut shutdown = ShutdownSignals::listen(Duration::ZERO)?;
        background.spawn(app::print_store_warnings(keepline.store().clone()));
        let (scheme, place) = (if options.tls.is_some() { "https" } else { "http" }, kept_in(&config));
        let backend =
            ConfiguredBackend { global: global.clone(), config, keepline, background: background.handle().clone() };
        remove_abandoned_imports(&backend.config);
        let service = Service::bind(arguments.listen, Arc::new(backend), options).await?;
        terminal::print_note(&format!("memory is kept in {place}"));
        terminal::print_note(&format!("serving at {scheme}://{}", service.address()?));
        // A second signal does not wait.
        let (first, mut stopping) = (watch::Sender::new(false), None);
        let serve = service.serve({
            let mut first = first.subscribe();
            async move { drop(first.wait_for(|first| *first).await) }
        });
        let mut serve = pin!(serve);
        loop {
            tokio::select! {
                () = &mut serve => break,
                received = shutdown.wait_for_signal() => match stopping.replace(received) {
                    None => drop(first.send_replace(true)),
                    Some(_) => break,
                },
            }
        }
        Ok(ExitCode::SUCCESS)
    });
    background.shutdown_background();
    // Of requests that were cut off: nobody waits for them.
    runtime.shutdown_background();
    served
}

/// Where memory is kept, for people.
fn kept_in(config: &Config) -> String {
    match (config.directory(), config.is_redis()) {
        (Some(folder), _) => folder.display().to_string(),
        (None, true) => app::store_address(config).unwrap_or_else(|| config.host.backend.clone()),
        (None, false) => "this process, and forgotten with it".to_owned(),
    }
}
