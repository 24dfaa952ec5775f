//! Server-sent events (HTML Living Standard, section 9.2.6), as they come.

/// The longest line, and the longest message, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// What it says; empty: only where one is.
    pub data: String,
    /// By which whoever comes again is told what came behind it.
    pub id: Option<String>,
}

/// What has come of a message that is not at its end.
#[derive(Debug, Default)]
pub(super) struct Messages {
    line: Vec<u8>,
    begun: Message,
}

impl Messages {
    /// The messages that are at their ends with these bytes.
    ///
    /// # Errors
    /// A line or a message is too long, or no text.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Message>, String> {
        let mut ended = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > MAX_BYTES {
                    return Err(format!("a line of the stream is longer than {MAX_BYTES} bytes"));
                }
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.line));
            let line = line.map_err(|_| "a line of the stream is no text".to_owned())?;
            ended.extend(self.line(line.strip_suffix('\r').unwrap_or(&line))?);
        }
        Ok(ended)
    }

    fn line(&mut self, line: &str) -> Result<Option<Message>, String> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.begun);
            return Ok((message != Message::default()).then_some(message));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if !self.begun.data.is_empty() {
                    self.begun.data.push('\n');
                }
                self.begun.data.push_str(value);
                if self.begun.data.len() > MAX_BYTES {
                    return Err(format!("a message of the stream is longer than {MAX_BYTES} bytes"));
                }
            }
            "id" => self.begun.id = Some(value.to_owned()),
            // Comments say that somebody is there; other fields are for browsers.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        let text = ": here\n\nid: 7\n\ndata: {\"a\":\r\ndata: 1}\nid:8\nretry: 5\n\ndata: no end";
        let whole = Messages::default().take(text.as_bytes()).expect("messages");
        let message = |data: &str, id: &str| Message {
            data: data.to_owned(),
            id: Some(id.to_owned()),
        };
        assert_eq!(whole, [message("", "7"), message("{\"a\":\n1}", "8")]);
        for step in 1..8 {
            let mut messages = Messages::default();
            let pieces = text.as_bytes().chunks(step);
            let cut: Vec<Message> = pieces
                .flat_map(|piece| messages.take(piece).expect("messages"))
                .collect();
            assert_eq!(cut, whole, "{step}");
        }
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        let mut messages = Messages::default();
        let piece = vec![b'x'; MAX_BYTES];
        messages.take(&piece).expect("it may end");
        assert!(messages.take(b"x").is_err());
        let mut messages = Messages::default();
        let line = format!("data: {}\n", "x".repeat(MAX_BYTES / 2));
        messages.take(line.as_bytes()).expect("one");
        assert!(
            messages
                .take(line.as_bytes())
                .and_then(|_| messages.take(line.as_bytes()))
                .is_err()
        );
        assert!(Messages::default().take(b"data: \xff\n").is_err());
    }
}
