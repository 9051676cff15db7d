//! Texts whose words are as often as those of a language: the n-th most frequent one n times less often than the first.

use fastrand::Rng;
use serde_json::json;

const VOCABULARY: u32 = 100_000;
/// Words of a message, which is a passage of some 45 tokens.
const MESSAGE: usize = 25;
/// Words of a sentence of some 60 tokens, which is a passage of its own.
const SENTENCE: usize = 35;
const QUESTION: usize = 8;
/// Questions don't ask for what is said all the time.
const FREQUENT: u32 = 20;
/// Four letters are a word's stem: 26^4 of them.
const STEMS: u32 = 456_976;
/// Seconds from one message to the next.
const PAUSE: usize = 60;
const BEGAN: usize = 1_700_000_000;

/// The same words for the same seed.
pub struct Words(Rng);

impl Words {
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// The n-th one, as a message to be put in a transcript.
    pub fn message(&mut self, number: usize) -> String {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        let content = self.words(MESSAGE, 0);
        json!({"role": role, "content": content, "at": BEGAN + number * PAUSE}).to_string()
    }

    pub fn question(&mut self) -> String {
        self.words(QUESTION, FREQUENT)
    }

    /// So many sentences, each a passage.
    pub fn answer(&mut self, sentences: usize) -> String {
        let sentences: Vec<String> = (0..sentences).map(|_| self.words(SENTENCE, 0) + ".").collect();
        sentences.join(" ")
    }

    fn words(&mut self, count: usize, least: u32) -> String {
        let words: Vec<String> = (0..count).map(|_| spelt(self.rank(least))).collect();
        words.join(" ")
    }

    /// Evenly distributed on a logarithmic scale, so that each is as likely as its rank says.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to the number of words")]
    fn rank(&mut self, least: u32) -> u32 {
        let least = f64::from(least.max(1));
        (least * (f64::from(VOCABULARY) / least).powf(self.0.f64())) as u32
    }
}

/// A word with a stem of its own.
fn spelt(rank: u32) -> String {
    let mut number = rank.wrapping_mul(7919) % STEMS;
    let mut word = String::with_capacity(6);
    for _ in 0..4 {
        word.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
        number /= 26;
    }
    word + "en"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_have_distinct_stems_and_frequent_words_occur_more_often() {
        let stems: BTreeSet<String> = (1..=VOCABULARY).map(|rank| spelt(rank)[..4].to_owned()).collect();
        assert_eq!(stems.len(), VOCABULARY as usize);
        let mut words = Words::new(7);
        let ranks: Vec<u32> = (0..10_000).map(|_| words.rank(0)).collect();
        let below = |rank: u32| ranks.iter().filter(|other| **other < rank).count();
        assert!((4_500..5_500).contains(&below(316)) && below(10) > below(VOCABULARY) / 6);
        assert_eq!(Words::new(3).question(), Words::new(3).question());
    }
}
