//! Draws a report's plots, one SVG each, from the figures of its tables.
//!
//! On an opaque white ground, so that they can be read on a dark page too.

use std::{fs, ops::Range, path::Path};

use anyhow::{Context, Result};
use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::report::{Axis, Ink, Line, Panel, Plot, Report};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH_OF_A_PANEL: u32 = 480;
const HEIGHT: u32 = 410;
const FONT: &str = "sans-serif";
const TEXT: u32 = 13;
const DARK: RGBColor = RGBColor(31, 35, 40);
const PALE: RGBColor = RGBColor(208, 215, 222);

/// Files are named by the plots. One without a figure is not drawn.
pub fn draw(report: &Report, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("can't make {}", directory.display()))?;
    for plot in &report.plots {
        let panels: Vec<_> = plot.panels.iter().filter_map(|panel| Curves::of(report, panel)).collect();
        if panels.is_empty() {
            continue;
        }
        let file = directory.join(format!("{}.svg", plot.name));
        let svg = picture(plot, &panels).with_context(|| format!("can't draw {}", plot.name))?;
        fs::write(&file, svg).with_context(|| format!("can't write {}", file.display()))?;
    }
    Ok(())
}

/// A panel with its figures.
struct Curves<'a> {
    panel: &'a Panel,
    lines: Vec<(&'a Line, Vec<(f64, f64)>)>,
    x: Scale,
    y: Scale,
}

impl<'a> Curves<'a> {
    /// None if nothing was measured.
    fn of(report: &Report, panel: &'a Panel) -> Option<Self> {
        let points = |line: &Line| {
            let section = report.sections.iter().find(|section| section.title == line.section)?;
            let points = section.points(&line.column);
            (!points.is_empty()).then_some(points)
        };
        let lines: Vec<_> = panel.lines.iter().filter_map(|line| Some((line, points(line)?))).collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        let xs: Vec<f64> = all().map(|point| point.0).collect();
        let ys: Vec<f64> = all().map(|point| point.1).collect();
        let (x, y) = (Scale::at(&panel.x, xs)?, Scale::over(&panel.y, &ys)?);
        Some(Self { panel, lines, x, y })
    }
}

