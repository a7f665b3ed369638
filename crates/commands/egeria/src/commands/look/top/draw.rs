//! One frame on a terminal: 80x24 shows all there is to see of two nodes and ten threads.

use egeria_machine::format_bandwidth;
use ratatui::Frame as Terminal;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::super::explain::events::ActionEvent;
use super::super::explain::sentences::{percent, seconds};
use super::rows::{NodeRow, Sort};
use super::text;
use super::view::Frame;
use egeria_policy::ActionOutcome;

const MAX_NODE_LINES: usize = 8;
const ACTION_LINES: u16 = 5;
const MEMORY_CELLS: usize = 22;
const CPU_CELLS: usize = 10;
const THREAD_WIDTHS: [u16; 10] = [7, 7, 14, 4, 5, 9, 9, 5, 6, 5];

const HEADER: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const READS: Style = Style::new().fg(Color::Cyan);
const WRITES: Style = Style::new().fg(Color::Yellow);
const BUSY: Style = Style::new().fg(Color::Green);

/// What keys changed.
pub(super) struct Keys {
    pub(super) sort: Sort,
    pub(super) paused: bool,
    pub(super) table: TableState,
}

pub(super) fn draw(terminal: &mut Terminal<'_>, frame: &Frame, keys: &mut Keys) {
    let nodes = frame.nodes.len().min(MAX_NODE_LINES) as u16;
    let [head, node_area, _, thread_area, move_area, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1 + nodes),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1 + ACTION_LINES),
        Constraint::Length(1),
    ])
    .areas(terminal.area());
    terminal.render_widget(heading(frame, keys), head);
    terminal.render_widget(node_lines(&frame.nodes), node_area);
    draw_threads(terminal, thread_area, frame, keys);
    terminal.render_widget(below(frame), move_area);
    terminal.render_widget(footer(keys), foot);
}

fn heading<'a>(frame: &Frame, keys: &Keys) -> Paragraph<'a> {
    let mut title = vec![
        Span::styled("egeria top  ", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(text::title(frame)),
    ];
    if keys.paused {
        title.push(Span::styled("  PAUSED", Style::new().fg(Color::Red)));
    }
    let state = match frame.window {
        Some(_) => text::state(frame),
        None => format!("{}; no file was read or written yet", text::state(frame)),
    };
    Paragraph::new(vec![Line::from(title), Line::from(state)])
}

fn node_lines(nodes: &[NodeRow]) -> Paragraph<'static> {
    let header = format!(
        "{:>4} {:>9} {:>9}  {:<MEMORY_CELLS$} {:>5}  {:<CPU_CELLS$} {:>5} {:>7}",
        "node", "read", "written", "memory in use", "", "CPUs", "", "threads"
    );
    let mut lines = vec![Line::styled(header, HEADER)];
    let hidden = if nodes.len() > MAX_NODE_LINES {
        nodes.len() - MAX_NODE_LINES + 1
    } else {
        0
    };
    lines.extend(nodes[..nodes.len() - hidden].iter().map(node_line));
    if hidden > 0 {
        lines.push(Line::styled(format!("     … {hidden} more nodes"), DIM));
    }
    Paragraph::new(lines)
}

fn node_line(row: &NodeRow) -> Line<'static> {
    let [reads, writes] = row.memory_cells(MEMORY_CELLS);
    let busy = row.cpu_cells(CPU_CELLS);
    let rates = format!(
        "{:>4} {:>9} {:>9}  ",
        row.node.0,
        format_bandwidth(row.read_bytes_s),
        format_bandwidth(row.written_bytes_s)
    );
    let cpu = percent(Some(row.cpu_share));
    Line::from(vec![
        Span::raw(rates),
        Span::styled("█".repeat(reads), READS),
        Span::styled("▓".repeat(writes), WRITES),
        Span::styled("·".repeat(MEMORY_CELLS - reads - writes), DIM),
        Span::raw(format!(" {:>5}  ", percent(row.used_share()))),
        Span::styled("█".repeat(busy), BUSY),
        Span::styled("·".repeat(CPU_CELLS - busy), DIM),
        Span::raw(format!(" {cpu:>5} {:>7}", row.threads)),
    ])
}

