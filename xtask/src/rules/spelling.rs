//! Words that are often written wrongly, in names, comments and documents.
//!
//! A list of our own, since the known tools are either larger than what they check (`typos`), or need another
//! language (`codespell`). It finds what is known to be wrong, and knows nothing of what is right: so it
//! never stands in the way.

use std::collections::HashMap;
use std::path::Path;

use super::sources;

/// A line each: the word as it should not be written, and as it should.
const LIST: &str = include_str!("misspellings.txt");

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let list: HashMap<&str, &str> = LIST.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut mistakes = Vec::new();
    for source in sources::read(root, &["rs", "md", "toml"])? {
        for (number, line) in source.text.lines().enumerate() {
            let found = misspelled(line, &list).into_iter();
            mistakes.extend(
                found.map(|(wrong, right)| {
                    format!("{}:{}: `{wrong}`, for `{right}`", source.path, number + 1)
                }),
            );
        }
    }
    match mistakes.as_slice() {
        [] => Ok(()),
        _ => Err(format!("{} words are misspelled:\n  {}", mistakes.len(), mistakes.join("\n  "))),
    }
}

/// The words of a line that are on the list. Names are taken apart: `snake_case` and `CamelCase` are two
/// words each.
fn misspelled<'a>(line: &str, list: &HashMap<&'a str, &'a str>) -> Vec<(String, &'a str)> {
    let mut found = Vec::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if !c.is_alphabetic() || c.is_uppercase() && word.ends_with(char::is_lowercase) {
            if let Some(right) = list.get(word.to_lowercase().as_str()) {
                found.push((std::mem::take(&mut word), *right));
            }
            word.clear();
        }
        if c.is_alphabetic() {
            word.push(c);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_is_found_in_text_and_within_names() {
        // put together here, or this file would be wrong itself
        let wrong = ["rec", "ieve"].concat();
        let list = HashMap::from([(wrong.as_str(), "receive")]);
        let camel = format!("On{}{}Batch", wrong[..1].to_uppercase(), &wrong[1..]);
        for text in [format!("to {wrong}."), format!("fn {wrong}_batch()"), camel] {
            assert_eq!(misspelled(&text, &list).len(), 1, "{text}");
        }
        assert!(misspelled("receiver", &list).is_empty());
    }

    #[test]
    fn each_line_of_the_list_has_a_wrong_and_a_right_word() {
        for line in LIST.lines() {
            assert!(line.split_once(' ').is_some_and(|(wrong, right)| wrong != right), "{line}");
        }
    }
}
