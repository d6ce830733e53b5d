//! Listings: columns without borders, and the short forms of ages, sizes and counts.
//!
//! Responsible for: fitting rows into a width, so that one row is one line. Must not: know what is listed.

use super::clean;
use super::style::{Text, Tone};
use segno_model::Timestamp;

/// Spaces between columns.
const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    title: &'static str,
    right: bool,
    /// Room for this many columns, whatever the cells need.
    at_least: usize,
    /// Cut down to this many columns when the width is short; `None`: never cut.
    shrinks_to: Option<usize>,
    /// The first to leave when there is no room; 0 stays always.
    leaves: u8,
}

impl Column {
    /// A column whose cells start at the left.
    #[must_use]
    pub fn left(title: &'static str) -> Self {
        Self { title, right: false, at_least: 0, shrinks_to: None, leaves: 0 }
    }

    /// A column whose cells end at the right, for figures.
    #[must_use]
    pub fn right(title: &'static str) -> Self {
        Self { right: true, ..Self::left(title) }
    }

    /// It has room for cells of so many columns that are not there yet.
    #[must_use]
    pub fn at_least(self, columns: usize) -> Self {
        Self { at_least: columns, ..self }
    }

    /// Its cells are cut, down to `columns`, when the width is short.
    #[must_use]
    pub fn shrinks_to(self, columns: usize) -> Self {
        Self { shrinks_to: Some(columns), ..self }
    }

    /// It leaves when even that is not enough; the highest `rank` first.
    #[must_use]
    pub fn leaves(self, rank: u8) -> Self {
        Self { leaves: rank, ..self }
    }
}

/// Columns and rows.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. Cells are made one line; missing ones are empty, further ones are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Text>) {
        let row = fitted(cells, self.columns.len());
        self.rows.push(row);
    }

    /// The same columns for rows that come one after the other: widths are as they are now.
    #[must_use]
    pub fn into_sheet(self, width: usize) -> Sheet {
        Sheet { layout: self.layout(width), columns: self.columns, width }
    }

    /// The header and the rows, each at most `width` columns wide.
    #[must_use]
    pub fn render(&self, width: usize) -> (Text, Vec<Text>) {
        let layout = self.layout(width);
        let header = header(&self.columns, &layout).cut(width);
        let row = |row: &Vec<Text>| render_row(&self.columns, row, &layout).cut(width);
        (header, self.rows.iter().map(row).collect())
    }

    /// Header and rows as lines; nothing at all when there is no row.
    #[must_use]
    pub fn lines(&self, width: usize) -> Vec<Text> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let (header, rows) = self.render(width);
        std::iter::once(header).chain(rows).collect()
    }

    /// The width of every column; `None` for those that left.
    fn layout(&self, width: usize) -> Vec<Option<usize>> {
        let natural: Vec<usize> = (0..self.columns.len()).map(|i| self.natural_width(i)).collect();
        let mut layout: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
        let least = |layout: &[Option<usize>]| -> usize {
            let sizes = layout.iter().zip(&self.columns).filter_map(|(size, column)| {
                size.map(|size| column.shrinks_to.map_or(size, |min| size.min(min)))
            });
            with_gaps(sizes)
        };
        while least(&layout) > width {
            let leaver = (0..self.columns.len())
                .filter(|i| layout[*i].is_some() && self.columns[*i].leaves > 0)
                .max_by_key(|i| self.columns[*i].leaves);
            match leaver {
                Some(i) => layout[i] = None,
                None => break,
            }
        }
        let mut excess = with_gaps(layout.iter().copied().flatten()).saturating_sub(width);
        for (size, column) in layout.iter_mut().zip(&self.columns).rev() {
            if let (Some(size), Some(min)) = (size.as_mut(), column.shrinks_to) {
                let give = excess.min(size.saturating_sub(min));
                *size -= give;
                excess -= give;
            }
        }
        layout
    }

    fn natural_width(&self, i: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[i].width()).max().unwrap_or(0);
        cells.max(clean::width(self.columns[i].title)).max(self.columns[i].at_least)
    }
}

/// A table without an end: its rows are rendered as they come.
#[derive(Debug, Clone)]
pub struct Sheet {
    columns: Vec<Column>,
    layout: Vec<Option<usize>>,
    width: usize,
}

