//! Panics of the engine end at the library's border, without a word on standard error.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use super::PluginError;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs what calls the engine on somebody else's bytes.
///
/// # Errors
/// When it panics.
pub(super) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, PluginError> {
    static HOOK: Once = Once::new();
    // The hook is the process's, and so is what it did before: only panics that are caught here are kept from it.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(body));
    IS_CAUGHT.set(outer);
    done.map_err(|panic| PluginError::EngineDefect(told(&*panic)))
}

/// The first line of a panic's message, if it is not too long.
fn told(panic: &(dyn Any + Send)) -> String {
    const LONGEST: usize = 200;
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic").lines().next().unwrap_or_default().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_one_line_and_later_panics_are_told_as_before() {
        assert_eq!(caught(|| 1).unwrap(), 1);
        let error = caught(|| panic!("first {}\nsecond", 1)).map(|()| 0).unwrap_err();
        assert!(matches!(&error, PluginError::EngineDefect(told) if told == "first 1"), "{error}");
        assert!(!IS_CAUGHT.get());
    }
}
