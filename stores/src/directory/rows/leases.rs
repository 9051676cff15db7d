//! Leases as rows.

use rusqlite::{OptionalExtension as _, params};

use super::BucketRows;
use crate::{
    LeaseRequest, LeaseState,
    bucket::{LeaseChange, lease_change, lease_state},
    directory::time::{from_column, to_column},
};

impl BucketRows<'_, '_> {
    /// Take, renew or give back a lease, if the request may. Tells how it stands then.
    pub(crate) fn apply_lease(&self, request: &LeaseRequest) -> Result<LeaseState, rusqlite::Error> {
        let found = self.find_lease(&request.name)?;
        let ends_at = to_column(self.at.now_ms.saturating_add(request.milliseconds));
        let change = lease_change(found.as_ref().map(|(holder, _)| &**holder), request);
        self.lease.set(change);
        match change {
            LeaseChange::Taken => {
                // Those that have run out are useless, and only here can their number grow.
                self.prepare_statement("DELETE FROM lease WHERE life = ?1 AND ends_at <= ?2")?
                    .execute([self.life, self.at.now_as_column()])?;
                self.prepare_statement("INSERT INTO lease VALUES (?1, ?2, ?3, ?4)")?.execute(params![
                    self.life,
                    request.name,
                    request.holder,
                    ends_at
                ])?;
            }
            LeaseChange::Renewed => {
                let mut renew =
                    self.prepare_statement("UPDATE lease SET ends_at = ?3 WHERE life = ?1 AND name = ?2")?;
                renew.execute(params![self.life, request.name, ends_at])?;
            }
            LeaseChange::GivenBack => {
                let mut give = self.prepare_statement("DELETE FROM lease WHERE life = ?1 AND name = ?2")?;
                give.execute(params![self.life, request.name])?;
            }
            LeaseChange::Unchanged => {}
        }
        self.lease_state(request)
    }

    /// How a lease stands for its holder.
    pub(crate) fn lease_state(&self, request: &LeaseRequest) -> Result<LeaseState, rusqlite::Error> {
        let found = self.find_lease(&request.name)?;
        let found = found.as_ref().map(|(holder, ends_at)| (&**holder, *ends_at));
        Ok(lease_state(found, &request.holder, self.at.now_ms))
    }

    fn find_lease(&self, name: &str) -> Result<Option<(String, u64)>, rusqlite::Error> {
        let mut lease =
            self.prepare_statement("SELECT holder, ends_at FROM lease WHERE life = ?1 AND name = ?2 AND ends_at > ?3")?;
        lease
            .query_row(params![self.life, name, self.at.now_as_column()], |row| {
                Ok((row.get(0)?, from_column(row.get(1)?)))
            })
            .optional()
    }
}
