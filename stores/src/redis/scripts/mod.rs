//! All scripts of a store. Transactions have theirs in `transact`.

pub(crate) mod script;

use self::script::Script;
use crate::redis::transact::Transact;

/// All of a store's scripts.
pub(crate) struct Scripts {
    pub(crate) transact: Transact,
    pub(crate) delete: Script,
    pub(crate) list: Script,
    pub(crate) export: Script,
    pub(crate) import: Script,
    pub(crate) remove: Script,
    pub(crate) mark: Script,
    pub(crate) inspect: Script,
}

impl Scripts {
    pub(crate) fn new(most_shapes: usize) -> Self {
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
    use crate::redis::scripts::script::NUMBERS;

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
