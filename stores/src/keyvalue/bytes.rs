//! Numbers and texts as bytes: small numbers take one byte, and part ids that were made one after the other take few.

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a part id by its distance from the one before.
pub(super) fn put_id(out: &mut Vec<u8>, before: &mut u64, id: u64) {
    let distance = id.wrapping_sub(*before).cast_signed();
    put_number(out, ((distance << 1) ^ (distance >> 63)).cast_unsigned());
    *before = id;
}

/// Reads what was put, from the front. `None` everywhere: these bytes are not what they should be.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// A number of things each of which takes at least a byte.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    pub(super) fn id(&mut self, before: &mut u64) -> Option<u64> {
        let coded = self.number()?;
        let distance = (coded >> 1).cast_signed() ^ -((coded & 1).cast_signed());
        *before = before.wrapping_add(distance.cast_unsigned());
        Some(*before)
    }

    /// Whether everything has been read.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_ids_are_read_as_they_were_put() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let ids = [u64::MAX, 0, 7, 6, 1 << 62, 5];
        let (mut out, mut before) = (Vec::new(), 0);
        numbers.iter().for_each(|number| put_number(&mut out, *number));
        put_text(&mut out, "é".as_bytes());
        ids.iter().for_each(|id| put_id(&mut out, &mut before, *id));
        let (mut reader, mut before) = (Reader::new(&out), 0);
        assert_eq!(numbers.map(|_| reader.number().unwrap()), numbers);
        assert_eq!(reader.text().unwrap(), "é");
        assert_eq!(ids.map(|_| reader.id(&mut before).unwrap()), ids);
        assert!(reader.is_done() && reader.byte().is_none());
    }

    #[test]
    fn ids_made_one_after_the_other_take_a_byte() {
        let (mut out, mut before) = (Vec::new(), 41);
        (42..52).for_each(|id| put_id(&mut out, &mut before, id));
        assert_eq!(out.len(), 10);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        assert_eq!(Reader::new(&[0x80; 20]).number(), None);
        assert_eq!(Reader::new(&[200, 1, 0]).count(), None);
        assert_eq!(Reader::new(&[2, 0xff, 0xff]).text(), None);
    }
}
