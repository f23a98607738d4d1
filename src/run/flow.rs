//! Streamed text as lines of a terminal: pure, so that no terminal is needed to try it.
//!
//! Place in the flow: pieces of an answer -> **lines**, and the beginning of the next one -> screen.

/// Text that arrives in pieces cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Flow {
    width: usize,
    partial: String,
}

impl Flow {
    /// Lines of at most so many columns.
    pub(super) fn new(width: usize) -> Self {
        Self { width: width.max(20), partial: String::new() }
    }

    /// Takes a piece and gives the lines that are whole now. Nothing in it moves the cursor.
    pub(super) fn push(&mut self, piece: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for one in piece.chars() {
            match one {
                '\n' => lines.push(self.take()),
                '\r' => {}
                one if one.is_control() => self.partial.push(' '),
                one => self.partial.push(one),
            }
            if console::measure_text_width(&self.partial) > self.width {
                lines.push(self.wrap());
            }
        }
        lines
    }

    /// The widest a line may be.
    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// The line that is not whole yet.
    pub(super) fn partial(&self) -> &str {
        &self.partial
    }

    /// The rest, where there is one.
    pub(super) fn end(&mut self) -> Option<String> {
        Some(self.take()).filter(|rest| !rest.trim().is_empty())
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.partial)
    }

    /// Breaks a line that is too long: at its last space, or before its last character.
    fn wrap(&mut self) -> String {
        let last = self.partial.char_indices().next_back().map_or(0, |(at, _)| at);
        let at = self.partial[..last].rfind(' ').filter(|at| *at > 0).unwrap_or(last);
        let rest = self.partial.split_off(at);
        let rest = rest.strip_prefix(' ').unwrap_or(&rest).to_owned();
        std::mem::replace(&mut self.partial, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(width: usize, pieces: &[&str]) -> Vec<String> {
        let mut flow = Flow::new(width);
        let mut lines: Vec<String> = pieces.iter().flat_map(|piece| flow.push(piece)).collect();
        lines.extend(flow.end());
        lines
    }

    #[test]
    fn text_breaks_at_spaces_and_at_its_own_line_ends() {
        assert_eq!(
            lines(20, &["The order is on its w", "ay.\nIt will", " be there"]),
            ["The order is on its", "way.", "It will be there"]
        );
        assert_eq!(lines(20, &["0123456789012345678901234"]), ["01234567890123456789", "01234"]);
        assert_eq!(
            lines(20, &["物物物物物物物物物物物"]),
            ["物物物物物物物物物物", "物"],
            "two columns each"
        );
    }

    #[test]
    fn nothing_in_the_text_moves_the_cursor() {
        assert_eq!(lines(40, &["a\u{1b}[2Jb\r\u{7}c\td"]), ["a [2Jb c d"]);
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_lines_are_the_same_and_fit(text in "[a-z 物\n]{0,200}", cut in 0_usize..200) {
            let cut = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
            let whole = lines(24, &[&text]);
            prop_assert_eq!(&whole, &lines(24, &[&text[..cut], &text[cut..]]));
            for line in &whole {
                prop_assert!(console::measure_text_width(line) <= 24, "{}", line);
            }
            let letters = |text: &str| text.chars().filter(|one| !one.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&whole.concat()), letters(&text));
        }
    }
}
