//! Prints tables.
//!
//! A table appears at once whatever its cells contain: laying out columns takes longer the longer the texts are, so
//! people see the beginning of a long text, and of very many rows only plain rows. Output for programs is never cut.

use std::io::{self, BufWriter, Write};

use comfy_table::{ContentArrangement, Table, presets};

use super::{is_for_people, note, one_line, print_line, short};

/// Characters of a cell that people see.
const CELL: usize = 500;
/// More of them are no table: rows, and bytes of all cells.
const ROWS: usize = 2000;
const BYTES: usize = 256 << 10;

/// Rows with a heading: a table for people, tab-separated fields without the heading for programs. A tab or a
/// new line in a field is escaped for both. Long fields are cut for people, who are told how to see all of them.
pub fn print_table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> io::Result<()> {
    if !is_for_people() {
        return print_fields(&rows);
    }
    let (rows, is_cut) = for_people(rows);
    match table(heading, &rows) {
        Some(mut table) => {
            // So say terminals that don't know theirs.
            if table.width() == Some(0) {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
            print_line(&table.to_string())?;
        }
        None => print_fields(&rows)?,
    }
    if is_cut {
        note("what ends with … is cut: to see all of it, use --json, or send the output to a file or a pipe");
    }
    Ok(())
}

fn print_fields<const N: usize>(rows: &[[String; N]]) -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for row in rows {
        writeln!(output, "{}", row.each_ref().map(|cell| one_line(cell)).join("\t"))?;
    }
    output.flush()
}

/// Each cell on one line and not too long; whether one was.
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

/// None: there is too much of it.
fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> Option<Table> {
    let bytes: usize = rows.iter().flatten().map(String::len).sum();
    if rows.len() > ROWS || bytes > BYTES {
        return None;
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(heading).add_rows(rows);
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: Vec<[String; 2]>) -> (Option<String>, bool) {
        let (rows, is_cut) = for_people(rows);
        let table = table(["Key", "Value"], &rows).map(|mut table| table.set_width(80).to_string());
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
    fn very_much_is_no_table() {
        let rows = |count, length| vec![["k".to_owned(), "x".repeat(length)]; count];
        for (count, length, is_table) in [(ROWS, 100, true), (ROWS + 1, 1, false), (ROWS, 200, false), (0, 0, true)] {
            assert_eq!(shown(rows(count, length)).0.is_some(), is_table, "{count} {length}");
        }
    }
}
