//! The width of comments: rustfmt leaves them as they are, so the right margin would wander.

use std::path::Path;

use super::sources;

/// What rustfmt wraps code at, as `rustfmt.toml` says.
const WIDTH: usize = 110;

/// Fails with each comment line that is too wide.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut wide = Vec::new();
    for source in sources::read(root, &["rs"])? {
        for (number, line) in source.text.lines().enumerate() {
            if is_wide(line) {
                wide.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    match wide.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "{} comment lines are wider than {WIDTH} columns; `cargo xtask fix` wraps all but code and headings:\n  {}",
            wide.len(),
            wide.join("\n  ")
        )),
    }
}

/// Wraps all comments that are too wide.
pub(crate) fn wrap_all(root: &Path) -> Result<(), String> {
    for source in sources::read(root, &["rs"])? {
        let wrapped = wrap(&source.text);
        if wrapped != source.text {
            let path = root.join(&source.path);
            std::fs::write(&path, wrapped).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Whether a line is a comment and too wide. A row of a table cannot be wrapped.
fn is_wide(line: &str) -> bool {
    Comment::of(line).is_some_and(|comment| !comment.body.trim_start().starts_with('|'))
        && line.chars().count() > WIDTH
}

/// A line that is nothing but a comment.
#[derive(Clone, Copy)]
struct Comment<'a> {
    /// Indentation and slashes.
    start: &'a str,
    /// What is said, with the spaces before it.
    body: &'a str,
}

impl<'a> Comment<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let text = line.trim_start();
        let slashes = ["///", "//!", "//"].into_iter().find(|slashes| text.starts_with(slashes))?;
        let (start, body) = line.split_at(line.len() - text.len() + slashes.len());
        Some(Self { start, body })
    }

    fn is_code_fence(self) -> bool {
        self.body.trim_start().starts_with("```")
    }

    /// Whether the line stands for itself: it is no part of a paragraph.
    fn is_alone(self) -> bool {
        let text = self.body.trim_start();
        text.is_empty() || text.starts_with(['|', '#']) || self.is_code_fence()
    }

    fn is_item(self) -> bool {
        let text = self.body.trim_start();
        let number = text.split_once(". ").is_some_and(|(number, _)| is_number(number));
        number || ["- ", "* "].iter().any(|bullet| text.starts_with(bullet))
    }

    fn spaces(self) -> &'a str {
        &self.body[..self.body.len() - self.body.trim_start().len()]
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text with each paragraph wrapped that has a comment line which is too wide, from that line on.
fn wrap(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    let mut code = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let Some(comment) = Comment::of(line) else {
            code = false;
            out.push(line.to_string());
            at += 1;
            continue;
        };
        if comment.is_code_fence() {
            code = !code;
        }
        if code || comment.is_alone() {
            out.push(line.to_string());
            at += 1;
            continue;
        }
        let paragraph = paragraph(comment, &lines[at..]);
        wrap_paragraph(&paragraph, &mut out);
        at += paragraph.len();
    }
    out.join("\n")
}

/// The comment lines that belong together, the first one included.
fn paragraph<'a>(first: Comment<'a>, lines: &[&'a str]) -> Vec<Comment<'a>> {
    let rest = lines.iter().skip(1).map_while(|line| {
        Comment::of(line).filter(|next| next.start == first.start && !next.is_alone() && !next.is_item())
    });
    std::iter::once(first).chain(rest).collect()
}

fn wrap_paragraph(paragraph: &[Comment<'_>], out: &mut Vec<String>) {
    let line = |comment: &Comment<'_>| format!("{}{}", comment.start, comment.body);
    let wide = paragraph.iter().position(|comment| is_wide(&line(comment))).unwrap_or(paragraph.len());
    out.extend(paragraph[..wide].iter().map(line));
    let Some(first) = paragraph.get(wide) else { return };
    let hanging = match (paragraph.get(1), paragraph[0].is_item()) {
        (Some(second), _) => second.spaces().to_string(),
        (None, true) => format!("{}  ", first.spaces()),
        (None, false) => first.spaces().to_string(),
    };
    let text: Vec<&str> = paragraph[wide..].iter().map(|comment| comment.body.trim()).collect();
    let text = text.join(" ");
    let mut current = format!("{}{}", first.start, first.spaces());
    let mut empty = true;
    for word in words(&text) {
        let fits = current.chars().count() + 1 + word.chars().count() <= WIDTH;
        if !empty && !fits {
            out.push(std::mem::replace(&mut current, format!("{}{hanging}", first.start)));
            empty = true;
        }
        if !empty {
            current.push(' ');
        }
        current.push_str(word);
        empty = false;
    }
    out.push(current);
}

/// The words of a text. Short code between ticks is one word, and what would begin a list or a heading at the
/// start of a line stays with the word before it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut in_code) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'`' => in_code = !in_code,
            b' ' if (!in_code || at - start > 60) && !begins_markup(&text[at + 1..]) => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

fn begins_markup(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    matches!(word, "-" | "*" | "+")
        || word.starts_with(['#', '|', '>'])
        || word.strip_suffix('.').is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_wrapped_from_its_first_wide_line_on() {
        let long = "word ".repeat(24);
        let text = format!("/// Short.\n/// {}\n/// end.\nfn f() {{}}\n", long.trim_end());
        let expected = format!(
            "/// Short.\n/// {}\n/// word word word end.\nfn f() {{}}\n",
            "word ".repeat(21).trim_end()
        );
        assert_eq!(wrap(&text), expected);
        assert_eq!(wrap(&expected), expected);
        assert!(text.lines().any(is_wide) && !expected.lines().any(is_wide));
    }

    #[test]
    fn items_keep_their_indentation_and_code_and_tables_are_left_alone() {
        let long = "word ".repeat(24);
        let long = long.trim_end();
        let text =
            format!("    // - {long}\n    //\n    // ```\n    // {long}\n    // ```\n    // | {long} |\n");
        let wrapped = wrap(&text);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert!(lines[0].starts_with("    // - word") && lines[1].starts_with("    //   word"), "{wrapped}");
        assert!(lines[4].ends_with(long) && lines[6].ends_with("|"), "{wrapped}");
    }

    #[test]
    fn short_code_is_not_torn_and_no_line_begins_as_a_list_would() {
        assert_eq!(words("a `b c` d"), ["a", "`b c`", "d"]);
        let text = format!("// {} - end\n", "x".repeat(105));
        assert_eq!(wrap(&text).lines().count(), 2);
        assert!(!wrap(&text).contains("\n// -"), "{}", wrap(&text));
    }

    #[test]
    fn code_that_is_wide_and_a_comment_behind_code_are_none_of_its_business() {
        assert!(!is_wide(&format!("let x = {}; // a comment", "1 + ".repeat(40))));
    }
}