/// An axis with its ticks.
#[derive(Clone)]
struct Scale {
    logarithmic: bool,
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Scale {
    /// With a tick at each value.
    fn at(axis: &Axis, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (first, last) = (*values.first()?, *values.last()?);
        let range = if axis.logarithmic {
            let margin = (last / first).powf(0.05).max(1.1);
            first / margin..last * margin
        } else {
            0.0..last * 1.05
        };
        Some(Self { logarithmic: axis.logarithmic, range, ticks: values })
    }

    /// With round ticks.
    fn over(axis: &Axis, values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        let (range, ticks): (_, Vec<f64>) = if axis.logarithmic {
            let steps: &[f64] = if most / least > 1000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let ticks = (-3..12).flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
            (least / 1.5..most * 1.5, ticks.collect())
        } else {
            let step = round_step(most / 7.0);
            (0.0..most * 1.1, (0..12).map(|n| f64::from(n) * step).collect())
        };
        let ticks = ticks.into_iter().filter(|tick| range.contains(tick)).collect();
        Some(Self { logarithmic: axis.logarithmic, range, ticks })
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if self.logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (from, to) = (place(self.range.start), place(self.range.end));
        let share = (place(*value) - from) / (to - from);
        #[allow(clippy::cast_possible_truncation, reason = "pixels")]
        let pixels = (f64::from(limit.1 - limit.0) * share).round() as i32;
        limit.0 + pixels
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(value: &f64) -> String {
        match *value {
            value if value >= 1e6 => format!("{}M", rounded(value / 1e6)),
            // 1024 is no round number of thousands.
            value if value >= 1e3 && value % 1e2 == 0.0 => format!("{}k", rounded(value / 1e3)),
            value => rounded(value).to_string(),
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// 1, 2 or 5 times a power of ten, and no less than asked.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|step| *step >= least).unwrap_or(decade)
}

fn picture(plot: &Plot, panels: &[Curves<'_>]) -> Result<String> {
    let mut svg = String::new();
    {
        let width = WIDTH_OF_A_PANEL * u32::try_from(panels.len())?;
        let whole = SVGBackend::with_string(&mut svg, (width, HEIGHT)).into_drawing_area();
        whole.fill(&WHITE)?;
        let below = whole.margin(8, 0, 0, 0).titled(&plot.title, (FONT, 18).into_font().color(&DARK))?;
        for (area, curves) in below.split_evenly((1, panels.len())).iter().zip(panels) {
            draw_panel(area, curves)?;
        }
        whole.present()?;
    }
    Ok(svg)
}

fn draw_panel(area: &Area<'_>, curves: &Curves<'_>) -> Result<()> {
    let (head, body) = area.split_vertically(76);
    let text = (FONT, TEXT).into_font().color(&DARK);
    let centred = text.pos(Pos::new(HPos::Center, VPos::Center));
    let middle = i32::try_from(head.dim_in_pixel().0 / 2)?;
    head.draw(&Text::new(curves.panel.title.clone(), (middle, 14), centred))?;
    draw_legend(&head, curves)?;

    let mut chart = ChartBuilder::on(&body)
        .margin(6)
        .margin_right(18)
        .x_label_area_size(44)
        .y_label_area_size(58)
        .build_cartesian_2d(curves.x.clone(), curves.y.clone())?;
    chart
        .configure_mesh()
        .bold_line_style(PALE)
        .light_line_style(TRANSPARENT)
        .axis_style(DARK)
        .label_style((FONT, TEXT - 1).into_font().color(&DARK))
        .axis_desc_style((FONT, TEXT).into_font().color(&DARK))
        .x_desc(&curves.panel.x.title)
        .y_desc(&curves.panel.y.title)
        .draw()?;
    for (line, points) in &curves.lines {
        let stroke = colour(line.ink).stroke_width(2);
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, stroke))?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), stroke))?;
        }
        let dot = if line.dashed { stroke } else { stroke.filled() };
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, dot)))?;
    }
    Ok(())
}

/// Samples and labels, in as many lines as they take.
fn draw_legend(head: &Area<'_>, curves: &Curves<'_>) -> Result<()> {
    const SAMPLE: i32 = 24;
    let text = (FONT, TEXT - 1).into_font().color(&DARK).pos(Pos::new(HPos::Left, VPos::Center));
    let right = i32::try_from(head.dim_in_pixel().0)?;
    let (mut x, mut y) = (66, 33);
    for (line, _) in &curves.lines {
        // Nobody here knows the reader's font: a guess on the safe side.
        let width = SAMPLE + 6 + 7 * i32::try_from(line.label.chars().count())?;
        if x + width > right {
            (x, y) = (66, y + 16);
        }
        let stroke = colour(line.ink).stroke_width(2);
        let dashes: &[(i32, i32)] = if line.dashed { &[(0, 6), (9, 15), (18, 24)] } else { &[(0, SAMPLE)] };
        for (from, to) in dashes {
            head.draw(&PathElement::new([(x + from, y), (x + to, y)], stroke))?;
        }
        head.draw(&Text::new(line.label.clone(), (x + SAMPLE + 6, y), text.clone()))?;
        x += width + 12;
    }
    Ok(())
}

/// Readable on white, and apart from each other for those who see few colours.
fn colour(ink: Ink) -> RGBColor {
    match ink {
        Ink::Blue => RGBColor(9, 105, 218),
        Ink::Orange => RGBColor(219, 109, 40),
        Ink::Green => RGBColor(26, 127, 55),
        Ink::Grey => RGBColor(110, 119, 129),
    }
}
