//! Cursors of listings and of pages of maps.
//!
//! Redis's own cursors mean something to one server alone, for as long as it runs. So a cursor names its server; another server
//! begins again, and whatever exists all the while is listed at least once.

/// How often the same is read from its beginning again. What answers there may be many servers at a time that
/// differ each time, and a listing has to end.
const MOST_RESTARTS: u8 = 3;

/// Where the next page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanCursor {
    /// Of a listing of buckets.
    pub(super) registry: u16,
    /// Redis's own cursor in it; 0: its beginning.
    pub(super) position: u64,
    /// Whose cursor that is.
    server: u32,
    /// How often this was begun again.
    restarts: u8,
}

impl ScanCursor {
    /// The beginning of a registry.
    pub(super) fn at_start_of(registry: u16) -> Self {
        Self { registry, ..Self::default() }
    }

    /// A foreign cursor begins again.
    pub(super) fn parse_or_start(text: &str) -> Self {
        let read = || {
            let mut parts = text.split('.');
            let (registry, position) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let server = u32::from_str_radix(parts.next()?, 16).ok()?;
            let restarts = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(Self { registry, position, server, restarts })
        };
        read().unwrap_or_default()
    }

    pub(super) fn text(self) -> String {
        format!("{}.{}.{:08x}.{}", self.registry, self.position, self.server, self.restarts)
    }

    /// Whose cursor it is, where another server has to begin again.
    pub(super) fn expected_server(self) -> Option<u32> {
        (self.position != 0 && self.restarts < MOST_RESTARTS).then_some(self.server)
    }

    /// What a server said on being asked with this: where it goes on, who it is, and whether it has begun again. None:
    /// that was the last of it.
    pub(super) fn next_cursor(self, position: u64, server: u32, again: bool) -> Option<Self> {
        let restarts = self.restarts.saturating_add(u8::from(again));
        (position != 0).then_some(Self { position, server, restarts, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_invalid_ones_start_from_the_beginning() {
        let cursor = ScanCursor { registry: 4095, position: u64::MAX, server: 0xf00d, restarts: 3 };
        assert_eq!(ScanCursor::parse_or_start(&cursor.text()), cursor);
        for text in
            ["", "5", ".", "1.2", "a.b.c.d", "1.-1.0.0", "70000.0.0.0", "1.2.3", "1.2.x.0", "1.2.3.4.5", "1.2.3.256"]
        {
            assert_eq!(ScanCursor::parse_or_start(text), ScanCursor::default(), "{text}");
        }
    }
}
