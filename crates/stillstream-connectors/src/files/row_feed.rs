//! [`RowFeed`]: hands a CSV file to the parser line by line, and notices a row that does not end.

use std::cell::RefCell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use super::input::Input;

/// Why a row was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The file ends inside quotes.
    OpenAtEnd,
    /// The row goes on inside quotes for longer than a row may be.
    OpenTooLong,
    /// A line is longer than a row may be.
    LineTooLong,
}

/// The parser asks for more bytes whenever a row is not at its end. As it gets one line at a time, whoever
/// hands them out knows which lines belong to the row: a parser that asks again after a whole line is inside
/// quotes. If the file ends there, or the row gets longer than a row may be, only its first line is given up:
/// [`give_up`](Self::give_up) takes the others back, and they are read as rows of their own.
pub(crate) struct RowFeed {
    input: Input,
    /// Lines that were taken back, to be handed out before those of the input; and how many bytes of them
    /// were.
    taken_back: (Vec<u8>, usize),
    /// The line that is being handed out, and how many bytes of it were.
    line: (Vec<u8>, usize),
    /// Whether the line's end is not in the file: its last line may have none.
    added_end: bool,
    /// The byte of the file after the line.
    at: u64,
    /// Line ends before that.
    lines: u64,
    /// What was handed out of the present row, from its first line that is not empty.
    row: Vec<u8>,
    first_line: usize,
    row_at: u64,
    row_line: u64,
    longest: usize,
    trouble: Option<Trouble>,
}

/// Where reading goes on: the byte, and the line ends before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub byte: u64,
    pub lines: u64,
}

/// A row that was given up.
#[derive(Debug)]
pub(crate) struct GivenUp {
    pub why: Trouble,
    /// Its first line, or the beginning of that.
    pub text: Vec<u8>,
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

impl RowFeed {
    /// Feeds `input`, which begins at `place`, in rows of at most `longest` bytes.
    pub fn new(input: Input, place: Place, longest: u64) -> Self {
        let mut feed = Self {
            input,
            taken_back: Default::default(),
            line: Default::default(),
            added_end: false,
            at: place.byte,
            lines: place.lines,
            row: Vec::new(),
            first_line: 0,
            row_at: place.byte,
            row_line: place.lines + 1,
            longest: usize::try_from(longest).unwrap_or(usize::MAX - 1).max(1),
            trouble: None,
        };
        feed.begin();
        feed
    }

    /// A new parser begins here. The first thing that it gets is an empty line, unless it begins with the
    /// file: it takes a byte order mark off the beginning of what it reads, and inside a file such a mark is
    /// text.
    fn begin(&mut self) {
        self.line.0.clear();
        if self.at > 0 {
            self.line.0.push(b'\n');
        }
        self.line.1 = 0;
        self.added_end = false;
    }

    /// The byte of the file that a parser which begins now takes for its first one.
    pub fn base(&self) -> i64 {
        self.at as i64 - self.line.0.len() as i64
    }

    /// What of the line lies after byte `at`.
    fn rest(&self, at: i64) -> &[u8] {
        let end = self.at as i64 + i64::from(self.added_end);
        let rest = usize::try_from(end - at).unwrap_or(0).min(self.line.0.len());
        &self.line.0[self.line.0.len() - rest..]
    }

    /// A row begins; the parser is at byte `at`.
    pub fn begin_row(&mut self, at: i64) {
        self.row.clear();
        // empty as a rule: only where a carriage return alone ends rows, a line holds several
        let rest = self.rest(at);
        if !is_blank(rest) {
            let rest = rest.to_vec();
            self.row_at = at.max(0) as u64;
            self.row_line = self.lines + u64::from(self.added_end);
            self.first_line = rest.len();
            self.row = rest;
        }
    }

    /// The place after what the parser has read, when it is at byte `at`. The line end after a row is the
    /// row's.
    pub fn place(&self, at: i64) -> Place {
        let rest = self.rest(at);
        match is_blank(rest) {
            true => Place { byte: self.at, lines: self.lines },
            false => {
                let ends = u64::from(!self.added_end);
                Place { byte: (at.max(0) as u64).min(self.at), lines: self.lines.saturating_sub(ends) }
            }
        }
    }

