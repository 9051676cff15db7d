//! Warm instances: each call takes one and gives it back, so there are as many as calls at one time.
//!
//! Instances hold no conversation, so any will do. One that faulted is not given back, nor is one whose
//! call was abandoned half-way (a dropped future takes its instance with it).

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Fault, Instance, state::Lent};
use crate::{contract::filter::ConfigProblem, plugin::Plugin};

pub(crate) struct Pool {
    plugin: Plugin,
    lent: Lent,
    /// What each new instance is configured with.
    options: String,
    idle: Mutex<Vec<Instance>>,
}

impl Pool {
    /// Makes the first instance and configures it. Returns the options in force, as the plugin tells them.
    pub(crate) async fn new(
        plugin: Plugin,
        lent: Lent,
        options: String,
    ) -> Result<Result<(Arc<Self>, String), ConfigProblem>, Fault> {
        let mut instance = Instance::new(&plugin, lent.clone()).await?;
        let configured = match instance.configure(&options, lent.log.lowest_wanted()).await? {
            Ok(configured) => configured,
            Err(problem) => return Ok(Err(problem)),
        };
        let pool = Self { plugin, lent, options, idle: Mutex::new(vec![instance]) };
        Ok(Ok((Arc::new(pool), configured.effective)))
    }

    pub(crate) async fn take(&self) -> Result<Instance, Fault> {
        let idle = self.idle.lock().pop();
        if let Some(instance) = idle {
            return Ok(instance);
        }
        let mut instance = Instance::new(&self.plugin, self.lent.clone()).await?;
        // It was accepted once: an instance that refuses it now is one that can't be used.
        match instance.configure(&self.options, self.lent.log.lowest_wanted()).await? {
            Ok(_) => Ok(instance),
            Err(problem) => {
                Err(wasmtime::Error::msg(format!("it refuses its own options: {}", problem.message)).into())
            }
        }
    }

    pub(crate) fn give_back(&self, instance: Instance) {
        if !instance.is_worn() {
            self.idle.lock().push(instance);
        }
    }

    pub(crate) fn lent(&self) -> &Lent {
        &self.lent
    }
}
