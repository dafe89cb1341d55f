// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sheet as charts: for each operation a group of bars, one for each row. The height of a bar is
//! the normalised slowdown on a logarithmic scale. JIFL's rows are one chart, peers beside JIFL's
//! rows with the same jobs another, translation anew in each call a third.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::instruments::{COLD, INSTRUMENTS, What};
use super::peers::Job;
use super::sheet::{Cell, NATIVE, Row, Sheet};

/// Pixels.
const BAR: u32 = 9;
const GAP: u32 = 16;
const MARGINS: u32 = 130;
const HEIGHT: u32 = 490;
const LEGEND: u32 = 300;

/// The value of a bar.
struct Bar {
    row: usize,
    from: f64,
    to: f64,
    ratio: f64,
}

/// Draws the charts that have a valid figure: file names and contents.
///
/// # Errors
/// One line about the drawing.
pub fn draw(sheet: &Sheet) -> Result<Vec<(String, String)>, String> {
    let mut charts = Vec::new();
    let groups = [
        ("", own_rows(sheet)),
        ("-cold", cold_rows(sheet)),
        ("-peers", peers_rows(sheet)),
    ];
    for (suffix, rows) in groups {
        let bars = bars(sheet, &rows);
        if bars.is_empty() {
            continue;
        }
        let mut svg = String::new();
        draw_into(&mut svg, sheet, &rows, &bars).map_err(|error| format!("drawing: {error}"))?;
        let name = format!(
            "{}-{}-{}{suffix}.svg",
            sheet.set, sheet.clock, sheet.machine.kernel
        );
        charts.push((name, svg));
    }
    Ok(charts)
}

/// The job of a peer's row.
fn job(row: &Row) -> Option<Job> {
    let instrument = INSTRUMENTS.iter().find(|other| other.key == row.key)?;
    match instrument.what {
        What::Peer(_, job) => Some(job),
        _ => None,
    }
}

/// Rows with a valid figure.
fn drawn_rows(sheet: &Sheet) -> impl Iterator<Item = &Row> {
    let drawn = |row: &&Row| row.key != NATIVE && row.cells.iter().any(Cell::is_valid);
    sheet.rows.iter().filter(drawn)
}

fn own_rows(sheet: &Sheet) -> Vec<&Row> {
    let own = |row: &&Row| row.key != COLD && job(row).is_none();
    drawn_rows(sheet).filter(own).collect()
}

/// The row that translates anew in each call. It has a chart of its own, because a bar of hundreds
/// of times leaves others no room.
fn cold_rows(sheet: &Sheet) -> Vec<&Row> {
    drawn_rows(sheet).filter(|row| row.key == COLD).collect()
}

/// The rows of each job together, JIFL's first.
fn peers_rows(sheet: &Sheet) -> Vec<&Row> {
    let jobs = [
        ("call", Job::CountCalls),
        ("trace", Job::TraceCalls),
        ("block", Job::CountBlocks),
    ];
    let of = |(key, wanted)| {
        let peers: Vec<&Row> = drawn_rows(sheet)
            .filter(|row| job(row) == Some(wanted))
            .collect();
        let ours = drawn_rows(sheet).filter(move |row| row.key == key);
        let ours: Vec<&Row> = ours.take(peers.len().min(1)).collect();
        ours.into_iter().chain(peers)
    };
    jobs.into_iter().flat_map(of).collect()
}

/// Group n covers n to n + 1, with a gap.
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

/// The range of the axis: decades, or less, that hold all bars and the line of 1.
fn limits(bars: &[Bar]) -> (f64, f64) {
    let ratios = || bars.iter().map(|bar| bar.ratio);
    let least = ratios().fold(1.0, f64::min);
    let largest = ratios().fold(1.0, f64::max);
    ((least * 0.9).min(0.8), (largest * 1.15).max(1.5))
}

/// Values with a label: as many as can be read.
fn ticks(least: f64, largest: f64) -> Vec<f64> {
    let digits: &[u32] = match largest / least {
        range if range < 2.5 => &[10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 25, 80, 90],
        range if range < 10.0 => &[10, 12, 15, 20, 25, 30, 40, 50, 60, 80],
        range if range < 50.0 => &[10, 15, 20, 30, 50, 70],
        _ => &[10, 20, 50],
    };
    let powers = -2..=5;
    let all = powers.flat_map(|power| {
        digits.iter().map(move |digit| {
            // Parsed from decimal digits: 1.2, not 1.2000000000000002.
            format!("{digit}e{}", power - 1).parse().unwrap_or(1.0)
        })
    });
    all.filter(|value| (least..=largest).contains(value))
        .collect()
}

fn color(row: usize, rows: usize) -> HSLColor {
    // Neighbouring bars differ in lightness, too: their hues are close.
    let lightness = [0.36, 0.58][row % 2];
    HSLColor(row as f64 / rows.max(1) as f64, 0.65, lightness)
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
        .x_label_area_size(105)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, (least..largest).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .disable_y_mesh()
        .y_label_formatter(&|_| String::new())
        .label_style(("sans-serif", 14))
        .y_desc("normalised slowdown")
        .draw()?;
    // The library labels only powers of ten, of which the axis may have only one.
    for value in ticks(least, largest) {
        let line = PathElement::new(vec![(0.0, value), (end, value)], BLACK.mix(0.15));
        chart.draw_series([line])?;
        let (x, y) = chart.backend_coord(&(0.0, value));
        let style = TextStyle::from(("sans-serif", 14).into_font());
        let style = style.pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(format!("{value}"), (x - 6, y), style))?;
    }
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
        let style = style.pos(Pos::new(HPos::Right, VPos::Bottom));
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
        let [(name, svg)] = &draw(&sheet).unwrap()[..] else {
            panic!("one chart");
        };
        assert_eq!(name, "micro-instructions-.svg");
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
        assert_eq!(bars(&sheet, &own_rows(&sheet)).len(), 3);
    }

    #[test]
    fn peers_stand_beside_our_row_with_their_job() {
        let mut sheet = sample();
        let mut peer = sheet.rows[2].clone();
        peer.key = "opt-block".into();
        sheet.rows.push(peer);
        let keys: Vec<&str> = peers_rows(&sheet)
            .iter()
            .map(|row| row.key.as_str())
            .collect();
        assert_eq!(keys, ["block", "opt-block"]);
        assert_eq!(own_rows(&sheet).len(), 2);
        assert_eq!(draw(&sheet).unwrap().len(), 2);
    }

    #[test]
    fn nothing_valid_is_no_chart() {
        let mut sheet = sample();
        sheet.rows.truncate(1);
        assert_eq!(draw(&sheet), Ok(Vec::new()));
    }

    #[test]
    fn every_scale_has_some_labels() {
        for (least, largest) in [(0.8, 1.5), (0.8, 3.0), (0.8, 30.0), (0.8, 600.0)] {
            let count = ticks(least, largest).len();
            assert!((5..=11).contains(&count), "{least} {largest}: {count}");
        }
        assert!(ticks(0.8, 1.5).contains(&1.2));
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
