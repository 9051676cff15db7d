//! Estimates the number of tokens in a text, independently of any provider.
//!
//! Promises the same number for the same text for ever, because it is stored with each record: another formula would be
//! another version. `bytes-1`: a token for every four bytes of UTF-8, a fifth of the tokens left as reserve, and four
//! for each message. (English comes to about 4.5 characters a token, and Chinese, three bytes a character, to about one.)
//! Base64, hexadecimal digits and emoji take 1.7 to 2.1 times as many tokens as that: whoever has much of them lets the
//! host count.

/// The formula's name.
pub const FORMULA: &str = "bytes-1";

/// What a message weighs beside its texts.
pub const MESSAGE_TOKENS: u64 = 4;

/// What an image weighs, whatever its size.
pub const IMAGE_TOKENS: u64 = 1024;

/// Tokens of so many bytes of text.
pub fn estimate_for_bytes(bytes: usize) -> u64 {
    ((bytes as u64).div_ceil(4) * 5).div_ceil(4)
}

/// Tokens of a text.
pub fn estimate_tokens(text: &str) -> u64 {
    estimate_for_bytes(text.len())
}

/// The most bytes that have no more than so many tokens.
pub fn max_bytes_for(tokens: u64) -> usize {
    usize::try_from((tokens * 4 / 5) * 4).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_fixed() {
        for (bytes, tokens) in [(0, 0), (1, 2), (4, 2), (5, 3), (16, 5), (17, 7), (160, 50), (1 << 20, 327_680)] {
            assert_eq!(estimate_for_bytes(bytes), tokens, "{bytes}");
        }
    }

    #[test]
    fn a_text_cut_to_a_number_of_tokens_has_no_more() {
        for tokens in 0..3000 {
            assert!(estimate_for_bytes(max_bytes_for(tokens)) <= tokens, "{tokens}");
            assert!(estimate_for_bytes(max_bytes_for(tokens) + 4) > tokens.saturating_sub(1), "{tokens}");
        }
    }
}
