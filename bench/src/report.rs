//! What is told: tables for people, the same as JSON for programs, and which of the tables are drawn.
//!
//! The JSON is this module's types as they are. A table is a `section`: `heading` names what its rows go by,
//! `columns` what each of a row's `values` is, and `at` is a row's place on the x axis where the table is a
//! curve. A plot names its figures by section and column, so that a saved report can be drawn again.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::{Deserialize, Serialize};

/// All that one run measured.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    /// What it was measured on, and with what.
    pub conditions: Vec<(String, String)>,
    pub sections: Vec<Section>,
    pub plots: Vec<Plot>,
}

/// One table.
#[derive(Debug, Deserialize, Serialize)]
pub struct Section {
    pub title: String,
    /// Of the column of the rows' names.
    pub heading: String,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    pub name: String,
    /// Where it is on the x axis, if the table is a curve.
    pub at: Option<f64>,
    /// One for each column; none where there is nothing to say.
    pub values: Vec<Option<f64>>,
}

/// One picture, of panels side by side.
#[derive(Debug, Deserialize, Serialize)]
pub struct Plot {
    /// Its file, without the ending.
    pub name: String,
    pub title: String,
    pub panels: Vec<Panel>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// An axis, linear from 0 or logarithmic.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Axis {
    /// With its unit.
    pub title: String,
    pub logarithmic: bool,
}

/// One column of one table, as a line.
#[derive(Debug, Deserialize, Serialize)]
pub struct Line {
    pub label: String,
    /// The title of the section.
    pub section: String,
    pub column: String,
    pub ink: Ink,
    pub dashed: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ink {
    Blue,
    Orange,
    Green,
    /// For what is there to compare with.
    Grey,
}

impl Section {
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            heading: String::new(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn row(&mut self, name: impl Into<String>, values: &[Option<f64>]) {
        self.rows.push(Row { name: name.into(), at: None, values: values.to_vec() });
    }

    /// One more column of a curve, from the points' places.
    pub fn column(&mut self, name: &str, value: impl Fn(f64) -> Option<f64>) {
        self.columns.push(name.into());
        for row in &mut self.rows {
            row.values.push(row.at.and_then(&value));
        }
    }

    /// The points of a column, from left to right.
    pub fn points(&self, column: &str) -> Vec<(f64, f64)> {
        let Some(index) = self.columns.iter().position(|name| name == column) else { return Vec::new() };
        let point = |row: &Row| Some((row.at?, row.values.get(index).copied()??));
        self.rows.iter().filter_map(point).collect()
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
    table.set_header([&section.heading].into_iter().chain(&section.columns));
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
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number, its digits in threes.
pub fn thousands(value: f64) -> String {
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
