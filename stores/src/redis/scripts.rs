//! All the scripts of a store.

use super::{script::Script, transact::Transact};

/// All of a store's scripts.
pub(super) struct Scripts {
    pub(super) transact: Transact,
    pub(super) delete: Script,
    pub(super) list: Script,
    pub(super) export: Script,
    pub(super) import: Script,
    pub(super) remove: Script,
    pub(super) mark: Script,
    pub(super) inspect: Script,
}

impl Scripts {
    pub(super) fn new(most_shapes: usize) -> Self {
        Self {
            transact: Transact::new(most_shapes),
            delete: Script::new(include_str!("delete.lua")),
            list: Script::new(include_str!("list.lua")),
            export: Script::new(include_str!("export.lua")),
            import: Script::new(include_str!("import.lua")),
            remove: Script::new(include_str!("remove.lua")),
            mark: Script::new(include_str!("mark.lua")),
            inspect: Script::new(include_str!("inspect.lua")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::script::NUMBERS;

    #[test]
    fn every_fragment_and_number_of_a_script_is_known() {
        let Scripts { transact, delete, list, export, import, remove, mark, inspect } = Scripts::new(1);
        for script in [&transact.general, &delete, &list, &export, &import, &remove, &mark, &inspect] {
            assert!(!script.text().contains("--@"), "{}", script.text());
            for (name, _) in NUMBERS {
                assert!(!script.text().contains(name), "{name}");
            }
        }
    }
}
