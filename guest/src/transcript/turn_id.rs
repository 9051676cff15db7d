//! Ids of turns, and of messages that were given none.

/// An id for a turn: no two turns of a session have the same, unless the same was asked of the same conversation in the
/// same microsecond.
pub(crate) fn new_turn_id(micros: u64, next: u64, text: &str) -> String {
    // FNV-1a.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{micros:x}-{next:x}-{hash:x}")
}

/// Where a turn of this id began, or shortly before that. None: the id is none of ours.
pub(crate) fn begins_about(turn: &str) -> Option<u64> {
    let mut parts = turn.split('-');
    let (_, next, _) = (parts.next()?, parts.next()?, parts.next()?);
    u64::from_str_radix(next, 16).ok().filter(|next| *next < 1 << 53)
}

/// The key of a message that was given no id.
pub(crate) fn fallback_message_key(turn: &str) -> String {
    ["t-", turn].concat()
}
