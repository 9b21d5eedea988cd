//! Plots as SVG texts: small enough to be kept beside the figures that they show.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::timeline::{BUCKET, Bucket, Job, Timeline};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;
/// For the names of curves.
const NAMES_WIDTH: u32 = 150;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Points that belong together; both coordinates are above zero.
#[derive(Clone, Debug)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// One of the plots that stand side by side.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    /// What the marks of the x axis are powers of.
    pub base: f64,
    pub curves: Vec<Curve>,
}

/// Curves over logarithmic axes, the panels side by side, and their names at the end: all panels
/// have curves of the same names.
pub fn logarithmic(panels: &[Panel]) -> Result<String> {
    let mut text = String::new();
    {
        let width = WIDTH * panels.len().max(1) as u32;
        let size = (width + NAMES_WIDTH, HEIGHT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (plots, names) = root.split_horizontally(width);
        for (area, panel) in plots.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
            draw(area, panel)?;
        }
        let curves = panels.first().map_or(&[][..], |panel| &panel.curves);
        for (number, curve) in curves.iter().enumerate() {
            let y = 48 + 20 * number as i32;
            names.draw(&PathElement::new([(0, y), (16, y)], color(number).stroke_width(2)))?;
            names.draw(&Text::new(curve.name.as_str(), (22, y - 6), (FONT, 12).into_font()))?;
        }
        root.present()?;
    }
    Ok(text)
}

fn color(number: usize) -> RGBAColor {
    Palette99::pick(number).to_rgba()
}

