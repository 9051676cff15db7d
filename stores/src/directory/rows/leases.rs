//! Leases as rows.

use rusqlite::{OptionalExtension as _, params};

use super::BucketRows;
use crate::{
    LeaseOperation, LeaseState,
    bucket::{LeaseChange, lease_change, lease_state},
    directory::time::{from_column, to_column},
};

impl BucketRows<'_, '_> {
    /// Take, renew or give back a lease, if the step may.
    pub(crate) fn apply_lease(&self, step: &LeaseOperation) -> Result<(), rusqlite::Error> {
        let found = self.find_lease(&step.lease)?;
        let ends_at = to_column(self.at.now_ms.saturating_add(step.milliseconds));
        match lease_change(found.as_ref().map(|(holder, _)| &**holder), step) {
            LeaseChange::Taken => {
                // Those that have run out are useless, and only here can their number grow.
                self.prepare_statement("DELETE FROM lease WHERE life = ?1 AND ends_at <= ?2")?
                    .execute([self.life, self.at.now_as_column()])?;
                self.prepare_statement("INSERT INTO lease VALUES (?1, ?2, ?3, ?4)")?.execute(params![
                    self.life,
                    step.lease,
                    step.holder,
                    ends_at
                ])?;
                self.count_lease(1, 0);
            }
            LeaseChange::Renewed => {
                let mut renew =
                    self.prepare_statement("UPDATE lease SET ends_at = ?3 WHERE life = ?1 AND name = ?2")?;
                renew.execute(params![self.life, step.lease, ends_at])?;
            }
            LeaseChange::GivenBack => {
                let mut give = self.prepare_statement("DELETE FROM lease WHERE life = ?1 AND name = ?2")?;
                give.execute(params![self.life, step.lease])?;
                self.count_lease(0, 1);
            }
            LeaseChange::Unchanged => {}
        }
        Ok(())
    }

    /// How a lease stands for its holder.
    pub(crate) fn lease_state(&self, step: &LeaseOperation) -> Result<LeaseState, rusqlite::Error> {
        let found = self.find_lease(&step.lease)?;
        let found = found.as_ref().map(|(holder, ends_at)| (&**holder, *ends_at));
        Ok(lease_state(found, &step.holder, self.at.now_ms))
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
