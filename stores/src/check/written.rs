//! Collects the places that a transaction writes, and refuses to write one twice.

use std::collections::HashSet;

use super::twice;
use crate::{
    Failure,
    names::{check_map, check_part},
};

/// What the transaction writes so far. A second write to one place would depend on the first, and a
/// store checks everything before its first write.
#[derive(Default)]
pub(super) struct Written<'a> {
    names: Names<'a>,
    /// The map of the last entry: the next one is mostly of the same.
    map: Option<&'a str>,
    resets: bool,
}

impl<'a> Written<'a> {
    pub(super) fn entry(&mut self, map: &'a str, key: &'a str) -> Result<(), Failure> {
        if self.map != Some(map) {
            self.map = Some(map);
            self.names.insert((Place::Map, map, ""));
        }
        let is_reset = self.resets && self.names.has((Place::Reset, map, ""));
        if is_reset || !self.names.insert((Place::Entry, map, key)) {
            return Err(twice("key", key));
        }
        Ok(())
    }

    pub(super) fn whole_map(&mut self, map: &'a str) -> Result<(), Failure> {
        check_map(map)?;
        self.resets = true;
        if !self.names.insert((Place::Reset, map, "")) || self.names.has((Place::Map, map, "")) {
            return Err(twice("map", map));
        }
        Ok(())
    }

    pub(super) fn log(&mut self, name: &'a str) -> Result<(), Failure> {
        check_part("log", name)?;
        if self.names.insert((Place::Log, name, "")) { Ok(()) } else { Err(twice("log", name)) }
    }

    pub(super) fn index(&mut self, name: &'a str) -> Result<(), Failure> {
        check_part("index", name)?;
        if self.names.insert((Place::Index, name, "")) { Ok(()) } else { Err(twice("index", name)) }
    }

    pub(super) fn lease(&mut self, name: &'a str) -> Result<(), Failure> {
        check_part("lease", name)?;
        if self.names.insert((Place::Lease, name, "")) { Ok(()) } else { Err(twice("lease", name)) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Of a map.
    Entry,
    /// One that has entries written.
    Map,
    /// A map as a whole.
    Reset,
    Log,
    Index,
    Lease,
}

/// What it is, its name and, of an entry, its key.
pub(super) type Name<'a> = (Place, &'a str, &'a str);

/// A set of names: a few are searched, and cost no allocation; more are hashed.
#[derive(Default)]
pub(super) struct Names<'a> {
    few: [Option<Name<'a>>; 6],
    many: Option<HashSet<Name<'a>>>,
}

impl<'a> Names<'a> {
    pub(super) fn insert(&mut self, name: Name<'a>) -> bool {
        for place in &mut self.few {
            match place {
                None => {
                    *place = Some(name);
                    return true;
                }
                Some(known) if *known == name => return false,
                Some(_) => {}
            }
        }
        self.many.get_or_insert_default().insert(name)
    }

    fn has(&self, name: Name<'_>) -> bool {
        self.few.contains(&Some(name)) || self.many.as_ref().is_some_and(|many| many.contains(&name))
    }
}