    /// The byte and the line in which the present row begins.
    pub fn row_start(&self) -> (u64, u64) {
        (self.row_at, self.row_line)
    }

    /// Gives the present row up, if it does not end, and goes on after its first line. A new parser has to be
    /// made then.
    ///
    /// # Errors
    /// Those of the file.
    pub fn give_up(&mut self) -> io::Result<Option<GivenUp>> {
        let Some(why) = self.trouble.take() else { return Ok(None) };
        if self.added_end {
            self.row.pop();
        }
        let mut row = std::mem::take(&mut self.row);
        let rest = row.split_off(self.first_line.min(row.len()));
        self.at = self.row_at + row.len() as u64;
        self.lines = self.row_line - u64::from(row.last() != Some(&b'\n'));
        let (taken_back, handed_out) = std::mem::take(&mut self.taken_back);
        self.taken_back.0 = [&rest, &taken_back[handed_out..]].concat();
        if why == Trouble::LineTooLong && row.last() != Some(&b'\n') {
            self.skip_line()?;
        }
        self.begin();
        Ok(Some(GivenUp { why, text: row }))
    }

    /// Passes what is left of a line, without keeping it.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            self.line.0.clear();
            let read = self.read_line()?;
            self.at += read as u64;
            if read == 0 {
                return Ok(());
            }
            if self.line.0.last() == Some(&b'\n') {
                self.lines += 1;
                return Ok(());
            }
        }
    }

    /// Appends the next line, or its beginning if it is too long.
    fn read_line(&mut self) -> io::Result<usize> {
        let (line, most) = (&mut self.line.0, self.longest as u64 + 1);
        let mut read = 0;
        let (taken_back, handed_out) = &mut self.taken_back;
        if *handed_out < taken_back.len() {
            read = (&taken_back[*handed_out..]).take(most).read_until(b'\n', line)?;
            *handed_out += read;
            if line.last() == Some(&b'\n') || read as u64 == most {
                return Ok(read);
            }
        }
        // what was taken back can end in the middle of a line
        let left = most - read as u64;
        Ok(read + self.input.bytes.by_ref().take(left).read_until(b'\n', line)?)
    }

    fn fail(&mut self, why: Trouble) -> io::Error {
        self.trouble = Some(why);
        io::Error::other("the row does not end")
    }

    /// Takes the next line; `false` at the end of the file.
    fn take_line(&mut self) -> io::Result<bool> {
        if self.row.len() > self.longest {
            return Err(self.fail(Trouble::OpenTooLong));
        }
        self.line.0.clear();
        self.line.1 = 0;
        let was_added = std::mem::take(&mut self.added_end);
        let read = self.read_line()?;
        if read == 0 {
            self.added_end = was_added && !self.row.is_empty();
            return if self.row.is_empty() { Ok(false) } else { Err(self.fail(Trouble::OpenAtEnd)) };
        }
        let begins_row = self.row.is_empty();
        if begins_row {
            (self.row_at, self.row_line) = (self.at, self.lines + 1);
        }
        self.at += read as u64;
        let ends = self.line.0.last() == Some(&b'\n');
        if !ends && read > self.longest {
            self.row.extend_from_slice(&self.line.0);
            if begins_row {
                self.first_line = read;
                return Err(self.fail(Trouble::LineTooLong));
            }
            return Err(self.fail(Trouble::OpenTooLong));
        }
        self.lines += u64::from(ends);
        if !ends {
            // so that a parser that asks for more after it is known to be inside quotes
            self.line.0.push(b'\n');
            self.added_end = true;
        }
        if !begins_row || !is_blank(&self.line.0) {
            self.row.extend_from_slice(&self.line.0);
            if begins_row {
                self.first_line = self.row.len();
            }
        }
        Ok(true)
    }

    /// Bytes read from disk so far.
    pub fn raw(&self) -> u64 {
        self.input.raw.get()
    }
}

/// What a parser reads from; its owner keeps the other end.
pub(crate) struct Feed(pub Rc<RefCell<RowFeed>>);

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let feed = &mut *self.0.borrow_mut();
        if feed.line.1 == feed.line.0.len() && !feed.take_line()? {
            return Ok(0);
        }
        let (line, handed_out) = &mut feed.line;
        let read = (&line[*handed_out..]).read(buffer)?;
        *handed_out += read;
        Ok(read)
    }
}
