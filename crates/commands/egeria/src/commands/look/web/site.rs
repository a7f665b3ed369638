//! The page, its parts, and the documents it asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::history::History;
use super::source::Source;
use super::state::State;
use egeria_cli::failure::Outcome;
use egeria_http::{Answer, Request, Site};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const JSON: &str = "application/json";

/// What is shown now. Clones share it.
#[derive(Clone, Default)]
pub(super) struct LivePage(Arc<Mutex<Shown>>);

#[derive(Default)]
struct Shown {
    state: Vec<u8>,
    history: History,
}

impl LivePage {
    /// Takes in what is new.
    pub(super) fn update(&self, source: &mut Source) -> Outcome {
        let mut windows = History::default();
        let is_new = source.advance(&mut |window| windows.add(window))? > 0;
        let mut shown = self.locked();
        if is_new || shown.state.is_empty() {
            shown.history.append(windows);
            shown.state = serde_json::to_vec(&State::of(&source.view)).unwrap_or_default();
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site for LivePage {
    fn answer(&self, request: &Request<'_>) -> Option<Answer> {
        let page = |kind, text: &str| Answer {
            kind,
            body: text.as_bytes().to_vec(),
        };
        Some(match request.path {
            "/" => page("text/html; charset=utf-8", PAGE),
            "/page.css" => page("text/css; charset=utf-8", STYLE),
            "/page.js" => page("text/javascript; charset=utf-8", SCRIPT),
            "/state" => Answer {
                kind: JSON,
                body: self.locked().state.clone(),
            },
            "/history" => Answer {
                kind: JSON,
                body: serde_json::to_vec(self.locked().history.points()).unwrap_or_default(),
            },
            _ => return None,
        })
    }

    fn hint(&self) -> &'static str {
        "see /, /state and /history"
    }
}
