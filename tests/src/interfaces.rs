//! Lists the interfaces of a component or a world with their functions.

use std::collections::BTreeMap;

use wit_component::{DecodedWasm, decode};
use wit_parser::{Resolve, World, WorldId, WorldItem, WorldKey};

/// The functions of each interface, sorted.
pub type Interfaces = BTreeMap<String, Vec<String>>;

/// What a world imports and exports.
#[derive(Debug, PartialEq, Eq)]
pub struct WorldInterfaces {
    pub imports: Interfaces,
    pub exports: Interfaces,
}

impl WorldInterfaces {
    /// Of a component.
    pub fn of_component(component: &[u8]) -> Self {
        let DecodedWasm::Component(resolve, world) = decode(component).unwrap() else { panic!("this is no component") };
        Self::of_world(&resolve, world)
    }

    /// Of a world in WIT.
    pub fn of_world(resolve: &Resolve, world: WorldId) -> Self {
        let World { imports, exports, .. } = &resolve.worlds[world];
        Self { imports: interfaces(resolve, imports), exports: interfaces(resolve, exports) }
    }
}

fn interfaces<'a>(resolve: &Resolve, items: impl IntoIterator<Item = (&'a WorldKey, &'a WorldItem)>) -> Interfaces {
    let of_interface = |(key, item): (&WorldKey, &WorldItem)| {
        let WorldItem::Interface { id, .. } = item else { panic!("this is no interface: {item:?}") };
        let mut functions: Vec<_> = resolve.interfaces[*id].functions.keys().cloned().collect();
        functions.sort_unstable();
        (resolve.name_world_key(key), functions)
    };
    items.into_iter().map(of_interface).collect()
}
