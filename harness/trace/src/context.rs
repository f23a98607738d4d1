//! The conversation as a chain: `node = H(parent, fragment)`.
//!
//! Place in the flow: the driver encodes new messages into wire fragments and extends the chain; a model call on
//! the tape stores one head. So two conversations share their common prefix, equal heads mean equal
//! conversations, and "where do two contexts part?" compares ids, not texts.

use crate::id::Hash;

/// The chain of one conversation, growing at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    nodes: Vec<Hash>,
}

impl Chain {
    /// Adds a fragment and returns the new head.
    pub fn push(&mut self, fragment: Hash) -> Hash {
        let head = node(self.head(), fragment);
        self.nodes.push(head);
        head
    }

    /// The newest node; `None` for an empty conversation.
    #[must_use]
    pub fn head(&self) -> Option<Hash> {
        self.nodes.last().copied()
    }

    /// How many fragments there are.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.nodes.len()
    }

    /// How many fragments two conversations share at their start.
    #[must_use]
    pub fn shared(&self, other: &Self) -> usize {
        // A node covers all before it, so the common prefix can be found by halving.
        let end = self.depth().min(other.depth());
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.nodes[middle] == other.nodes[middle] {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// What stands for the parent of the first fragment.
const ROOT: Hash = Hash::new([0; 32]);

/// The node of a fragment after a parent.
#[must_use]
pub fn node(parent: Option<Hash>, fragment: Hash) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(parent.unwrap_or(ROOT).bytes());
    hasher.update(fragment.bytes());
    Hash::new(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(texts: &[u8]) -> Chain {
        let mut chain = Chain::default();
        for text in texts {
            chain.push(Hash::of(&[*text]));
        }
        chain
    }

    proptest! {
        #[test]
        fn conversations_part_where_their_fragments_part(a in "[ab]{0,12}", b in "[ab]{0,12}") {
            let expected = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(chain(a.as_bytes()).shared(&chain(b.as_bytes())), expected);
        }

        #[test]
        fn equal_heads_mean_equal_conversations(a in "[ab]{0,6}", b in "[ab]{0,6}") {
            prop_assert_eq!(chain(a.as_bytes()).head() == chain(b.as_bytes()).head(), a == b);
        }
    }
}
