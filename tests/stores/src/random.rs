//! Seeds and numbers of rounds of randomised tests.
//!
//! `KEEPLINE_SEED` repeats a run; without it, each run meets other cases. `KEEPLINE_ROUNDS=10` asks for ten times the
//! usual number of rounds (`make test-long`).

use std::{env, ops::Mul};

/// The seed of this run, printed so that a failure can be repeated.
pub fn seed() -> u64 {
    let seed = number("KEEPLINE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("KEEPLINE_SEED={seed}");
    seed
}

/// The number of rounds to run where an ordinary run has `usual`.
pub fn rounds<N: Mul<Output = N> + From<u16>>(usual: N) -> N {
    usual * factor().into()
}

/// A seed for each round, the first of them [`seed`]. Each is printed as its round begins.
pub fn seeds(usual: usize) -> impl Iterator<Item = u64> {
    (seed()..).take(rounds(usual)).inspect(|seed| println!("KEEPLINE_SEED={seed}"))
}

/// Whether this run has more rounds than usual: then tests leave out nothing that an ordinary run samples.
pub fn is_long() -> bool {
    factor() > 1
}

fn factor() -> u16 {
    number("KEEPLINE_ROUNDS").map_or(1, |factor| u16::try_from(factor).expect("KEEPLINE_ROUNDS is a small factor"))
}

/// What a variable asks for, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}
