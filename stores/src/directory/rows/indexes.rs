//! Indexes as rows: each a field of a segment, see [`crate::index::segments`].

use rusqlite::{CachedStatement, OptionalExtension as _, params};

use super::{BucketRows, PartKind, PartState};
use crate::{
    AddDocumentsStep, FoundDocuments, IndexExtent, ReadMarksStep, RemoveDocumentsStep, SearchStep,
    directory::{
        error::TransactionError,
        time::{TransactionContext, from_column, to_column},
    },
    index::{
        self, HitCollector, SEGMENT, check_above,
        segments::{self, IndexField, MARK, OCCURRENCE, SoughtTerms},
    },
    transfer::NamedKeys,
};

/// Places of a segment.
pub(crate) const PLACES: u64 = 512;

impl IndexField {
    /// Where its row is.
    pub(crate) fn row_place(self) -> i64 {
        let own = self.shard.map_or(0, |shard| 1 + u64::from(shard));
        to_column(self.segment.saturating_mul(PLACES).saturating_add(own))
    }

    /// The field of a row.
    pub(crate) fn from_row_place(place: u64) -> Self {
        let shard = (place % PLACES).checked_sub(1).and_then(|shard| u8::try_from(shard).ok());
        Self { segment: place / PLACES, shard }
    }
}

impl PartState {
    pub(super) fn index_extent(self) -> IndexExtent {
        IndexExtent { next: self.first, documents: self.length, occurrences: self.terms }
    }
}

const FIELD: &str = "SELECT bytes FROM segment WHERE idx = ?1 AND place = ?2";

impl BucketRows<'_, '_> {
    pub(crate) fn index_extent(&self, index: &str) -> Result<IndexExtent, rusqlite::Error> {
        Ok(self.load_part(PartKind::Index, index)?.index_extent())
    }

    pub(crate) fn add_documents(&self, step: &AddDocumentsStep) -> Result<(), TransactionError> {
        let mut part = self.load_part(PartKind::Index, &step.index)?;
        check_above(step, part.first)?;
        if step.documents.is_empty() {
            return Ok(());
        }
        let id = *part.id.get_or_insert_with(|| to_column(self.at.next_stamp()));
        // What `||` makes is a text, of the same bytes.
        let mut append = self.prepare_statement(
            "INSERT INTO segment VALUES (?1, ?2, ?3) ON CONFLICT (idx, place) DO UPDATE
             SET bytes = CAST(bytes || excluded.bytes AS BLOB)",
        )?;
        for (field, bytes) in segments::appended_fields(&step.documents) {
            append.execute(params![id, field.row_place(), bytes])?;
        }
        part.first = index::next_after(step, part.first);
        part.length = part.length.saturating_add(step.documents.len() as u64);
        part.terms += step.documents.iter().map(|document| document.terms.len() as u64).sum::<u64>();
        self.set_part(PartKind::Index, &step.index, part);
        Ok(())
    }

    pub(crate) fn remove_documents(&self, step: &RemoveDocumentsStep) -> Result<(), TransactionError> {
        let mut part = self.load_part(PartKind::Index, &step.index)?;
        let Some(id) = part.id else { return Ok(()) };
        let mut field = self.prepare_statement(FIELD)?;
        let mut all =
            self.prepare_statement("SELECT place, bytes FROM segment WHERE idx = ?1 AND place > ?2 AND place < ?3")?;
        let mut put = self.prepare_statement("UPDATE segment SET bytes = ?3 WHERE idx = ?1 AND place = ?2")?;
        let mut remove = self.prepare_statement("DELETE FROM segment WHERE idx = ?1 AND place = ?2")?;
        let mut change = |changed: IndexField, bytes: &[u8]| {
            if bytes.is_empty() {
                remove.execute(params![id, changed.row_place()])
            } else {
                put.execute(params![id, changed.row_place(), bytes])
            }
        };
        for runs in index::group_into_runs(&step.positions).chunk_by(|one, other| one.segment == other.segment) {
            let Some(segment) = runs.first().map(|run| run.segment) else { continue };
            let marks = IndexField { segment, shard: None };
            let Some(mut bytes) = read_field_bytes(&mut field, id, marks)? else { continue };
            let documents = segments::remove_runs(&mut bytes, MARK, runs);
            if documents == 0 {
                continue;
            }
            change(marks, &bytes)?;
            part.length = part.length.saturating_sub(documents);
            // Their terms may be in any of the shards.
            let shards = all
                .query_map(params![id, marks.row_place(), marks.row_place() + to_column(PLACES)], |row| {
                    Ok((IndexField::from_row_place(from_column(row.get(0)?)), row.get(1)?))
                })?;
            for (field, mut bytes) in shards.collect::<Result<Vec<(IndexField, Vec<u8>)>, _>>()? {
                let terms = segments::remove_runs(&mut bytes, OCCURRENCE, runs);
                part.terms = part.terms.saturating_sub(terms);
                if terms > 0 {
                    change(field, &bytes)?;
                }
            }
        }
        self.set_part(PartKind::Index, &step.index, part);
        Ok(())
    }

