//! QEMU's monitor, as programs speak to it (QMP): a question and its answer, and what QEMU tells by itself in between.

use amita_terminal::error::{Context, Failure, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};

/// A connection to a monitor. Whoever opens it says by the stream's time-out how long an answer may take.
pub struct Monitor {
    replies: Box<dyn BufRead + Send>,
    words: Box<dyn Write + Send>,
    events: Vec<Value>,
}

impl Monitor {
    /// Hears the greeting, and asks for QEMU's commands. Both halves are those of one stream.
    ///
    /// # Errors
    /// When it is no QEMU that answers, or nobody does.
    pub fn over(replies: impl Read + Send + 'static, words: impl Write + Send + 'static) -> Result<Monitor> {
        let mut monitor = Monitor {
            replies: Box::new(BufReader::new(replies)),
            words: Box::new(words),
            events: Vec::new(),
        };
        let greeting = monitor.hear()?;
        if !greeting["QMP"].is_object() {
            return Err(Failure::new(format!("this is no greeting of QEMU's: {greeting}")));
        }
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        let heard = self.replies.read_line(&mut line);
        match heard.context(|| "QEMU's monitor does not answer".to_owned())? {
            0 => Err(Failure::new("QEMU's monitor has hung up")),
            _ => serde_json::from_str(&line).context(|| format!("this is no JSON: {line}")),
        }
    }

    /// Has a command carried out; what it returns.
    ///
    /// # Errors
    /// When QEMU refuses it, with its reason, or is gone.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let question = json!({"execute": command, "arguments": arguments});
        // One piece: QEMU reads what comes byte by byte, and a network in between need not.
        let text = format!("{question}\n");
        let sent = self.words.write_all(text.as_bytes());
        sent.context(|| format!("QEMU's monitor does not take {command}"))?;
        loop {
            let mut heard = self.hear()?;
            if heard["event"].is_string() {
                self.events.push(heard);
            } else if heard["error"].is_null() {
                return Ok(heard["return"].take());
            } else {
                return Err(Failure::new(format!("{question}: {}", heard["error"])));
            }
        }
    }

    /// Waits for something that QEMU tells by itself; what was told since the last time counts.
    ///
    /// # Errors
    /// When it does not come before the stream's time-out, or QEMU is gone.
    pub fn told(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            if let Some(place) = self.events.iter().position(&is_it) {
                return Ok(self.events.swap_remove(place));
            }
            let heard = self.hear()?;
            self.events.push(heard);
        }
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
