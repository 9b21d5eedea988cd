//! Plots as SVG texts: small enough to be kept beside the figures that they show.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;
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

/// Curves over logarithmic axes, the panels side by side.
pub fn logarithmic(panels: &[Panel]) -> Result<String> {
    let mut text = String::new();
    {
        let size = (WIDTH * panels.len().max(1) as u32, HEIGHT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, panel) in root.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
            draw(area, panel)?;
        }
        root.present()?;
    }
    Ok(text)
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
        let color = Palette99::pick(number).to_rgba();
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), color.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        let dots = curve.points.iter().map(|point| Circle::new(*point, 3, color.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
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
        assert!(text.contains(&format!("width=\"{}\"", 2 * WIDTH)), "{text}");
        assert!(text.matches("\nget\n").count() == 2 && text.contains("\nentities\n"), "{text}");
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
    fn marks_are_short() {
        let marks = [0.05, 0.126, 2.0, 10.0, 64.0, 1e5, 1e6, 2.5e6].map(short);
        assert_eq!(marks, ["0.05", "0.13", "2", "10", "64", "100k", "1M", "2.5M"]);
    }
}
