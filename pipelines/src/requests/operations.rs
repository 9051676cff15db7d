//! Carries out what is done to definitions: each operation reads the store, applies the rules of the catalog, and writes.

use std::rc::Rc;

use keepline_store_client::{Host, codes};

use crate::{
    catalog::{self, Accepted, CatalogFault, DefinitionKind},
    datasets::Owner,
    definition::{DefinitionLimits, check},
    requests::error::RequestError,
    requests::stored::{
        DefinitionPage, StoredDefinition, get_definitions, page_definitions, put_definition, remove_definition,
    },
    value::{Object, Value},
};

/// Others may write in between so often before an operation that requires no revision gives up.
const TRIES: usize = 16;

/// Names of copies that are looked up at a time.
const NAMES: u64 = 64;

type Outcome<T> = Result<T, RequestError>;

/// An owner's definitions of a kind.
pub struct Definitions<'a, H> {
    pub host: &'a H,
    pub owner: &'a Owner,
    pub kind: DefinitionKind,
    pub limits: &'a DefinitionLimits,
}

impl<H: Host> Definitions<'_, H> {
    /// The definition of this id.
    ///
    /// # Errors
    /// `not_found`, or the store's.
    pub fn get(&self, id: &str) -> Outcome<StoredDefinition> {
        self.find(id)?.ok_or_else(|| CatalogFault::not_found(self.kind, "id", id).into())
    }

    /// Those of these ids, as far as they are there, in the order of ids.
    ///
    /// # Errors
    /// The store's.
    pub fn get_each(&self, ids: &[&str]) -> Outcome<Vec<StoredDefinition>> {
        Ok(get_definitions(self.host, self.owner, self.kind, ids)?)
    }

    /// A page of those with that scope, in no order.
    ///
    /// # Errors
    /// `invalid` for an unknown scope, or the store's.
    pub fn list(&self, scope: Option<&str>, only_active: bool, cursor: &str) -> Outcome<DefinitionPage> {
        // An unknown scope is an error also where nothing is stored.
        catalog::is_listed(&Value::Null, scope, only_active)?;
        let mut page = page_definitions(self.host, self.owner, self.kind, cursor)?;
        page.definitions
            .retain(|stored| catalog::is_listed(&stored.form, scope, only_active).is_ok_and(|is_listed| is_listed));
        Ok(page)
    }

    /// Store a definition. `revision`: what has to be there, 0 for nothing; none: whatever is there.
    ///
    /// # Errors
    /// `exists` or `conflict` where another is there, or the store's.
    pub fn put(&self, definition: &Accepted, revision: Option<u64>) -> Outcome<StoredDefinition> {
        self.change(&definition.id, revision, |_| Ok(definition.clone()))
    }

    /// Replace top-level members of a stored definition.
    ///
    /// # Errors
    /// `not_found`, `invalid`, `conflict`, or the store's.
    pub fn update(&self, id: &str, changes: &Value, revision: Option<u64>) -> Outcome<StoredDefinition> {
        self.change(id, revision, |before| {
            let before = before.ok_or_else(|| CatalogFault::not_found(self.kind, "id", id))?;
            catalog::update(self.kind, &before.form, changes, self.limits)
        })
    }

    /// Store a definition once more, under another id; none: one that is free.
    ///
    /// # Errors
    /// `not_found`; `invalid` or `exists` at `new_id`; or the store's.
    pub fn duplicate(&self, id: &str, new_id: Option<&str>) -> Outcome<StoredDefinition> {
        let stored = self.get(id)?;
        for _ in 0..TRIES {
            let name = match new_id {
                Some(name) => name.to_owned(),
                None => self.free_name(id)?,
            };
            match self.put(&catalog::duplicate(self.kind, &stored.form, &name, self.limits)?, Some(0)) {
                // The name that was free is not any more.
                Err(RequestError::Fault(fault)) if fault.code == "exists" && new_id.is_none() => {}
                Err(RequestError::Fault(fault)) if fault.code == "exists" => {
                    return Err(CatalogFault { path: "new_id".into(), ..fault }.into());
                }
                done => return done,
            }
        }
        Err(raced(id))
    }

    /// The first of `X-copy`, `X-copy-2`, and so on, that is free.
    fn free_name(&self, id: &str) -> Outcome<String> {
        for batch in 0..TRIES as u64 {
            let names: Vec<_> = (1..=NAMES).map(|number| catalog::copy_name(id, batch * NAMES + number)).collect();
            let taken = self.get_each(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
            if let Some(free) = names.into_iter().find(|name| taken.iter().all(|stored| *stored.id != **name)) {
                return Ok(free);
            }
        }
        Err(CatalogFault::new("exists", "id", format!("there are too many copies of {id}: name the new one")).into())
    }

    /// Remove a definition. The revision that it had.
    ///
    /// # Errors
    /// `not_found`, `conflict`, or the store's.
    pub fn remove(&self, id: &str, revision: Option<u64>) -> Outcome<u64> {
        for _ in 0..TRIES {
            let before = self.get(id)?;
            self.require(Some(&before), id, revision)?;
            match remove_definition(self.host, self.owner, self.kind, &before) {
                Ok(()) => return Ok(before.revision),
                Err(problem) if problem.code == codes::CONFLICT => {}
                Err(problem) => return Err(problem.into()),
            }
        }
        Err(raced(id))
    }

    /// What a caller has to bring for these memories: variables by scope, and required additional variables.
    ///
    /// # Errors
    /// `not_found` at the id, `invalid`, or the store's.
    pub fn required_variables(&self, ids: &[&str]) -> Outcome<(Object, Vec<Rc<str>>)> {
        let stored = if ids.is_empty() { Vec::new() } else { self.get_each(ids)? };
        let mut definitions = Vec::new();
        for (position, id) in ids.iter().enumerate() {
            let found = stored.iter().find(|stored| *stored.id == **id);
            let path = format!("ids[{position}]");
            let found = found.ok_or_else(|| CatalogFault::not_found(self.kind, &path, id))?;
            definitions.push(Rc::new(check(&found.form, self.limits).accept()?));
        }
        Ok(catalog::required_variables(&definitions))
    }

    fn find(&self, id: &str) -> Outcome<Option<StoredDefinition>> {
        Ok(get_definitions(self.host, self.owner, self.kind, &[id])?.pop())
    }

    /// Whether what is there is what has to be there.
    fn require(&self, found: Option<&StoredDefinition>, id: &str, revision: Option<u64>) -> Result<(), CatalogFault> {
        let is_there = found.map_or(0, |found| found.revision);
        match revision {
            Some(0) if is_there > 0 => Err(CatalogFault::exists(self.kind, "id", id)),
            Some(wanted) if wanted != is_there => {
                let message = format!("revision {wanted} of {id} is required, and {is_there} is there");
                Err(CatalogFault::new("conflict", "revision", message))
            }
            _ => Ok(()),
        }
    }

    fn change(
        &self,
        id: &str,
        revision: Option<u64>,
        make: impl Fn(Option<&StoredDefinition>) -> Result<Accepted, CatalogFault>,
    ) -> Outcome<StoredDefinition> {
        for _ in 0..TRIES {
            let before = self.find(id)?;
            self.require(before.as_ref(), id, revision)?;
            let accepted = make(before.as_ref())?;
            match put_definition(self.host, self.owner, self.kind, id, &accepted.form, before.as_ref()) {
                Err(problem) if problem.code == codes::CONFLICT => {}
                done => return Ok(done?),
            }
        }
        Err(raced(id))
    }
}

fn raced(id: &str) -> RequestError {
    CatalogFault::new("conflict", "id", format!("others kept writing {id}")).into()
}
