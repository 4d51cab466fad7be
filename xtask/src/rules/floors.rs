//! The floors of a crate: which of its modules may use which.
//!
//! A crate that has floors lists them in a table at the head of its `lib.rs`, the highest first; its header
//! begins with `| floor |`, and the first cell of each row names the modules of that floor. A module may use
//! those on the floors below its own, and neither one above nor its neighbours. So no circle of files crosses
//! a floor, and the table stays true.
//!
//! What is read are the paths that begin with `crate` or `super`, in `use` and elsewhere; comments and texts
//! are left out.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Arrows that go up and are known. Each has a reason, and one that is gone must be taken off the list.
const KNOWN: [Known; 0] = [];

struct Known {
    package: &'static str,
    uses: &'static str,
    why: &'static str,
}

/// A path in a file, from the crate's root on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference {
    line: usize,
    path: Vec<String>,
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// A module that the table does not name.
    Unlisted { module: String },
    /// A path whose first name is no module of the table.
    Unknown { line: usize, path: String },
    /// An arrow that goes up, or to a neighbour.
    Up { line: usize, from: String, path: String },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlisted { module } => write!(f, " `{module}` is not in the table of floors in lib.rs"),
            Self::Unknown { line, path } => write!(
                f,
                "{line}: `crate::{path}` begins with no module of the table of floors in lib.rs: name the module that it lies in"
            ),
            Self::Up { line, from, path } => write!(
                f,
                "{line}: `{from}` uses `{path}`, which is not on a floor below: see the table of floors in lib.rs"
            ),
        }
    }
}

/// Checks every crate of the workspace that has a table of floors.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut faults = Vec::new();
    let mut used = [false; KNOWN.len()];
    let packages = entries(&root.join("crates"))?;
    for package in packages {
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = package.join("src");
        let Ok(head) = fs::read_to_string(source.join("lib.rs")) else { continue };
        let floors = floors(&head);
        if floors.is_empty() {
            continue;
        }
        let mut files = Vec::new();
        sources(&source, &mut files)?;
        for file in files {
            let module = module_of(file.strip_prefix(&source).unwrap_or(&file));
            if module.is_empty() {
                continue;
            }
            let found = references(&read(&file)?, &module);
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            for fault in faults_of(&floors, &module, &found) {
                let known = KNOWN.iter().position(|known| {
                    known.package == name && matches!(&fault, Fault::Up { path, .. } if path == known.uses)
                });
                match known {
                    Some(known) => used[known] = true,
                    None => faults.push(format!("{shown}:{fault}")),
                }
            }
        }
    }
    for (Known { package, uses, why }, _) in KNOWN.iter().zip(used).filter(|(_, used)| !used) {
        faults.push(format!(
            "`{uses}` in {package} is known as an arrow that goes up ({why}), and none does: take it off the list in {}",
            file!()
        ));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// What is in a folder, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .map_err(failed)?;
    entries.sort();
    Ok(entries)
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in entries(folder)? {
        if entry.is_dir() {
            sources(&entry, files)?;
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
    Ok(())
}

/// The module that a file below `src` holds; nothing for the root of the crate.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] || module == ["main"] {
        module.pop();
    }
    module
}

/// The modules of each floor, the highest first; nothing if `lib.rs` has no table of floors.
fn floors(head: &str) -> Vec<Vec<String>> {
    let docs = head.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let rows = docs.skip_while(|line| !line.starts_with("| floor |")).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix('|')?.split_once('|'));
    // every second piece stands between backticks
    rows.map(|(names, _)| names.split('`').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

fn faults_of(floors: &[Vec<String>], module: &[String], references: &[Reference]) -> Vec<Fault> {
    let floor = |module: &str| floors.iter().position(|floor| floor.iter().any(|name| name == module));
    let Some(own) = floor(&module[0]) else {
        return vec![Fault::Unlisted { module: module[0].clone() }];
    };
    let mut faults = Vec::new();
    for Reference { line, path } in references {
        let Some(first) = path.first().filter(|first| **first != module[0]) else { continue };
        let (line, path) = (*line, path.join("::"));
        match floor(first) {
            None => faults.push(Fault::Unknown { line, path }),
            Some(theirs) if theirs <= own => {
                faults.push(Fault::Up { line, from: module[0].clone(), path });
            }
            Some(_) => {}
        }
    }
    faults
}

/// A piece of source text: a name, `::`, or another character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Colons,
    Other(char),
}

/// The tokens outside of comments and texts, each with its line.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        let len = match skipped {
            Some(len) => len,
            None if first.is_alphanumeric() || first == '_' => {
                let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                tokens.push((line, Token::Name(&rest[..len])));
                len
            }
            None if rest.starts_with("::") => {
                tokens.push((line, Token::Colons));
                2
            }
            None => {
                if !first.is_whitespace() {
                    tokens.push((line, Token::Other(first)));
                }
                first.len_utf8()
            }
        };
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

/// The length of the comment that the text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    Some(at)
}

/// The length of the literal text or character that the text begins with.
fn literal(text: &str) -> Option<usize> {
    let body = text.strip_prefix('b').unwrap_or(text);
    let prefix = text.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = prefix + 1 + hashes + 1;
            return Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()));
        }
    }
    let quote = body.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    if quote == '\'' {
        // a lifetime has no second quote behind its first character
        let mut characters = body[1..].chars();
        let first = characters.next()?;
        if first != '\\' && characters.next() != Some('\'') {
            return None;
        }
    }
    let (mut at, mut escaped) = (prefix + 1, false);
    for byte in &text.as_bytes()[prefix + 1..] {
        at += 1;
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if char::from(*byte) == quote => break,
            _ => {}
        }
    }
    Some(at)
}