impl Sheet {
    /// The header.
    #[must_use]
    pub fn header(&self) -> Text {
        header(&self.columns, &self.layout).cut(self.width)
    }

    /// A row; cells that are wider than their column are cut.
    #[must_use]
    pub fn row(&self, cells: impl IntoIterator<Item = Text>) -> Text {
        let row = fitted(cells, self.columns.len());
        render_row(&self.columns, &row, &self.layout).cut(self.width)
    }
}

fn fitted(cells: impl IntoIterator<Item = Text>, columns: usize) -> Vec<Text> {
    let mut row: Vec<Text> = cells.into_iter().map(one_line).collect();
    row.resize(columns, Text::default());
    row
}

fn header(columns: &[Column], layout: &[Option<usize>]) -> Text {
    let titles: Vec<Text> = columns.iter().map(|c| Text::line(Tone::Dim, c.title)).collect();
    render_row(columns, &titles, layout)
}

fn render_row(columns: &[Column], row: &[Text], layout: &[Option<usize>]) -> Text {
    let shown: Vec<(usize, &Text, &Column)> = layout
        .iter()
        .zip(row)
        .zip(columns)
        .filter_map(|((size, cell), column)| size.map(|size| (size, cell, column)))
        .collect();
    let mut out = Text::default();
    for (i, (size, cell, column)) in shown.iter().enumerate() {
        let cell = (*cell).clone().cut(*size);
        let padding = " ".repeat(size.saturating_sub(cell.width()));
        let last = i + 1 == shown.len();
        if column.right {
            out.add(Tone::Plain, &padding);
            out.append(cell);
        } else {
            out.append(cell);
            if !last {
                out.add(Tone::Plain, &padding);
            }
        }
        if !last {
            out.add(Tone::Plain, &" ".repeat(GAP));
        }
    }
    out
}

fn with_gaps(sizes: impl Iterator<Item = usize>) -> usize {
    let (sum, count) = sizes.fold((0, 0), |(sum, count), size| (sum + size, count + 1));
    sum + GAP * usize::saturating_sub(count, 1)
}

/// A cell with a line break in it would break the rows apart.
fn one_line(cell: Text) -> Text {
    let plain = cell.plain();
    if plain.contains(['\n', '\t']) { Text::line(Tone::Plain, &plain) } else { cell }
}

/// How long ago something was, in one unit: `now`, `3m`, `2h`, `5d`, `4mo`, `2y`. A time that is still
/// to come (clocks differ) is `now`.
#[must_use]
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let minutes = now.0.saturating_sub(then.0).max(0) / 60_000;
    let (hours, days) = (minutes / 60, minutes / 1440);
    match () {
        () if minutes < 1 => "now".to_owned(),
        () if hours < 1 => format!("{minutes}m"),
        () if days < 1 => format!("{hours}h"),
        () if days < 60 => format!("{days}d"),
        () if days < 730 => format!("{}mo", days / 30),
        () => format!("{}y", days / 365),
    }
}

/// A number of bytes: `812 B`, `4.2 KB`, `131 MB`. A KB is 1024 bytes.
#[must_use]
pub fn size(bytes: u64) -> String {
    scaled(bytes, 1024, &[" B", " KB", " MB", " GB", " TB"])
}

/// A number of tokens or other things: `812`, `12.3k`, `1.2M`.
#[must_use]
pub fn count(n: u64) -> String {
    scaled(n, 1000, &["", "k", "M", "G", "T"])
}

/// One decimal below ten of a unit, none above; rounded down, so that nothing claims to be full.
fn scaled(n: u64, base: u64, units: &[&str]) -> String {
    let mut divisor = 1;
    let mut unit = 0;
    while n / divisor >= base && unit + 1 < units.len() {
        divisor *= base;
        unit += 1;
    }
    let whole = n / divisor;
    let tenths = u128::from(n % divisor) * 10 / u128::from(divisor);
    if unit > 0 && whole < 100 && tenths > 0 {
        format!("{whole}.{tenths}{}", units[unit])
    } else {
        format!("{whole}{}", units[unit])
    }
}

