//! What the loopback provider does with one request: what it says, and how badly it behaves while saying it.
//!
//! Place in the flow: a script gives a [`Play`] for each request; [`crate::server`] performs it.

use harness::model::scripted::ScriptTurn;
use std::time::Duration;
use trace::message::Response;

/// An answer with the manner of its delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Play {
    /// What is said.
    pub turn: ScriptTurn,
    /// Where the body is cut into pieces.
    pub cuts: Cuts,
    /// Pause before each piece.
    pub pause: Duration,
    /// Breaks the connection after so many bytes of the body, without its proper end.
    pub break_after_bytes: Option<usize>,
    /// Falls silent after so many bytes of the body, keeping the connection open.
    pub stall_after_bytes: Option<usize>,
}

/// Where a body is cut into pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cuts {
    /// One piece for each event; one for an answer that is not streamed.
    Events,
    /// Pieces of this many bytes.
    Every(usize),
    /// Before these offsets, ascending.
    At(Vec<usize>),
}

impl<T: Into<ScriptTurn>> From<T> for Play {
    fn from(turn: T) -> Self {
        let (cuts, pause) = (Cuts::Events, Duration::ZERO);
        Self { turn: turn.into(), cuts, pause, break_after_bytes: None, stall_after_bytes: None }
    }
}

impl Play {
    /// A well-behaved answer.
    #[must_use]
    pub fn answer(response: Response) -> Self {
        ScriptTurn::Answer(response).into()
    }

    /// An error status with this body, and `retry-after` in seconds where one is given.
    #[must_use]
    pub fn status(status: u16, body: impl Into<String>, retry_after_s: Option<u64>) -> Self {
        let headers = retry_after_s
            .map(|seconds| ("retry-after".to_owned(), seconds.to_string()))
            .into_iter()
            .collect();
        ScriptTurn::Raw { status, headers, body: body.into() }.into()
    }

    /// The same, cut elsewhere.
    #[must_use]
    pub fn cut(self, cuts: Cuts) -> Self {
        Self { cuts, ..self }
    }

    /// The same, slower.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// The same, but the connection breaks after so many bytes.
    #[must_use]
    pub fn break_after(self, bytes: usize) -> Self {
        Self { break_after_bytes: Some(bytes), ..self }
    }

    /// The same, but silence falls after so many bytes.
    #[must_use]
    pub fn stall_after(self, bytes: usize) -> Self {
        Self { stall_after_bytes: Some(bytes), ..self }
    }
}

/// The body's pieces, as cut.
#[must_use]
pub fn pieces(events: &[String], cuts: &Cuts) -> Vec<Vec<u8>> {
    let whole = || events.concat().into_bytes();
    match cuts {
        Cuts::Events => events.iter().map(|event| event.clone().into_bytes()).collect(),
        Cuts::Every(bytes) => whole().chunks((*bytes).max(1)).map(<[u8]>::to_vec).collect(),
        Cuts::At(offsets) => {
            let body = whole();
            let mut edges: Vec<usize> = offsets.iter().map(|offset| (*offset).min(body.len())).collect();
            edges.insert(0, 0);
            edges.push(body.len());
            edges.windows(2).map(|edge| body[edge[0]..edge[1].max(edge[0])].to_vec()).collect()
        }
    }
}

/// The pieces up to a number of bytes; whether that left something out.
#[must_use]
pub fn first_bytes(pieces: Vec<Vec<u8>>, limit: usize) -> (Vec<Vec<u8>>, bool) {
    let total: usize = pieces.iter().map(Vec::len).sum();
    let mut left = limit;
    let kept = pieces
        .into_iter()
        .map(|mut piece| {
            piece.truncate(left);
            left -= piece.len();
            piece
        })
        .take_while(|piece| !piece.is_empty())
        .collect();
    (kept, limit < total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let events = ["data: a\n\n".to_owned(), "data: b\n\n".to_owned()];
        for cuts in [Cuts::Events, Cuts::Every(1), Cuts::Every(0), Cuts::At(vec![3, 12, 99])] {
            assert_eq!(pieces(&events, &cuts).concat(), events.concat().into_bytes(), "{cuts:?}");
        }
        assert_eq!(pieces(&events, &Cuts::At(vec![3])).len(), 2);
    }

    #[test]
    fn the_first_bytes_are_told_from_the_whole() {
        let body = || vec![b"abc".to_vec(), b"def".to_vec()];
        assert_eq!(first_bytes(body(), 4), (vec![b"abc".to_vec(), b"d".to_vec()], true));
        assert_eq!(first_bytes(body(), 6), (body(), false));
        assert_eq!(first_bytes(body(), 0), (vec![], true));
    }
}
