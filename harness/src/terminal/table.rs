//! Prints tables: aligned columns without rules for people, tab-separated fields for programs.
//!
//! A table appears at once whatever its cells contain: laying out columns takes longer the longer the texts are, so
//! people see the beginning of a long text, and of very many rows only plain rows. Output for programs is never cut.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};

use super::{is_for_people, note, one_line, print_line, short};

/// Characters of a cell that people see.
const CELL: usize = 500;
/// Most rows of a table, and bytes of all cells.
const ROWS: usize = 2000;
const BYTES: usize = 256 << 10;

/// The note about cut cells.
const CUT: &str = "… stands for more: use --json, or send the output to a file or a pipe";

/// The treatment of rows that are wider than the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Wrap,
    Cut,
    Keep,
}

/// Prints rows with a heading: a table for people, tab-separated fields without the heading for programs. A tab or a
/// new line in a field is escaped for both. Long fields are wrapped for people, and very long ones cut, which a note says.
/// Without a name for the first column, people see no heading.
pub fn print_table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> Result<()> {
    print_rows(heading, rows, Excess::Wrap, CUT)
}

/// Prints rows as [`print_table`] does, but each on one line that fits the terminal, unless `is_full`.
pub fn print_list<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>, is_full: bool) -> Result<()> {
    let cut = "… stands for more: use --full, or send the output to a file or a pipe";
    print_rows(heading, rows, if is_full { Excess::Keep } else { Excess::Cut }, cut)
}

fn print_rows<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>, excess: Excess, cut: &str) -> Result<()> {
    if !is_for_people() {
        return print_fields(&rows);
    }
    if rows.is_empty() {
        return print_line("(none)");
    }
    let (rows, mut is_cut) = for_people(rows);
    match table(heading, &rows, excess) {
        Some(mut table) => {
            // So say terminals that don't know theirs.
            if table.width() == Some(0) {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
            let text = table.trim_fmt();
            is_cut |= excess == Excess::Cut && text.contains('…');
            print_line(&text)?;
        }
        None => print_fields(&rows)?,
    }
    if is_cut {
        note(cut);
    }
    Ok(())
}

fn print_fields<const N: usize>(rows: &[[String; N]]) -> Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for row in rows {
        writeln!(output, "{}", row.each_ref().map(|cell| one_line(cell)).join("\t"))?;
    }
    Ok(output.flush()?)
}

/// Puts each cell on one line and cuts long ones. Returns whether any was cut.
fn for_people<const N: usize>(rows: Vec<[String; N]>) -> (Vec<[String; N]>, bool) {
    let mut is_cut = false;
    let mut shown = |cell: String| {
        let line = one_line(&cell);
        let length = line.len();
        let line = short(line, CELL);
        is_cut |= line.len() != length;
        line
    };
    let rows = rows.into_iter().map(|row| row.map(&mut shown)).collect();
    (rows, is_cut)
}

/// Lays out a table. `None`: there is too much for one.
fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]], excess: Excess) -> Option<Table> {
    let bytes: usize = rows.iter().flatten().map(String::len).sum();
    if rows.len() > ROWS || bytes > BYTES {
        return None;
    }
    let mut table = Table::new();
    let arrangement = if excess == Excess::Keep { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
    table.load_style(presets::NOTHING).set_content_arrangement(arrangement);
    if heading.first().is_some_and(|name| !name.is_empty()) {
        table.set_header(heading.map(str::to_uppercase));
    }
    table.add_rows(rows);
    if excess == Excess::Cut {
        // No text has this character: lines end where a column does, not between words.
        table.set_delimiter('\u{0}');
        table.row_iter_mut().for_each(|row| _ = row.max_height(1));
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: Vec<[String; 2]>) -> (Option<String>, bool) {
        let (rows, is_cut) = for_people(rows);
        let table = table(["Key", "Value"], &rows, Excess::Wrap).map(|mut table| table.set_width(80).trim_fmt());
        (table, is_cut)
    }

    #[test]
    fn a_long_text_is_cut_for_people() {
        let (table, is_cut) = shown(vec![["k".into(), "x".repeat(8 << 20)], ["l".into(), "a\tb\nc".into()]]);
        let table = table.unwrap();
        assert!(is_cut && table.contains('…') && table.contains("a\\tb\\nc"), "{table}");
        assert_eq!(table.matches('x').count(), CELL);
        assert!(!shown(vec![["k".into(), "é".repeat(CELL)]]).1);
    }

    #[test]
    fn a_list_has_one_line_a_row_that_fits() {
        let id = "3f0c7c9e-5a53-4e5b-9a7a-0c8fb6f1d3aa".to_owned();
        let row = || [id.clone(), "a long title ".repeat(8), "2".to_owned(), "12 min ago".to_owned()];
        let rows = vec![row(), row()];
        let mut table = table(["Session", "Title", "Messages", "Last used"], &rows, Excess::Cut).unwrap();
        let text = table.set_width(80).trim_fmt();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("SESSION  ") && text.contains("…") && text.contains("12 min ago"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn very_much_is_no_table() {
        let rows = |count, length| vec![["k".to_owned(), "x".repeat(length)]; count];
        for (count, length, is_table) in [(ROWS, 100, true), (ROWS + 1, 1, false), (ROWS, 200, false), (0, 0, true)] {
            assert_eq!(shown(rows(count, length)).0.is_some(), is_table, "{count} {length}");
        }
    }
}
