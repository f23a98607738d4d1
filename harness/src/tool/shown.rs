//! What the model is shown of a long result: its head and its tail, with a mark between.

use std::borrow::Cow;

/// The text, cut to about `most` characters if it is longer. The whole is kept on the tape.
#[must_use]
pub fn shown(text: &str, most: usize) -> Cow<'_, str> {
    // Bytes are at least characters, so a short text is known to be short without counting.
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let length = text.chars().count();
    if length <= most {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (most * 2 / 3, most - most * 2 / 3);
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    let left_out = length - head - tail;
    Cow::Owned(format!(
        "{}\n[... {left_out} of {length} characters left out ...]\n{}",
        &text[..at(head)],
        &text[at(length - tail)..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_result_keeps_head_and_tail_and_says_what_is_missing() {
        let text = format!("{}{}", "a".repeat(50), "z".repeat(50));
        insta::assert_snapshot!(shown(&text, 9), @r"
        aaaaaa
        [... 91 of 100 characters left out ...]
        zzz
        ");
    }

    proptest! {
        #[test]
        fn it_never_splits_a_character_and_never_touches_a_short_text(text in "\\PC{0,60}", most in 0_usize..70) {
            let cut = shown(&text, most);
            if text.chars().count() <= most {
                prop_assert_eq!(cut.as_ref(), text.as_str());
            } else {
                prop_assert!(cut.contains("characters left out"));
            }
        }
    }
}
