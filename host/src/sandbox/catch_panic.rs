//! Catches panics of code that is not the library's, and keeps them off standard error.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that may panic, such as the engine's on untrusted bytes.
///
/// # Errors
/// When it panics: the first line of its message.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // The hook belongs to the process and keeps doing what it did: only panics that are caught here don't reach it.
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
    done.map_err(|panic| first_line(&*panic))
}

/// The first line of a panic's message, if it is not too long.
fn first_line(panic: &(dyn Any + Send)) -> String {
    const LONGEST: usize = 200;
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic").lines().next().unwrap_or_default().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_is_an_error_of_one_line_and_later_panics_reach_the_hook() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        assert_eq!(catch_panic(|| panic!("first {}\nsecond", 1)).map(|()| 0), Err("first 1".to_owned()));
        assert!(!IS_CAUGHT.get());
    }
}
