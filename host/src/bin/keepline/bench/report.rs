//! What is printed: tables for people, the same as JSON for programs.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// All that one run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What it was measured on, and with what.
    pub conditions: Vec<(&'static str, String)>,
    pub sections: Vec<Section>,
}

/// One table.
#[derive(Debug, Serialize)]
pub struct Section {
    pub title: String,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// One for each column; none where there is nothing to say.
    pub values: Vec<Option<f64>>,
}

impl Section {
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    pub fn row(&mut self, name: impl Into<String>, values: &[Option<f64>]) {
        self.rows.push(Row { name: name.into(), values: values.to_vec() });
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
    table.set_header([""].iter().chain(&section.columns));
    for row in &section.rows {
        let values = row.values.iter().map(|value| value.map(figure).unwrap_or_default());
        table.add_row([row.name.clone()].into_iter().chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Three digits are as many as these machines can tell.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
