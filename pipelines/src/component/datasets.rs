//! Exports what is done to data sets.

use keepline_store_client::{Problem, component::imports::Imports};

use super::{configuration::Component, convert::unknown};
use crate::{
    component::bindings::exports::keepline::pipelines::datasets::{Dataset, Guest, Item, ItemPage, ItemsChanged},
    datasets::{self, Collection, DataItem, DataKind, Owner},
    value::Value,
};

fn place(dataset: Dataset) -> Result<(Owner, DataKind, Collection), Box<Problem>> {
    let Dataset { owner, kind, name, namespace } = dataset;
    let kind = DataKind::from_name(&kind).ok_or_else(|| unknown("dataset.kind", &kind, &DataKind::names()))?;
    Ok((owner.try_into()?, kind, Collection { name, namespace }))
}

impl From<datasets::ItemsChanged> for ItemsChanged {
    fn from(datasets::ItemsChanged { added, changed }: datasets::ItemsChanged) -> Self {
        Self { added, changed }
    }
}

impl Guest for Component {
    fn put(dataset: Dataset, items: Vec<Item>) -> Result<ItemsChanged, Problem> {
        let (owner, kind, collection) = place(dataset)?;
        let mut parsed = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            let value = Value::parse_input(&item.text)
                .map_err(|error| Problem::invalid(&format!("items[{position}]"), error))?;
            parsed.push(DataItem { id: item.id.into(), value });
        }
        Ok(datasets::put_items(&Imports, &owner, kind, &collection, &parsed)?.into())
    }

    fn find(dataset: Dataset, cursor: String, limit: u32) -> Result<ItemPage, Problem> {
        let (owner, kind, collection) = place(dataset)?;
        let page = datasets::list_items(&Imports, &owner, kind, &collection, &cursor, limit)?;
        let item = |item: DataItem| Item { id: item.id.to_string(), text: item.value.to_json() };
        Ok(ItemPage { items: page.items.into_iter().map(item).collect(), cursor: page.cursor })
    }

    fn remove(dataset: Dataset, ids: Vec<String>) -> Result<ItemsChanged, Problem> {
        let (owner, kind, collection) = place(dataset)?;
        let ids: Vec<_> = ids.into_iter().map(Into::into).collect();
        Ok(datasets::remove_items(&Imports, &owner, kind, &collection, &ids)?.into())
    }
}