    /// All indexes that hold something, with the names of their fields; both sorted.
    pub(crate) fn indexes(&self) -> Result<Vec<NamedKeys>, rusqlite::Error> {
        let mut all = self.prepare_statement("SELECT name, id FROM part WHERE life = ?1 AND form = 2 ORDER BY name")?;
        let all = all.query_map([self.life], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut indexes = Vec::new();
        for (name, id) in all.collect::<Result<Vec<(String, i64)>, _>>()? {
            let mut fields = Vec::new();
            self.at.each_field(id, |field, _| fields.push(field.name().into_bytes()))?;
            fields.sort_unstable();
            if !fields.is_empty() {
                indexes.push((name.into_bytes(), fields));
            }
        }
        Ok(indexes)
    }

    /// The bytes of a field, if there is one of that name.
    pub(crate) fn field_named(&self, index: &str, name: &str) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        match (self.load_part(PartKind::Index, index)?.id, IndexField::from_name(name)) {
            (Some(id), Some(field)) => read_field_bytes(&mut self.prepare_statement(FIELD)?, id, field),
            _ => Ok(None),
        }
    }

    /// Set a field of an index that is there, and count what is in it.
    pub(crate) fn put_field(&self, index: &str, field: IndexField, bytes: &[u8]) -> Result<(), rusqlite::Error> {
        let mut part = self.load_part(PartKind::Index, index)?;
        let Some(id) = part.id else { return Ok(()) };
        // It may come twice.
        let before = read_field_bytes(&mut self.prepare_statement(FIELD)?, id, field)?.map_or(0, |before| before.len());
        let (count, width) = match field.shard {
            None => (&mut part.length, MARK),
            Some(_) => (&mut part.terms, OCCURRENCE),
        };
        *count = count.saturating_add((bytes.len() / width) as u64).saturating_sub((before / width) as u64);
        self.set_part(PartKind::Index, index, part);
        let mut put = self.prepare_statement("INSERT OR REPLACE INTO segment VALUES (?1, ?2, ?3)")?;
        put.execute(params![id, field.row_place(), bytes])?;
        Ok(())
    }

    /// Segments are read from the newest on, until they are more than a transaction may read.
    pub(crate) fn search(&self, step: &SearchStep) -> Result<FoundDocuments, rusqlite::Error> {
        let part = self.load_part(PartKind::Index, &step.index)?;
        let mut hits = HitCollector::new(part.index_extent(), step);
        let Some(id) = part.id else { return Ok(hits.finish()) };
        let sought = SoughtTerms::new(&step.terms);
        let mut read = Vec::new();
        let mut field = self.prepare_statement(FIELD)?;
        for segment in (hits.oldest_position() / SEGMENT..part.first.div_ceil(SEGMENT)).rev() {
            let shard = |shard| read_field_bytes(&mut field, id, IndexField { segment, shard: Some(shard) });
            let shards = sought.shards().map(shard).collect::<Result<Vec<_>, _>>()?;
            let bytes: usize = shards.iter().flatten().map(Vec::len).sum();
            read.push((segment, shards));
            self.searched_bytes.set(self.searched_bytes.get().saturating_sub(bytes as u64));
            if self.searched_bytes.get() == 0 {
                hits.begin_at(segment.saturating_mul(SEGMENT));
                break;
            }
        }
        read.iter().rev().for_each(|(segment, shards)| sought.collect_segment(*segment, shards, &mut hits));
        self.with_marks(id, hits.finish())
    }

    pub(crate) fn read_marks(&self, step: &ReadMarksStep) -> Result<FoundDocuments, rusqlite::Error> {
        let part = self.load_part(PartKind::Index, &step.index)?;
        let found = index::marks_to_read(part.index_extent(), step);
        match part.id {
            Some(id) => self.with_marks(id, found),
            None => Ok(found),
        }
    }

    /// Fills the marks of the runs in.
    fn with_marks(&self, id: i64, mut found: FoundDocuments) -> Result<FoundDocuments, rusqlite::Error> {
        let mut field = self.prepare_statement(FIELD)?;
        for segment in segments::marked_segments(&found) {
            if let Some(marks) = read_field_bytes(&mut field, id, IndexField { segment, shard: None })? {
                segments::collect_marks(segment, &marks, &mut found);
            }
        }
        Ok(found)
    }
}

impl TransactionContext<'_> {
    /// All fields of an index.
    pub(crate) fn each_field(&self, id: i64, mut see: impl FnMut(IndexField, &[u8])) -> Result<(), rusqlite::Error> {
        let mut all = self.db.prepare_cached("SELECT place, bytes FROM segment WHERE idx = ?1 ORDER BY place")?;
        let mut rows = all.query([id])?;
        while let Some(row) = rows.next()? {
            see(IndexField::from_row_place(from_column(row.get(0)?)), row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}

fn read_field_bytes(
    statement: &mut CachedStatement<'_>,
    id: i64,
    field: IndexField,
) -> Result<Option<Vec<u8>>, rusqlite::Error> {
    statement.query_row(params![id, field.row_place()], |row| row.get(0)).optional()
}
