//! Lines from a pipe that gives them in any portions: no byte is lost, and no piece is longer than allowed.

use std::io;

use crate::run::feed::{InputPiece, LineReader};

/// Gives portions of lengths that the input itself tells.
struct Portions<'a> {
    lengths: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    rest: &'a [u8],
}

impl io::Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = self.lengths.next().map_or(1, |length| usize::from(*length).max(1));
        let length = wanted.min(self.rest.len()).min(buffer.len());
        let (portion, rest) = self.rest.split_at(length);
        buffer[..length].copy_from_slice(portion);
        self.rest = rest;
        Ok(length)
    }
}

pub fn holds(data: &[u8]) {
    let [max_line, a, b, c, input @ ..] = data else { return };
    let (max_line, lengths) = (usize::from(*max_line), [*a, *b, *c]);
    let portions = Portions { lengths: lengths.iter().cycle(), rest: input };
    let mut reader = LineReader::new(portions, max_line);
    let mut told = Vec::new();
    let mut is_inside = false;
    loop {
        let batch = reader.read_batch().unwrap();
        if batch.is_empty() {
            break;
        }
        for piece in batch {
            let (bytes, goes_on) = match &piece {
                InputPiece::Line(bytes) => {
                    assert!(!is_inside && bytes.len() <= max_line);
                    assert!(bytes.iter().position(|byte| *byte == b'\n').is_none_or(|at| at + 1 == bytes.len()));
                    (bytes, false)
                }
                InputPiece::TooLong(bytes) => {
                    assert!(!is_inside && bytes.len() > max_line);
                    (bytes, true)
                }
                InputPiece::Continuation(bytes) => {
                    assert!(is_inside);
                    (bytes, true)
                }
            };
            assert!(!bytes.is_empty() && bytes.len() == piece.len());
            // One more portion than is allowed may have been taken.
            assert!(bytes.len() <= max_line + 255);
            is_inside = goes_on && bytes.last() != Some(&b'\n');
            told.extend_from_slice(bytes);
        }
    }
    assert_eq!(told, input);
}