/// `1 session`, `2 sessions`.
#[must_use]
pub fn plural(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    #[test]
    fn ages_have_one_unit_and_never_lie_in_the_future() {
        let minute = 60_000;
        let rows = [
            (-5_000_000, "now"),
            (0, "now"),
            (59_999, "now"),
            (minute, "1m"),
            (59 * minute, "59m"),
            (60 * minute, "1h"),
            (24 * 60 * minute - 1, "23h"),
            (24 * 60 * minute, "1d"),
            (59 * 1440 * minute, "59d"),
            (60 * 1440 * minute, "2mo"),
            (729 * 1440 * minute, "24mo"),
            (730 * 1440 * minute, "2y"),
        ];
        for (ms, expected) in rows {
            assert_eq!(age(NOW, Timestamp(NOW.0 - ms)), expected, "{ms}");
        }
        assert_eq!(
            age(Timestamp(i64::MAX), Timestamp(i64::MIN)),
            age(Timestamp(i64::MAX), Timestamp(0))
        );
    }

    #[test]
    fn sizes_and_counts_are_short() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KB"),
            (4300, "4.1 KB"),
            (200 << 20, "200 MB"),
            (u64::MAX, "16777215 TB"),
        ];
        for (n, expected) in sizes {
            assert_eq!(size(n), expected);
        }
        let counts = [
            (0, "0"),
            (999, "999"),
            (1000, "1k"),
            (12_345, "12.3k"),
            (1_234_567, "1.2M"),
            (999_999, "999k"),
        ];
        for (n, expected) in counts {
            assert_eq!(count(n), expected);
        }
    }

    fn sessions() -> Table {
        let mut table = Table::new(vec![
            Column::left("ID"),
            Column::left("CREATED").leaves(2),
            Column::right("TOKENS").leaves(1),
            Column::left("TITLE").shrinks_to(8),
        ]);
        let cell = |text: &str| Text::line(Tone::Plain, text);
        table.row([
            cell("019c1111"),
            cell("3m"),
            cell("12.3k"),
            cell("世界 rename the parser everywhere"),
        ]);
        table.row([cell("019c2222"), cell("14d"), cell("9"), Text::from("two\nlines\x1b[2J")]);
        table
    }

    fn plain(table: &Table, width: usize) -> Vec<String> {
        table.lines(width).iter().map(Text::plain).collect()
    }

    #[test]
    fn cells_are_aligned_by_columns_of_the_terminal() {
        assert_eq!(
            plain(&sessions(), 80),
            [
                "ID        CREATED  TOKENS  TITLE",
                "019c1111  3m        12.3k  世界 rename the parser everywhere",
                "019c2222  14d           9  two lines",
            ]
        );
    }

    #[test]
    fn columns_shrink_then_leave_as_the_width_shrinks() {
        assert_eq!(plain(&sessions(), 40)[1], "019c1111  3m        12.3k  世界 rename …");
        assert_eq!(plain(&sessions(), 30)[1], "019c1111   12.3k  世界 rename…");
        assert_eq!(plain(&sessions(), 22)[1], "019c1111  世界 rename…");
        assert_eq!(plain(&sessions(), 12)[1], "019c1111  …");
    }

    /// Covers: G17, #163.
    #[test]
    fn a_row_is_one_line_and_never_wider_than_asked() {
        for width in 0..90 {
            for line in sessions().lines(width) {
                assert!(line.width() <= width, "{width}: {line:?}");
                assert!(!line.plain().contains('\n'));
            }
        }
    }

    #[test]
    fn rows_that_come_later_fit_into_the_room_that_was_left() {
        let cell = |text: &str| Text::line(Tone::Plain, text);
        let columns = vec![Column::left("ID").at_least(4), Column::right("N").at_least(3)];
        let mut table = Table::new(columns);
        table.row([cell("a"), cell("1")]);
        let sheet = table.into_sheet(80);
        assert_eq!(sheet.header().plain(), "ID      N");
        assert_eq!(sheet.row([cell("abcd"), cell("123")]).plain(), "abcd  123");
        assert_eq!(sheet.row([cell("abcdef"), cell("1")]).plain(), "abc…    1");
    }

    #[test]
    fn no_rows_no_header() {
        assert!(Table::new(vec![Column::left("ID")]).lines(80).is_empty());
    }
}
