//! What fits on a page of less than 100 KB: the beginning and the end, with a gap that says how much is left out.
//!
//! Place in the flow: the run page, whose rows and messages have no natural limit. Why a run ended is at its end,
//! what it was about at its beginning; the middle gives way. Pure.

/// A list that was cut in its middle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fit<T> {
    pub(super) head: Vec<T>,
    /// How many were left out between head and tail.
    pub(super) hidden: usize,
    pub(super) tail: Vec<T>,
}

/// Keeps what weighs no more than `budget`: a third of it from the beginning, the rest from the end.
pub(super) fn fit<T>(mut items: Vec<T>, weight: impl Fn(&T) -> usize, budget: usize) -> Fit<T> {
    let weights: Vec<usize> = items.iter().map(weight).collect();
    if weights.iter().sum::<usize>() <= budget {
        return Fit { head: items, hidden: 0, tail: Vec::new() };
    }
    let head = taken(weights.iter(), budget / 3);
    let tail = taken(weights[head..].iter().rev(), budget - budget / 3);
    let kept = items.split_off(items.len() - tail);
    let hidden = items.len() - head;
    items.truncate(head);
    Fit { head: items, hidden, tail: kept }
}

fn taken<'a>(weights: impl Iterator<Item = &'a usize>, budget: usize) -> usize {
    weights
        .scan(0_usize, |sum, weight| {
            *sum += weight;
            (*sum <= budget).then_some(())
        })
        .count()
}

/// Bytes that a text takes on a page once it is escaped.
pub(super) fn weight(text: &str) -> usize {
    text.bytes().map(|byte| if matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'') { 5 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_gives_way_and_the_gap_is_counted() {
        let all: Vec<usize> = (1..=10).collect();
        assert_eq!(fit(all.clone(), |_| 1, 10), Fit { head: all.clone(), hidden: 0, tail: vec![] });
        assert_eq!(fit(all.clone(), |_| 1, 6), Fit { head: vec![1, 2], hidden: 4, tail: vec![7, 8, 9, 10] });
        assert_eq!(fit(all, |_| 100, 6), Fit { head: vec![], hidden: 10, tail: vec![] });
        assert_eq!(weight("<a>"), 11);
    }
}