fn draw_threads(terminal: &mut Terminal<'_>, area: Rect, frame: &Frame, keys: &mut Keys) {
    let aligned = |text: String, header: &str| {
        let line = Line::from(text);
        Cell::from(if header.starts_with('>') {
            line.alignment(Alignment::Right)
        } else {
            line
        })
    };
    let columns = columns_in(area.width);
    let headers = text::THREAD_HEADERS.into_iter().take(columns);
    let header = headers.map(|header| {
        let name = header.trim_start_matches('>').to_owned();
        aligned(name, header)
    });
    let rows = frame.threads.iter().map(|row| {
        let cells = text::thread_cells(row).into_iter();
        let cells = cells.zip(text::THREAD_HEADERS).take(columns);
        let row_style = match row.local_share {
            Some(share) if share < 0.5 => Style::new().fg(Color::Red),
            _ => Style::new(),
        };
        Row::new(cells.map(|(text, header)| aligned(text, header))).style(row_style)
    });
    let widths = THREAD_WIDTHS.into_iter().take(columns);
    let table = Table::new(rows, widths.map(Constraint::Length))
        .header(Row::new(header).style(HEADER))
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED));
    terminal.render_stateful_widget(table, area, &mut keys.table);
}

/// Columns of threads that fit whole: half a number is worse than none.
fn columns_in(width: u16) -> usize {
    let mut used = 0;
    let fits = |column: &&u16| {
        used += **column + 1;
        used <= width.saturating_add(1)
    };
    THREAD_WIDTHS.iter().take_while(fits).count().max(1)
}

/// The last actions, and what is said of processes that are left as they are.
fn below(frame: &Frame) -> Paragraph<'static> {
    let title = "last actions (`egeria explain` reports them in full, and why a thread stays)";
    let mut lines = vec![Line::styled(format!("{title:<80}"), HEADER)];
    let words = text::words_of_processes(frame);
    let most = usize::from(ACTION_LINES);
    // Both are shown if there are both.
    let actions = most - words.len().min(most / 2);
    lines.extend(frame.last_actions.iter().take(actions).map(action_line));
    if frame.last_actions.is_empty() {
        lines.push(Line::styled("none", DIM));
    }
    lines.extend(words.into_iter().map(Line::raw));
    Paragraph::new(lines)
}

fn action_line(event: &ActionEvent) -> Line<'static> {
    let line = &event.line;
    let (style, failed) = match &line.record.outcome {
        outcome
            if outcome.took_effect()
                && event.result.as_ref().is_some_and(|line| line.result.missed) =>
        {
            (Style::new(), "brought too little; ".to_owned())
        }
        ActionOutcome::Done => (Style::new(), String::new()),
        ActionOutcome::GoesOn { reason } => (Style::new(), format!("goes on, {reason}; ")),
        ActionOutcome::Vanished => (DIM, "had ended; ".to_owned()),
        ActionOutcome::Refused { reason } => (DIM, format!("refused, {reason}; ")),
        ActionOutcome::NoActuator => (DIM, "nothing can do that; ".to_owned()),
    };
    let at = seconds(event.until_ns);
    let text = match line.as_thread_move() {
        Some(step) => format!(
            "{at:>9} {} {} {}→{} {failed}{}",
            step.thread.thread_id, line.name, step.from.0, step.to.0, step.reason
        ),
        None => format!("{at:>9} {failed}{}", line.record.action),
    };
    Line::styled(text, style)
}

fn footer(keys: &Keys) -> Paragraph<'static> {
    let text = format!(
        "q quit   s sort ({})   p {}   up/down scroll",
        keys.sort.name(),
        if keys.paused { "go on" } else { "pause" }
    );
    Paragraph::new(Line::styled(text, DIM))
}