fn draw(area: &Area<'_>, panel: &Panel) -> Result<()> {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let across = reach(points().map(|point| point.0), 1.2);
    let up = reach(points().map(|point| point.1), 2.0);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(across.log_scale().base(panel.base), up.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    for (number, curve) in panel.curves.iter().enumerate() {
        let points = curve.points.iter().copied();
        chart.draw_series(LineSeries::new(points, color(number).stroke_width(2)))?;
        let dots = curve.points.iter().map(|point| Circle::new(*point, 3, color(number).filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}

/// Slowest and 99th percentile of each bucket over time, and beneath it when the engine was
/// flushing and compacting.
pub fn timeline(title: &str, timeline: &Timeline) -> Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (2 * WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let (above, beneath) = root.split_vertically(HEIGHT - 100);
        let seconds = 0.0..BUCKET.as_secs_f64() * timeline.buckets.len().max(1) as f64;
        latencies(&above, title, timeline, seconds.clone())?;
        background(&beneath, timeline, seconds)?;
        root.present()?;
    }
    Ok(text)
}

const LABELS: u32 = 80;

/// A line of a timeline: its name, its colour, what it shows of a bucket.
type Part = (&'static str, RGBColor, fn(&Bucket) -> f32);

fn latencies(area: &Area<'_>, title: &str, timeline: &Timeline, x: Range<f64>) -> Result<()> {
    let values = timeline.buckets.iter().flat_map(|bucket| [bucket.p99, bucket.max]);
    let up = reach(values.filter(|time| *time > 0.0).map(f64::from), 2.0);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin_left(10)
        .margin_right(10)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(x, up.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc("µs")
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    let of = |part: fn(&Bucket) -> f32| {
        let buckets = timeline.buckets.iter().enumerate().filter(|(_, bucket)| bucket.max > 0.0);
        buckets.map(move |(n, bucket)| (n as f64 * BUCKET.as_secs_f64(), f64::from(part(bucket))))
    };
    let parts: [Part; 2] = [
        ("slowest in 10 ms", RGBColor(240, 150, 120), |bucket| bucket.max),
        ("p99 in 10 ms", RGBColor(40, 80, 160), |bucket| bucket.p99),
    ];
    for (name, color, part) in parts {
        chart
            .draw_series(LineSeries::new(of(part), color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}

/// A row for each kind of job, a bar for each.
fn background(area: &Area<'_>, timeline: &Timeline, x: Range<f64>) -> Result<()> {
    let mut chart = ChartBuilder::on(area)
        .margin_left(10)
        .margin_right(10)
        .margin_bottom(5)
        .x_label_area_size(36)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(x.clone(), 0.0..2.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("seconds")
        .x_label_formatter(&|x| short(*x))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 12))
        .draw()?;
    for (row, job, color) in [(1.0, Job::Flush, GREEN), (0.0, Job::Compaction, BLUE)] {
        let marks = timeline.marks.iter().filter(|mark| mark.job == job && mark.from < x.end);
        chart.draw_series(marks.map(|mark| {
            let corners = [(mark.from, row + 0.1), (mark.to.min(x.end), row + 0.9)];
            Rectangle::new(corners, color.mix(0.5).filled())
        }))?;
        let place = chart.backend_coord(&(0.0, row + 0.6));
        let name = format!("{job:?}").to_lowercase();
        let (left, top) = area.get_base_pixel();
        area.draw_text(
            &name,
            &(FONT, 12).into_text_style(area),
            (10 + place.0 - left - LABELS as i32, place.1 - top),
        )?;
    }
    Ok(())
}

/// From below the least to above the greatest, by a factor.
fn reach(values: impl Iterator<Item = f64> + Clone, factor: f64) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if least > 0.0 && most >= least && most.is_finite() {
        least / factor..most * factor
    } else {
        1.0..10.0
    }
}

/// A number as a mark of an axis: `0.05`, `20`, `1M`.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 999_999.5 => format!("{}M", trimmed(v / 1e6)),
        v if v >= 999.5 => format!("{}k", trimmed(v / 1e3)),
        v => trimmed(v),
    }
}

/// Two digits that mean something, without zeros at the end.
fn trimmed(value: f64) -> String {
    let digits = (1 - value.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Mark;

    fn panel(points: &[(f64, f64)]) -> Panel {
        let curves = vec![Curve { name: "get".into(), points: points.to_vec() }];
        Panel { title: "cost".into(), x: "entities".into(), y: "µs".into(), base: 10.0, curves }
    }

    /// Centres of the circles of a drawing.
    fn dots(text: &str) -> Vec<(f64, f64)> {
        let number = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\"")).expect("an attribute");
            rest.split('"').next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let circles = text.lines().filter(|line| line.starts_with("<circle"));
        circles.map(|line| (number(line, " cx"), number(line, " cy"))).collect()
    }

    #[test]
    fn equal_factors_are_equal_distances() {
        let text = logarithmic(&[panel(&[(1e5, 1.0), (1e6, 2.0), (1e7, 4.0)])]).expect("a plot");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        let dots = dots(&text);
        let [a, b, c] = dots[..] else { panic!("{dots:?} are not three dots") };
        assert!((b.0 - a.0 - (c.0 - b.0)).abs() <= 2.0 && b.0 - a.0 > 100.0, "{dots:?}");
        assert!((a.1 - b.1 - (b.1 - c.1)).abs() <= 2.0 && a.1 - b.1 > 50.0, "{dots:?}");
    }

    #[test]
    fn panels_stand_side_by_side_and_say_what_they_show() {
        let text = logarithmic(&[panel(&[(1.0, 5.0)]), panel(&[(1.0, 5.0)])]).expect("a plot");
        assert!(text.contains(&format!("width=\"{}\"", 2 * WIDTH + NAMES_WIDTH)), "{text}");
        assert!(text.matches("\nget\n").count() == 1 && text.contains("\nentities\n"), "{text}");
        let dots = dots(&text);
        assert_eq!(dots[1].0 - dots[0].0, f64::from(WIDTH));
    }

    #[test]
    fn nothing_to_show_is_an_empty_plot() {
        logarithmic(&[]).expect("a plot");
        logarithmic(&[panel(&[])]).expect("a plot");
        logarithmic(&[panel(&[(0.0, f64::NAN)])]).expect("a plot");
    }

    #[test]
    fn a_timeline_has_a_bar_for_each_job_above_the_time_that_it_took() {
        let mark = |job, from, to| Mark { job, from, to };
        let timeline = Timeline {
            buckets: vec![Bucket { p99: 2.0, max: 500.0 }; 100],
            marks: vec![
                mark(Job::Flush, 0.2, 0.3),
                mark(Job::Compaction, 0.5, 0.9),
                mark(Job::Compaction, 0.95, 7.0),
                mark(Job::Compaction, 8.0, 9.0),
            ],
        };
        let text = super::timeline("churn", &timeline).expect("a plot");
        let bars: Vec<&str> =
            text.lines().filter(|line| line.contains("opacity=\"0.5\"")).collect();
        let widths: Vec<i32> = bars
            .iter()
            .filter_map(|bar| bar.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths.len(), 3, "what came after the last operation is left out: {bars:?}");
        assert!((widths[0] * 4 - widths[1]).abs() <= 4 && widths[0] > 50, "{widths:?}");
        assert!(text.contains("\nflush\n") && text.contains("\ncompaction\n"), "{text}");
        super::timeline("nothing", &Timeline::default()).expect("a plot");
    }

    #[test]
    fn marks_are_short() {
        let marks = [0.0, 0.05, 0.126, 2.0, 10.0, 64.0, 1e5, 1e6, 2.5e6].map(short);
        assert_eq!(marks, ["0", "0.05", "0.13", "2", "10", "64", "100k", "1M", "2.5M"]);
    }
}
