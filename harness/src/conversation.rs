//! The conversation in wire fragments: each message is encoded once, stored once, and hashed once.
//!
//! Place in the flow: the driver extends it before each request and takes the body from it. Encoding and storing
//! are linear in the run; only the body as sent repeats the whole, because the wire demands it. Where the provider
//! stores its answers, the body bears only what was said since the last of them.

use crate::model::{Frame, Wire};
use std::borrow::Cow;
use trace::context::Chain;
use trace::id::Hash;
use trace::message::{Message, Role};
use trace::tape::{Recorder, TapeError};

/// A wire fragment, as sent and as kept.
#[derive(Debug)]
struct Fragment {
    sent: String,
    /// The redacted text, where it differs.
    kept: Option<String>,
}

impl AsRef<str> for Fragment {
    fn as_ref(&self) -> &str {
        &self.sent
    }
}

/// What one request adds to the conversation.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) parent: Option<Hash>,
    pub(crate) fragments: Vec<Hash>,
    pub(crate) head: Hash,
    pub(crate) depth: u32,
}

/// The conversation of one run on one wire.
#[derive(Debug)]
pub(crate) struct Conversation {
    frame: Frame,
    kept_frame: Option<Frame>,
    frame_hash: Hash,
    fragments: Vec<Fragment>,
    chain: Chain,
    messages: usize,
    /// The stored answer that the next request goes on from.
    stored: Option<String>,
    /// How many fragments there are up to the last answer.
    answered: usize,
}

impl Conversation {
    /// Starts with the frame, which is the same for all requests of a run.
    pub(crate) fn new(frame: Frame, recorder: &mut dyn Recorder) -> Result<Self, TapeError> {
        let stored = frame.stored();
        let kept = recorder.redactor().text(&stored).into_owned();
        let frame_hash = recorder.blob(stored.as_bytes())?;
        let kept_frame = if kept == stored { None } else { Frame::from_stored(&kept) };
        Ok(Self {
            frame,
            kept_frame,
            frame_hash,
            fragments: Vec::new(),
            chain: Chain::default(),
            messages: 0,
            stored: None,
            answered: 0,
        })
    }

    /// Encodes and stores the messages that are new since the last call.
    pub(crate) fn extend(
        &mut self,
        wire: &dyn Wire,
        messages: &[&Message],
        recorder: &mut dyn Recorder,
    ) -> Result<Added, TapeError> {
        let parent = self.chain.head();
        let mut hashes = Vec::new();
        for message in messages.get(self.messages..).unwrap_or_default() {
            for sent in wire.fragments(message) {
                let kept = match recorder.redactor().text(&sent) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(kept) => Some(kept),
                };
                let hash = recorder.blob(sent.as_bytes())?;
                self.chain.push(hash);
                hashes.push(hash);
                self.fragments.push(Fragment { sent, kept });
            }
            if message.role == Role::Assistant {
                self.answered = self.fragments.len();
            }
        }
        self.messages = messages.len();
        Ok(Added {
            parent,
            fragments: hashes,
            head: self.chain.head().unwrap_or_else(|| Hash::new([0; 32])),
            depth: u32::try_from(self.chain.depth()).unwrap_or(u32::MAX),
        })
    }

    /// Begins anew: what is shown next does not follow what was shown before.
    pub(crate) fn restart(&mut self) {
        self.fragments.clear();
        self.chain = Chain::default();
        self.messages = 0;
        self.stored = None;
    }

    /// The provider stored its answer under this id; `None` where it did not, so that everything is said again.
    pub(crate) fn stored(&mut self, response_id: Option<String>) {
        self.stored = response_id;
    }

    /// The stored answer that the next request goes on from.
    pub(crate) fn previous_response_id(&self) -> Option<&str> {
        self.stored.as_deref()
    }

    pub(crate) fn frame_hash(&self) -> Hash {
        self.frame_hash
    }

    /// The body as sent.
    pub(crate) fn body(&self) -> Vec<u8> {
        self.framed(&self.frame, &self.fragments)
    }

    /// The body as kept, which is the body as sent unless something in it was redacted.
    pub(crate) fn kept<'a>(&self, sent: &'a [u8]) -> Cow<'a, [u8]> {
        if self.kept_frame.is_none() && self.fragments.iter().all(|fragment| fragment.kept.is_none()) {
            return Cow::Borrowed(sent);
        }
        let kept: Vec<&str> = self
            .fragments
            .iter()
            .map(|fragment| fragment.kept.as_deref().unwrap_or(&fragment.sent))
            .collect();
        Cow::Owned(self.framed(self.kept_frame.as_ref().unwrap_or(&self.frame), &kept))
    }

    fn framed(&self, frame: &Frame, fragments: &[impl AsRef<str>]) -> Vec<u8> {
        match &self.stored {
            None => frame.body(fragments),
            Some(id) => frame.body_after(id, fragments.get(self.answered..).unwrap_or_default()),
        }
    }
}
