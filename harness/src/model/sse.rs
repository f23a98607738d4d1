//! Server-sent events from bytes that are cut anywhere.
//!
//! Place in the flow: transport chunk -> [`SseParser`] -> [`SseEvent`] -> stream decoder of a wire. Lines end in
//! LF, CRLF or CR; comments and unknown fields are skipped; a cut may fall inside a line ending or a character.
//!
//! Source: WHATWG HTML, section "Server-sent events". One difference: an event that the stream ends in without
//! its empty line is kept by [`SseParser::finish`], because some servers leave that line out.

/// Largest event that is taken in, in bytes: a bound on memory, far above any real event.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty where the stream gave none.
    pub name: String,
    /// The `data` fields, joined by line feeds.
    pub data: String,
}

/// An event longer than the parser takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct EventTooLong {
    /// The bound that was passed.
    pub limit: usize,
}

/// Cuts a byte stream into events.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    line: Vec<u8>,
    after_cr: bool,
    first_line: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseParser {
    /// A parser that refuses events longer than `limit` bytes.
    #[must_use]
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
        }
    }

    /// Takes the next bytes and returns the events they complete.
    ///
    /// # Errors
    /// Where an event grows past the limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.extend_line(rest)?;
                break;
            };
            self.extend_line(&rest[..end])?;
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The event that the stream ended in, if it had begun one.
    #[must_use]
    pub fn finish(mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(EventTooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let whole = std::mem::take(&mut self.line);
        let mut line = whole.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => self.name = value.to_vec(),
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            // A comment (empty name), `id`, `retry` or a field of the future.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| SseEvent { name: text(&name), data: text(&data) })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STORY: &str = ": hello\r\nevent: greeting\r\ndata: Grüße\r\ndata:  aus 東京 🚀\r\n\r\n\
                         id: 7\ndata\ndata: {\"a\":1}\n\n\rdata:last\r\rretry: 3\n\nevent: alone\n\ndata: tail";

    fn parse(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events: Vec<_> = pieces.iter().flat_map(|piece| parser.push(piece).expect("small")).collect();
        events.extend(parser.finish());
        events
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn every_kind_of_line_ending_comment_and_field_is_understood() {
        let expected = [
            event("greeting", "Grüße\n aus 東京 🚀"),
            event("", "\n{\"a\":1}"),
            event("", "last"),
            event("", "tail"),
        ];
        assert_eq!(parse(&[STORY.as_bytes()]), expected);
    }

    #[test]
    fn a_stream_fed_byte_by_byte_gives_the_same_events() {
        let single: Vec<&[u8]> = STORY.as_bytes().chunks(1).collect();
        assert_eq!(parse(&single), parse(&[STORY.as_bytes()]));
    }

    #[test]
    fn every_cut_into_two_gives_the_same_events() {
        for at in 0..=STORY.len() {
            let (left, right) = STORY.as_bytes().split_at(at);
            assert_eq!(parse(&[left, right]), parse(&[STORY.as_bytes()]), "cut at {at}");
        }
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_no_part_of_the_first_field() {
        assert_eq!(parse(&[b"\xef\xbb", b"\xbfdata: x\n\n"]), [event("", "x")]);
    }

    #[test]
    fn an_event_past_the_limit_is_an_error_and_not_memory() {
        let mut parser = SseParser::with_limit(16);
        parser.push(b"data: 12345\n").expect("fits");
        assert_eq!(parser.push(b"data: 123456789"), Err(EventTooLong { limit: 16 }));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_parse_alike(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200),
            size in 1_usize..9,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(parse(&pieces), parse(&[&bytes]));
        }
    }
}
