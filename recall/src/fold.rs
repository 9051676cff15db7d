//! Folds letters: lower case, without accents.
//!
//! By ranges and not by the tables of the standard library, which would take 12 KB of the component.

/// The letters from U+00C0 to U+017F, as they are without accents.
const LATIN: &str = "\
    aaaaaaaceeeeiiiidnoooooxouuuuytsaaaaaaaceeeeiiiidnoooooxouuuuytyaaaaaaccccccccddddeeeeeeeeeegggg\
    gggghhhhiiiiiiiiiiiijjkkkllllllllllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

/// What stands for a letter: in lower case, and of Latin ones the base; none for a combining accent.
pub(crate) fn fold_letter(letter: char) -> Option<char> {
    let code = u32::from(letter);
    let folded = match code {
        0..0x80 => return Some(letter.to_ascii_lowercase()),
        0xC0..0x180 => return LATIN.as_bytes().get(code as usize - 0xC0).map(|letter| char::from(*letter)),
        0x300..0x370 => return None,
        // Greek: letters with an accent, and the sigma at the end of a word.
        0x386 | 0x3AC => 0x3B1,
        0x388 | 0x3AD => 0x3B5,
        0x389 | 0x3AE => 0x3B7,
        0x38A | 0x390 | 0x3AA | 0x3AF | 0x3CA => 0x3B9,
        0x38C | 0x3CC => 0x3BF,
        0x38E | 0x3AB | 0x3B0 | 0x3CB | 0x3CD => 0x3C5,
        0x38F | 0x3CE => 0x3C9,
        0x391..=0x3A9 => code + 0x20,
        0x3C2 => 0x3C3,
        // Cyrillic.
        0x400..=0x40F => code + 0x50,
        0x410..=0x42F => code + 0x20,
        0x4C1..=0x4CE => code + code % 2,
        // Armenian.
        0x531..=0x556 => code + 0x30,
        0x1A0 | 0x1AF => code + 1,
        // Where a small letter follows each capital: Latin of Africa and Vietnam, and more Cyrillic.
        0x1CD..=0x1DC => code + code % 2,
        0x1DE..=0x233 | 0x460..=0x52F | 0x1E00..=0x1EFF => code | 1,
        _ => code,
    };
    char::from_u32(folded)
}

/// Whether a letter is a capital.
pub(crate) fn is_capital(letter: char) -> bool {
    let code = u32::from(letter);
    match code {
        0..0x80 => letter.is_ascii_uppercase(),
        0xC0..=0xDE => true,
        0xDF..=0xFF | 0x138 | 0x390 | 0x3AC..=0x3CE => false,
        0x139..=0x148 | 0x179..=0x17E => code % 2 == 1,
        0x100..0x180 => code.is_multiple_of(2),
        _ => fold_letter(letter).is_some_and(|folded| folded != letter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        text.chars().filter_map(fold_letter).collect()
    }

    #[test]
    fn case_and_accents_do_not_matter() {
        for (text, expected) in [
            ("ÀÉÎÕÜßÿŁŽſ", "aeiousylzs"),
            ("e\u{301}", "e"),
            ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
            ("ЁЖИК", "ёжик"),
            ("ՀԱՅ", "հայ"),
            ("NGƯỜI", "người"),
            ("猫かनि", "猫かनि"),
        ] {
            assert_eq!(folded(text), expected, "{text}");
        }
    }

    #[test]
    fn capitals_are_recognised_as_unicode_defines_them() {
        let known = (0..0x180).chain(0x386..0x3CF).chain(0x400..0x460).chain(0x531..0x590);
        for letter in known.filter_map(char::from_u32).filter(|letter| letter.is_alphabetic()) {
            assert_eq!(is_capital(letter), letter.is_uppercase(), "{letter}");
        }
    }
}
