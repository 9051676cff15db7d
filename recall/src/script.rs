//! What must be known of the world's scripts: which are written without spaces, and what belongs to the character
//! before it.

/// Whether `c` is of a script that is written without spaces: Han, kana, Thai, Lao, Myanmar, Khmer.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3005..=0x3007 | 0x3040..=0x30FF
        | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xA9E0..=0xA9FF | 0xAA60..=0xAA7F | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F | 0x1AFF0..=0x1B16F | 0x20000..=0x3FFFF)
}

/// Whether `c` extends the character before it: combining marks, vowel signs, joiners, selectors, skin tones. Rare
/// scripts are left out, for the full table would be larger than the rest of this crate.
pub(crate) fn extends(c: char) -> bool {
    match u32::from(c) {
        // The Indic blocks have the same plan, 128 code points each.
        code @ 0x0900..=0x0DFF => {
            matches!(code & 0x7F, 0x00..=0x03 | 0x3A..=0x3C | 0x3E..=0x4F | 0x51..=0x57 | 0x62..=0x63)
        }
        code => matches!(code,
            0x0300..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x05BF..=0x05C7 | 0x0610..=0x061A | 0x064B..=0x065F
            | 0x0670 | 0x06D6..=0x06DC | 0x06DF..=0x06E4 | 0x06E7..=0x06ED | 0x0E31 | 0x0E33..=0x0E3A
            | 0x0E47..=0x0E4E | 0x0EB1 | 0x0EB3..=0x0EBC | 0x0EC8..=0x0ECE | 0x0F71..=0x0F87 | 0x0F8D..=0x0FBC
            | 0x102B..=0x103E | 0x1056..=0x1059 | 0x1160..=0x11FF | 0x17B4..=0x17D3 | 0x1AB0..=0x1AFF
            | 0x1DC0..=0x1DFF | 0x200C..=0x200D | 0x20D0..=0x20FF | 0x302A..=0x302F | 0x3099..=0x309A
            | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F | 0xFF9E..=0xFF9F | 0x1F3FB..=0x1F3FF | 0xE0020..=0xE007F
            | 0xE0100..=0xE01EF),
    }
}

/// Whether a text may be cut between these two characters.
pub(crate) fn may_part(before: char, after: char) -> bool {
    let flags = |c| matches!(u32::from(c), 0x1F1E6..=0x1F1FF);
    // After a joiner, a virama or a coeng comes the other half of a conjunct. A row of flags is kept together: which
    // two letters make a flag shows only from its beginning.
    let binds = match u32::from(before) {
        0x200D | 0x17D2 | 0x1039 => true,
        code @ 0x0900..=0x0DFF => code & 0x7F == 0x4D,
        _ => false,
    };
    !(extends(after) || binds || (before == '\r' && after == '\n') || (flags(before) && flags(after)))
}
