//! CPU time that a Redis server has used, as it reports it.

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;

/// Microseconds since the server started.
pub struct Used {
    pub scripts: f64,
    pub process: f64,
}

impl Used {
    pub async fn by_now(connection: &mut MultiplexedConnection) -> Result<Self> {
        let info: String = redis::cmd("INFO").arg("commandstats").arg("cpu").query_async(connection).await?;
        let mut used = Self { scripts: 0.0, process: 0.0 };
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            match name {
                "cmdstat_eval" | "cmdstat_evalsha" => {
                    let spent = value.split(',').find_map(|field| field.strip_prefix("usec="));
                    used.scripts += spent.context("INFO commandstats does not tell the time")?.parse::<f64>()?;
                }
                "used_cpu_sys_main_thread" | "used_cpu_user_main_thread" => {
                    used.process += value.parse::<f64>()? * 1e6;
                }
                _ => {}
            }
        }
        Ok(used)
    }
}
