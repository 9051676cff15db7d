//! Pictures, as the browser sends them.

/// The bytes of a base64 text.
pub fn from_base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = LETTERS.iter().position(|letter| *letter == byte).unwrap();
        held = held << 6 | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xFF) as u8);
        }
    }
    bytes
}

#[test]
fn base64_is_read() {
    assert_eq!(from_base64("aGVsbG8="), b"hello");
}
