//! Prints tables: aligned columns without rules for people, tab-separated fields for programs.
//!
//! A table appears at once whatever its cells contain: laying out columns takes longer the longer the texts are, so
//! people see the beginning of a long text, and of very many rows only plain rows. Output for programs is never cut.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};

use super::{escape_to_one_line, is_terminal_output, print_line, print_note, truncate_text};

/// Characters of a cell that people see.
const CELL_CHARACTERS: usize = 500;
/// Most rows of a table, and bytes of all cells.
const MAX_TABLE_ROWS: usize = 2000;
const MAX_TABLE_BYTES: usize = 256 << 10;

/// The note about cut cells.
const CUT_CELLS_NOTE: &str = "… stands for more: use --json, or send the output to a file or a pipe";

/// The treatment of rows that are wider than the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverflowMode {
    Wrap,
    Cut,
    Keep,
}

/// Prints rows with a heading: a table for people, tab-separated fields without the heading for programs. A tab or a
/// new line in a field is escaped for both. Long fields are wrapped for people, and very long ones cut, which a note says.
/// Without a name for the first column, people see no heading.
pub fn print_table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> Result<()> {
    print_rows(heading, rows, OverflowMode::Wrap, CUT_CELLS_NOTE)
}

/// Prints rows as [`print_table`] does, but each on one line that fits the terminal, unless `is_full`.
pub fn print_list<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>, is_full: bool) -> Result<()> {
    let cut = "… stands for more: use --full, or send the output to a file or a pipe";
    print_rows(heading, rows, if is_full { OverflowMode::Keep } else { OverflowMode::Cut }, cut)
}

/// Rows of facts; absent ones are left out.
pub fn fact_rows<'a>(facts: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Vec<[String; 2]> {
    facts.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).collect()
}

fn print_rows<const N: usize>(
    heading: [&str; N],
    rows: Vec<[String; N]>,
    excess: OverflowMode,
    cut: &str,
) -> Result<()> {
    if !is_terminal_output() {
        return print_fields(&rows);
    }
    if rows.is_empty() {
        return print_line("(none)");
    }
    let (rows, mut is_cut) = shorten_cells(rows);
    match build_table(heading, &rows, excess) {
        Some(mut table) => {
            // So say terminals that don't know theirs.
            if table.width() == Some(0) {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
            let text = table.trim_fmt();
            is_cut |= excess == OverflowMode::Cut && text.contains('…');
            print_line(&text)?;
        }
        None => print_fields(&rows)?,
    }
    if is_cut {
        print_note(cut);
    }
    Ok(())
}

fn print_fields<const N: usize>(rows: &[[String; N]]) -> Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for row in rows {
        writeln!(output, "{}", row.each_ref().map(|cell| escape_to_one_line(cell)).join("\t"))?;
    }
    Ok(output.flush()?)
}

/// Puts each cell on one line and cuts long ones. Returns whether any was cut.
fn shorten_cells<const N: usize>(rows: Vec<[String; N]>) -> (Vec<[String; N]>, bool) {
    let mut is_cut = false;
    let mut shown = |cell: String| {
        let line = escape_to_one_line(&cell);
        let length = line.len();
        let line = truncate_text(line, CELL_CHARACTERS);
        is_cut |= line.len() != length;
        line
    };
    let rows = rows.into_iter().map(|row| row.map(&mut shown)).collect();
    (rows, is_cut)
}

/// Lays out a table. `None`: there is too much for one.
fn build_table<const N: usize>(heading: [&str; N], rows: &[[String; N]], excess: OverflowMode) -> Option<Table> {
    let bytes: usize = rows.iter().flatten().map(String::len).sum();
    if rows.len() > MAX_TABLE_ROWS || bytes > MAX_TABLE_BYTES {
        return None;
    }
    let mut table = Table::new();
    let arrangement =
        if excess == OverflowMode::Keep { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
    table.load_style(presets::NOTHING).set_content_arrangement(arrangement);
    if heading.first().is_some_and(|name| !name.is_empty()) {
        table.set_header(heading.map(str::to_uppercase));
    }
    table.add_rows(rows);
    if excess == OverflowMode::Cut {
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
        let (rows, is_cut) = shorten_cells(rows);
        let table =
            build_table(["Key", "Value"], &rows, OverflowMode::Wrap).map(|mut table| table.set_width(80).trim_fmt());
        (table, is_cut)
    }

    #[test]
    fn a_long_text_is_truncated_in_a_table() {
        let (table, is_cut) = shown(vec![["k".into(), "x".repeat(8 << 20)], ["l".into(), "a\tb\nc".into()]]);
        let table = table.unwrap();
        assert!(is_cut && table.contains('…') && table.contains("a\\tb\\nc"), "{table}");
        assert_eq!(table.matches('x').count(), CELL_CHARACTERS);
        assert!(!shown(vec![["k".into(), "é".repeat(CELL_CHARACTERS)]]).1);
    }

    #[test]
    fn each_table_row_takes_one_line_within_the_width() {
        let id = "3f0c7c9e-5a53-4e5b-9a7a-0c8fb6f1d3aa".to_owned();
        let row = || [id.clone(), "a long title ".repeat(8), "2".to_owned(), "12 min ago".to_owned()];
        let rows = vec![row(), row()];
        let mut table = build_table(["Session", "Title", "Messages", "Last used"], &rows, OverflowMode::Cut).unwrap();
        let text = table.set_width(80).trim_fmt();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("SESSION  ") && text.contains("…") && text.contains("12 min ago"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn an_oversized_result_is_not_shown_as_a_table() {
        let rows = |count, length| vec![["k".to_owned(), "x".repeat(length)]; count];
        for (count, length, is_table) in
            [(MAX_TABLE_ROWS, 100, true), (MAX_TABLE_ROWS + 1, 1, false), (MAX_TABLE_ROWS, 200, false), (0, 0, true)]
        {
            assert_eq!(shown(rows(count, length)).0.is_some(), is_table, "{count} {length}");
        }
    }
}