/// All paths of a file that begin with `crate` or `super`, from the crate's root on.
fn references(text: &str, module: &[String]) -> Vec<Reference> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    // modules inside of the file that are open, with the depth of braces at which each began
    let (mut inner, mut depth): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| tokens[before].1);
        match tokens[at].1 {
            Token::Name("mod") => {
                if let [(_, Token::Name(name)), (_, Token::Other('{')), ..] = &tokens[at + 1..] {
                    inner.push((name.to_string(), depth));
                }
            }
            Token::Other('{') => depth += 1,
            Token::Other('}') => {
                depth = depth.saturating_sub(1);
                if inner.last().is_some_and(|(_, began)| *began == depth) {
                    inner.pop();
                }
            }
            Token::Name("crate") if before != Some(Token::Other('$')) => {
                at = tree(&tokens, at + 1, &mut Vec::new(), &mut found);
                continue;
            }
            Token::Name("super") if before != Some(Token::Colons) => {
                let names = inner.iter().map(|(name, _)| name.clone());
                let mut path: Vec<String> = module.iter().cloned().chain(names).collect();
                path.pop();
                at += 1;
                while let [(_, Token::Colons), (_, Token::Name("super")), ..] = &tokens[at..] {
                    path.pop();
                    at += 2;
                }
                at = tree(&tokens, at, &mut path, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads what follows a path, `::a::{b, c::d}`, and notes every path in it; returns where it ends.
fn tree(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    path: &mut Vec<String>,
    found: &mut Vec<Reference>,
) -> usize {
    let (line, own) = (tokens.get(at.saturating_sub(1)).map_or(0, |(line, _)| *line), path.len());
    loop {
        match &tokens[at.min(tokens.len())..] {
            [(_, Token::Colons), (_, Token::Name(name)), ..] => {
                path.push(name.to_string());
                at += 2;
            }
            [(_, Token::Colons), (_, Token::Other('{')), ..] => {
                at += 2;
                while let Some((line, token)) = tokens.get(at) {
                    match token {
                        Token::Other('}') => {
                            at += 1;
                            break;
                        }
                        Token::Name("as") => at += 2,
                        Token::Name(name) => {
                            path.push(name.to_string());
                            if matches!(tokens.get(at + 1), Some((_, Token::Colons))) {
                                at = tree(tokens, at + 1, path, found);
                            } else {
                                found.push(Reference { line: *line, path: path.clone() });
                                at += 1;
                            }
                            path.pop();
                        }
                        _ => at += 1,
                    }
                }
                break;
            }
            _ => {
                found.push(Reference { line, path: path.clone() });
                break;
            }
        }
    }
    path.truncate(own);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\
//! A crate.
//!
//! | floor | what is inside |
//! |---|---|
//! | [`job`] | jobs |
//! | `flow`, [`plan`] | two rooms |
//! | `clock` | time |
//!
//! | other | table |
";

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn paths(text: &str, module: &[&str]) -> Vec<(usize, String)> {
        let found = references(text, &owned(module));
        found.into_iter().map(|Reference { line, path }| (line, path.join("::"))).collect()
    }

    #[test]
    fn no_arrow_of_the_workspace_goes_up() {
        assert_eq!(check(&crate::cargo::root()), Ok(()));
    }

    #[test]
    fn the_floors_are_the_rows_of_the_table() {
        assert_eq!(floors(HEAD), [owned(&["job"]), owned(&["flow", "plan"]), owned(&["clock"])]);
        assert!(floors("//! A crate without one.\n").is_empty());
    }

    #[test]
    fn a_file_is_a_module() {
        let of = |file: &str| module_of(Path::new(file)).join("::");
        assert_eq!([of("lib.rs"), of("flow/mod.rs"), of("flow/notes.rs")], ["", "flow", "flow::notes"]);
    }

    #[test]
    fn paths_are_found_in_use_and_elsewhere_and_not_in_comments_and_texts() {
        let text = "use crate::{clock::Clock, flow::{a, b as c}};\n// crate::job\nlet x: &'a str = \"crate::job\";\n\
                    let y = crate::plan::Plan { z: '\"' };\n/* crate::job /* */ crate::job */ $crate::job r#\"crate::job\"#";
        let expected = [(1, "clock::Clock"), (1, "flow::a"), (1, "flow::b"), (4, "plan::Plan")];
        assert_eq!(paths(text, &["job"]), expected.map(|(line, path)| (line, path.to_string())));
    }

    #[test]
    fn super_is_the_module_around_also_inside_of_a_file() {
        let text = "use super::x;\nmod tests {\n use super::*;\n use super::super::y;\n fn f() {}\n}\nuse super::z;\n";
        let expected = [(1, "flow::x"), (3, "flow::notes"), (4, "flow::y"), (7, "flow::z")];
        assert_eq!(paths(text, &["flow", "notes"]), expected.map(|(line, path)| (line, path.to_string())));
    }

    #[test]
    fn an_arrow_up_or_to_a_neighbour_is_a_fault_and_one_down_is_none() {
        let floors = floors(HEAD);
        let faults = |module: &str, path: &str| {
            let reference = Reference { line: 7, path: path.split("::").map(str::to_owned).collect() };
            faults_of(&floors, &owned(&[module]), &[reference])
        };
        assert!(faults("job", "clock::Clock").is_empty() && faults("flow", "flow::Note").is_empty());
        for path in ["job::Job", "plan::Plan"] {
            let up = Fault::Up { line: 7, from: "flow".into(), path: path.into() };
            assert_eq!(faults("flow", path), [up]);
        }
        assert_eq!(faults("job", "Batch"), [Fault::Unknown { line: 7, path: "Batch".into() }]);
        assert_eq!(faults("lost", "clock"), [Fault::Unlisted { module: "lost".into() }]);
    }
}
