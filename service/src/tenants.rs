//! The tenants of a service: a store for each, and what works on it.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use keepline::{
    Keepline, Pipelines,
    events::{EventLog, EventOptions},
    maintenance::Maintenance,
    store::{Store, TransferStore},
};
use keepline_session_file::{SessionSource, StoreReader};
use tokio::sync::{Mutex, OnceCell, Semaphore, SemaphorePermit};

use crate::{access::TenantName, metrics::PromptPrefixes};

/// What a service is built on: whoever starts it knows which stores and components there are.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The filter, over the store of the only tenant of a service without keys.
    fn keepline(&self) -> &Keepline;

    /// The store of a tenant, opened or created. It is asked for once a tenant.
    ///
    /// # Errors
    /// When it can't be opened.
    async fn open_store(&self, tenant: &TenantName) -> anyhow::Result<Arc<dyn Store>>;

    /// What sessions of a tenant are copied with; of the only tenant of a service without keys, without a name. It is asked for
    /// once a tenant, when a request first needs it. None, as by default: sessions can't be copied to the
    /// store, and are read from it as by everyone.
    ///
    /// # Errors
    /// When it can't be opened.
    async fn open_transfers(&self, tenant: Option<&TenantName>) -> anyhow::Result<Option<Transfers>> {
        let _ = tenant;
        Ok(None)
    }

    /// What does the deferred work of a tenant's filter. It is asked for once a tenant.
    ///
    /// # Errors
    /// When the models are configured wrongly.
    fn open_maintenance(&self, keepline: &Keepline) -> anyhow::Result<Maintenance>;

    /// Loads the component of pipelines, over the store of [`Self::keepline`]. It is asked for when a request first needs it.
    ///
    /// # Errors
    /// When it can't be loaded.
    async fn load_pipelines(&self) -> anyhow::Result<Pipelines>;
}

/// Exports and imports of a tenant that work at once; more wait.
const TRANSFERS_AT_ONCE: usize = 4;

/// What sessions of a tenant are copied with.
#[derive(Debug)]
pub struct Transfers {
    /// The tenant's store, with time for copies.
    pub store: Arc<dyn TransferStore>,
    /// Folders in which imported sessions may be staged, the best one first: of this tenant only.
    pub staging: Vec<PathBuf>,
}

impl Transfers {
    /// Of that store.
    pub fn new(store: Arc<dyn TransferStore>, staging: Vec<PathBuf>) -> Self {
        Self { store, staging }
    }
}

/// A tenant's memory.
pub struct Tenant {
    /// None: the only one of a service without keys.
    name: Option<TenantName>,
    keepline: Keepline,
    events: EventLog,
    maintenance: Maintenance,
    shared: Arc<SharedPipelines>,
    pipelines: OnceCell<Pipelines>,
    transfers: OnceCell<Option<Transfers>>,
    transfer_slots: Semaphore,
    prompts: PromptPrefixes,
}

impl Tenant {
    /// The filter over the tenant's store.
    pub fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    /// What does the work that entries leave behind: titles, summaries, indexes.
    pub fn maintenance(&self) -> &Maintenance {
        &self.maintenance
    }

    /// What its questions get, as far as it is measured.
    pub fn prompts(&self) -> &PromptPrefixes {
        &self.prompts
    }

    /// What is announced to the tenant's followers.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Waits for the turn of an export or import, which lasts as long as what is returned.
    pub async fn transfer_slot(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.transfer_slots.acquire().await.ok()
    }

    /// What sessions are exported from.
    pub async fn session_source(&self) -> anyhow::Result<Box<dyn SessionSource>> {
        Ok(match self.transfers().await? {
            Some(transfers) => Box::new(transfers.store.clone()),
            None => Box::new(StoreReader::new(self.keepline.store().clone())),
        })
    }

    /// What sessions are imported with. The first call opens it. None: they can't be imported.
    pub async fn transfers(&self) -> anyhow::Result<Option<&Transfers>> {
        let open = || self.shared.backend.open_transfers(self.name.as_ref());
        Ok(self.transfers.get_or_try_init(open).await?.as_ref())
    }

    /// Pipelines over the tenant's store. The first call in a process loads the component.
    pub async fn pipelines(&self) -> anyhow::Result<&Pipelines> {
        let make = || async {
            let shared = self.shared.get().await?;
            Ok(shared.with_store(self.keepline.store().clone())?)
        };
        self.pipelines.get_or_try_init(make).await
    }
}

/// One component of pipelines for all tenants, and where it comes from.
struct SharedPipelines {
    backend: Arc<dyn Backend>,
    loaded: OnceCell<Pipelines>,
}

impl SharedPipelines {
    async fn get(&self) -> anyhow::Result<&Pipelines> {
        self.loaded.get_or_try_init(|| self.backend.load_pipelines()).await
    }
}

/// All tenants that requests have named so far.
pub struct Tenants {
    backend: Arc<dyn Backend>,
    pipelines: Arc<SharedPipelines>,
    only: OnceCell<Arc<Tenant>>,
    named: Mutex<HashMap<TenantName, Arc<Tenant>>>,
}

impl Tenants {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let pipelines = Arc::new(SharedPipelines { backend: backend.clone(), loaded: OnceCell::new() });
        Self { backend, pipelines, only: OnceCell::new(), named: Mutex::default() }
    }

    /// A tenant, whose store is opened by the first call. None: the only one of a service without keys.
    pub async fn get(&self, name: Option<&TenantName>) -> anyhow::Result<Arc<Tenant>> {
        let Some(name) = name else {
            let make = || async { self.make(None, self.backend.keepline().clone()) };
            return self.only.get_or_try_init(make).await.cloned();
        };
        let mut named = self.named.lock().await;
        if let Some(tenant) = named.get(name) {
            return Ok(tenant.clone());
        }
        let store = self.backend.open_store(name).await?;
        let tenant = self.make(Some(name), self.backend.keepline().with_store(store)?)?;
        named.insert(name.clone(), tenant.clone());
        Ok(tenant)
    }

    /// Those with a name that requests have named so far, by name.
    pub async fn named(&self) -> Vec<(TenantName, Arc<Tenant>)> {
        let named = self.named.lock().await;
        let mut all: Vec<_> = named.iter().map(|(name, tenant)| (name.clone(), tenant.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        all
    }

    fn make(&self, name: Option<&TenantName>, keepline: Keepline) -> anyhow::Result<Arc<Tenant>> {
        let events = EventLog::new(keepline.store().clone(), EventOptions::default());
        let (maintenance, shared) = (self.backend.open_maintenance(&keepline)?, self.pipelines.clone());
        Ok(Arc::new(Tenant {
            name: name.cloned(),
            keepline,
            events,
            maintenance,
            shared,
            pipelines: OnceCell::new(),
            transfers: OnceCell::new(),
            transfer_slots: Semaphore::new(TRANSFERS_AT_ONCE),
            prompts: PromptPrefixes::default(),
        }))
    }
}
