//! Cuts texts into passages that are found and shown one by one.

/// A longer text is cut into passages of at most so many tokens. In longer ones less is found: neighbours do what a long
/// passage would.
pub const PASSAGE_TOKENS: usize = 70;

/// A text, or the rest of one, that has no more tokens stays whole: of two passages one would be a scrap, and whatever needs
/// the text needs both.
pub const WHOLE_TOKENS: usize = 93;

const PASSAGE_BYTES: usize = PASSAGE_TOKENS * 4;
const WHOLE_BYTES: usize = WHOLE_TOKENS * 4;

/// How many tokens a text is taken for: a quarter of its bytes, rounded up. A character of scripts without spaces has
/// three bytes, which is about what it takes in tokens as well.
pub fn count_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// Cut a text into passages of at most [`PASSAGE_TOKENS`], at the ends of sentences and lines, the last of which may have up
/// to [`WHOLE_TOKENS`]. Short sentences are glued; a sentence that is too long is cut at a space, or else between two
/// characters; and where so many of them belong together, such as marks on one letter, within those.
///
/// The passages are parts of the text in its order, trimmed, none of them blank; nothing but white space is left out.
/// Cost: linear in the text.
pub fn cut_passages(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let passage;
        text = text.trim_start();
        (passage, text) = text.split_at_checked(end(text))?;
        (!passage.is_empty()).then(|| passage.trim_end())
    })
}

/// Where the first passage of a text ends that begins with no white space.
fn end(text: &str) -> usize {
    if text.len() <= WHOLE_BYTES {
        return text.len();
    }
    // The last chance of each kind.
    let (mut sentence, mut space, mut any, mut last) = (0, 0, 0, 0);
    let (mut after_stop, mut first_half, mut joined) = (false, false, false);
    for (at, character) in text.char_indices() {
        if at > PASSAGE_BYTES {
            break;
        }
        last = at;
        let second_half = half_a_flag(character) && first_half;
        if at > 0 && !joins(character) && !second_half && !joined {
            any = at;
        }
        first_half = half_a_flag(character) && !first_half;
        // Also what a subscript sign of Khmer or Myanmar puts below.
        joined = matches!(u32::from(character), ZERO_WIDTH_JOINER | 0x1039 | 0x17D2);
        if character.is_whitespace() {
            space = at;
            if after_stop || character == '\n' {
                sentence = at;
            }
        }
        match character {
            '.' | '!' | '?' | '…' => after_stop = true,
            // A stop that no space follows.
            '。' | '！' | '？' | '｡' | '।' | '॥' | '؟' | '۔' | '။' | '។' => {
                sentence = at + character.len_utf8();
                after_stop = true;
            }
            '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' | '』' | '）' | '*' | '_' => {}
            _ => after_stop = false,
        }
    }
    let end = if sentence > 0 && sentence <= PASSAGE_BYTES {
        sentence
    } else if space > 0 {
        space
    } else if any > 0 {
        any
    } else {
        last
    };
    if end > 0 { end } else { text.len() }
}

/// Whether a character belongs to the one before it: the marks and vowel signs of scripts that a cut between characters
/// is to be expected of, and what joins emoji.
fn joins(character: char) -> bool {
    match u32::from(character) {
        // Indic scripts, whose blocks are laid out alike.
        code @ 0x900..0xE00 => matches!(code & 0x7F, 0..=3 | 0x3C | 0x3E..=0x4D | 0x62 | 0x63),
        code => matches!(
            code,
            0x300..=0x36F
                | 0xE31 | 0xE33..=0xE3A | 0xE47..=0xE4E
                | 0xEB1 | 0xEB3..=0xEBC | 0xEC8..=0xECE
                | 0x102B..=0x103E | 0x1056..=0x1060 | 0x17B4..=0x17D3
                | ZERO_WIDTH_JOINER | 0x3099 | 0x309A | 0xFE00..=0xFE0F | 0x1F3FB..=0x1F3FF | 0xE0020..=0xE007F
        ),
    }
}

const ZERO_WIDTH_JOINER: u32 = 0x200D;

/// Two of them are a flag.
fn half_a_flag(character: char) -> bool {
    matches!(u32::from(character), 0x1F1E6..=0x1F1FF)
}
