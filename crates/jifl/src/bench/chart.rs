// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sheet as a chart: for each operation a group of bars, one for each row,
//! their height the normalised slowdown on a logarithmic scale.

use plotters::prelude::*;

use super::sheet::{NATIVE, Row, Sheet};

/// Pixels.
const BAR: u32 = 9;
const GAP: u32 = 16;
const MARGINS: u32 = 130;
const HEIGHT: u32 = 460;
const LEGEND: u32 = 300;

/// What one bar shows.
struct Bar {
    row: usize,
    from: f64,
    to: f64,
    ratio: f64,
}

/// The chart's file name: set, clock and kernel.
pub fn file_name(sheet: &Sheet) -> String {
    format!("{}-{}-{}.svg", sheet.set, sheet.clock, sheet.machine.kernel)
}

/// Draws it; `None` where nothing valid is to be drawn.
///
/// # Errors
/// Of the drawing: one line.
pub fn draw(sheet: &Sheet) -> Result<Option<String>, String> {
    let rows = drawn_rows(sheet);
    let bars = bars(sheet, &rows);
    if bars.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    draw_into(&mut text, sheet, &rows, &bars).map_err(|error| format!("drawing: {error}"))?;
    Ok(Some(text))
}

fn drawn_rows(sheet: &Sheet) -> Vec<&Row> {
    let drawn = |row: &&Row| row.key != NATIVE && row.cells.iter().any(|cell| cell.is_valid());
    sheet.rows.iter().filter(drawn).collect()
}

/// Group n covers n to n + 1, a part of it left free.
fn bars(sheet: &Sheet, rows: &[&Row]) -> Vec<Bar> {
    const FREE: f64 = 0.15;
    let width = (1.0 - 2.0 * FREE) / rows.len().max(1) as f64;
    let mut bars = Vec::new();
    for (group, op) in sheet.ops.iter().enumerate() {
        for (index, row) in rows.iter().enumerate() {
            let Some(cell) = row.cell(&op.name).filter(|cell| cell.ratio > 0.0) else {
                continue;
            };
            let from = group as f64 + FREE + index as f64 * width;
            bars.push(Bar {
                row: index,
                from,
                to: from + width,
                ratio: cell.ratio,
            });
        }
    }
    bars
}

/// Decades or less that hold all bars and the line of 1.
fn limits(bars: &[Bar]) -> (f64, f64) {
    let ratios = || bars.iter().map(|bar| bar.ratio);
    let least = ratios().fold(1.0, f64::min);
    let largest = ratios().fold(1.0, f64::max);
    ((least * 0.9).min(0.8), (largest * 1.15).max(1.5))
}

fn color(row: usize, rows: usize) -> HSLColor {
    HSLColor(row as f64 / rows.max(1) as f64, 0.65, 0.45)
}

fn draw_into(
    text: &mut String,
    sheet: &Sheet,
    rows: &[&Row],
    bars: &[Bar],
) -> Result<(), Box<dyn std::error::Error>> {
    let group = BAR * rows.len() as u32 + GAP;
    let width = MARGINS + group * sheet.ops.len() as u32 + LEGEND;
    let end = sheet.ops.len() as f64;
    // The legend stands to the right of the bars.
    let right = end + f64::from(LEGEND) / f64::from(group);
    let (least, largest) = limits(bars);
    let root = SVGBackend::with_string(text, (width, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let machine = &sheet.machine;
    let caption = format!(
        "{} by {}, Linux {}, {}",
        sheet.set, sheet.clock, machine.kernel, machine.accelerator
    );
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(70)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, (least..largest).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .label_style(("sans-serif", 14))
        .y_desc("normalised slowdown")
        .y_label_formatter(&|value| format!("{value}"))
        .draw()?;
    for (index, row) in rows.iter().enumerate() {
        let style = color(index, rows.len()).filled();
        let own = bars.iter().filter(|bar| bar.row == index);
        chart
            .draw_series(
                own.map(|bar| Rectangle::new([(bar.from, 1.0), (bar.to, bar.ratio)], style)),
            )?
            .label(row.title.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], style));
    }
    chart.draw_series([PathElement::new(vec![(0.0, 1.0), (end, 1.0)], BLACK)])?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 14))
        .draw()?;
    let (left, bottom) = chart.plotting_area().get_pixel_range();
    let step = f64::from(left.end - left.start) / right;
    for (index, op) in sheet.ops.iter().enumerate() {
        let x = left.start + ((index as f64 + 0.6) * step) as i32;
        let style = TextStyle::from(
            ("sans-serif", 15)
                .into_font()
                .transform(FontTransform::Rotate270),
        );
        let style = style.pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Right,
            plotters::style::text_anchor::VPos::Bottom,
        ));
        root.draw(&Text::new(op.name.clone(), (x, bottom.end + 8), style))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sample;
    use super::*;

    #[test]
    fn bars_are_of_valid_cells() {
        let sheet = sample();
        let svg = draw(&sheet).unwrap().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in [
            "null",
            "read",
            "none in words",
            "block in words",
            "normalised slowdown",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("BPF"));
        let rows = drawn_rows(&sheet);
        assert_eq!(bars(&sheet, &rows).len(), 3);
    }

    #[test]
    fn nothing_valid_is_no_chart() {
        let mut sheet = sample();
        sheet.rows.truncate(1);
        assert_eq!(draw(&sheet), Ok(None));
    }

    #[test]
    fn limits_hold_all_bars_and_1() {
        let bar = |ratio| Bar {
            row: 0,
            from: 0.0,
            to: 1.0,
            ratio,
        };
        let (least, largest) = limits(&[bar(50.0), bar(0.5)]);
        assert!(least < 0.5 && largest > 50.0);
        let (least, largest) = limits(&[bar(1.2)]);
        assert!(least < 1.0 && largest > 1.2);
    }
}
