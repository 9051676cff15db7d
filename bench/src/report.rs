//! The tables of a run: for people, and the same as JSON for programs.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// All that one run measured.
#[derive(Serialize)]
pub struct Report {
    /// The machine, and what was measured on it.
    pub conditions: Vec<(&'static str, String)>,
    pub sections: Vec<Section>,
}

/// One table.
#[derive(Serialize)]
pub struct Section {
    title: String,
    /// The name of the column of the rows' names.
    heading: &'static str,
    columns: Vec<String>,
    rows: Vec<Row>,
    pub notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    /// One for each column; none where nothing was measured.
    values: Vec<Option<f64>>,
}

impl Section {
    pub fn new(title: impl Into<String>, heading: &'static str, columns: Vec<String>) -> Self {
        Self { title: title.into(), heading, columns, rows: Vec::new(), notes: Vec::new() }
    }

    pub fn row(&mut self, name: impl Into<String>, values: Vec<Option<f64>>) {
        self.rows.push(Row { name: name.into(), values });
    }

    /// Leaves out the columns in which nothing was measured.
    pub fn without_empty_columns(mut self) -> Self {
        let is_empty = |place: usize| self.rows.iter().all(|row| row.values.get(place).copied().flatten().is_none());
        let empty: Vec<bool> = (0..self.columns.len()).map(is_empty).collect();
        fn retain<T>(all: &mut Vec<T>, empty: &[bool]) {
            let mut empty = empty.iter();
            all.retain(|_| !empty.next().copied().unwrap_or_default());
        }
        retain(&mut self.columns, &empty);
        self.rows.iter_mut().for_each(|row| retain(&mut row.values, &empty));
        self
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Report {
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.conditions {
            text.push_str(&format!("{name}: {value}\n"));
        }
        for section in &self.sections {
            text.push_str(&format!("\n{}\n{}\n", section.title, table(section)));
            for note in &section.notes {
                text.push_str(&format!("  {note}\n"));
            }
        }
        text
    }
}

fn table(section: &Section) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let columns = section.columns.iter().map(|column| column.replace(": ", ":\n"));
    table.set_header([section.heading.to_owned()].into_iter().chain(columns));
    for row in &section.rows {
        let values = row.values.iter().map(|value| value.map(figure).unwrap_or_default());
        table.add_row([row.name.clone()].into_iter().chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// In three digits: no more can be told on these machines.
fn figure(value: f64) -> String {
    match value {
        1000.0.. => thousands(value.round() as u64),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number, its digits in threes.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
