//! Which threads are asked for.

use egeria_facts::ThreadKey;

/// Threads meant by `TID` or `PID/TID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    process_id: Option<u32>,
    thread_id: u32,
}

impl Selection {
    pub(super) fn parse(text: &str) -> Result<Selection, String> {
        let wrong = || format!("{text:?} is no thread; write its id, as 4711, or PID/TID");
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        Ok(match text.split_once('/') {
            Some((process, thread)) => Selection {
                process_id: Some(number(process)?),
                thread_id: number(thread)?,
            },
            None => Selection {
                process_id: None,
                thread_id: number(text)?,
            },
        })
    }

    pub(super) fn holds(&self, key: ThreadKey) -> bool {
        let process = self.process_id.unwrap_or(key.process_id);
        (process, self.thread_id) == (key.process_id, key.thread_id)
    }

    pub(super) fn name(&self) -> String {
        let process = self.process_id.map(|id| format!("{id}/"));
        format!("{}{}", process.unwrap_or_default(), self.thread_id)
    }
}
