//! The parallel-TCP paper's comparison on real kernels: NewReno, Scalable, HS-TCP, H-TCP and CUBIC, single and parallel,
//! over a dumbbell of 10 Mb/s; and longhaul's own control on the same path. The simulator's experiments of these names
//! give path, claims and what the paper leaves open.

mod measure;
mod verdicts;

use super::bench::Bench;
use super::{Claim, Experiment, ExperimentError, Findings};
use longhaul_sim::experiments::ptcp::{
    BACKGROUND_BYTES, BACKGROUND_LOAD, FAIRNESS, FULL, LOSS, MSS, RATE_MBIT, RTT_MS, START_GAP, UTILISATION,
};
use longhaul_sim::experiments::{Column, Plot, Statement, Table, Unit};
use measure::{Cell, Contender, Grid, Measured};

/// One for each of the paper's figures. One measurement serves all three.
pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "ptcp-utilisation",
        title: "How much of a 10 Mb/s link 1 to 30 parallel kernel TCPs of five kinds use",
        claims: &UTILISATION_CLAIMS,
        has_parts: false,
        measure: |bench| report(bench, &Figure::UTILISATION),
    },
    Experiment {
        id: "ptcp-loss",
        title: "How much 1 to 30 parallel kernel TCPs of five kinds lose on a 10 Mb/s link",
        claims: &LOSS_CLAIMS,
        has_parts: false,
        measure: |bench| report(bench, &Figure::LOSS),
    },
    Experiment {
        id: "ptcp-fairness",
        title: "How fairly 1 to 30 parallel kernel TCPs of five kinds share a 10 Mb/s link",
        claims: &FAIRNESS_CLAIMS,
        has_parts: false,
        measure: |bench| report(bench, &Figure::FAIRNESS),
    },
];

const ONE_IS_ENOUGH: Claim = Claim::ours(
    "one flow of longhaul's default control uses the link as ten TCPs do (2 points less at most)",
);
const LOSES_LESS: Claim =
    Claim::ours("flows of longhaul's default control lose no more than as many of CUBIC, at every count");
const AS_FAIR: Claim = Claim::ours(
    "flows of longhaul's default control share as fairly as CUBIC's, in the mean (0.05 less at most)",
);
const UTILISATION_CLAIMS: [Claim; 4] = [UTILISATION[0], UTILISATION[1], UTILISATION[2], ONE_IS_ENOUGH];
const LOSS_CLAIMS: [Claim; 4] = [LOSS[0], LOSS[1], LOSS[2], LOSES_LESS];
const FAIRNESS_CLAIMS: [Claim; 3] = [FAIRNESS[0], FAIRNESS[1], AS_FAIR];

/// What is shown, and how it is judged.
struct Figure {
    name: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Cell) -> f64,
    judge: fn(&Grid) -> Vec<Statement>,
}

impl Figure {
    const UTILISATION: Figure = Figure {
        name: "utilisation",
        title: "Utilisation",
        unit: Unit::Share,
        of: |cell| cell.utilisation,
        judge: verdicts::utilisation,
    };
    const LOSS: Figure = Figure {
        name: "loss",
        title: "Loss",
        unit: Unit::Share,
        of: |cell| cell.loss,
        judge: verdicts::loss,
    };
    const FAIRNESS: Figure = Figure {
        name: "Jain index",
        title: "Jain's index",
        unit: Unit::Number,
        of: |cell| cell.jain,
        judge: verdicts::fairness,
    };
}

fn report(bench: &Bench<'_>, figure: &Figure) -> Result<Findings, ExperimentError> {
    let measured = measure::once(bench)?;
    let mut tables = vec![];
    for (buffer_bdp, grid) in &measured.grids {
        tables.push(wide(figure, *buffer_bdp, grid));
        tables.push(long(figure, *buffer_bdp, grid));
    }
    let statements = measured.grids.first().map_or(vec![], |(_, grid)| (figure.judge)(grid));
    Ok(Findings { method: method(&measured), tables, statements })
}

/// As the paper's tables: a row for each variant.
fn wide(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let mut columns = vec![Column::text("variant")];
    columns.extend(grid.counts.iter().map(|count| Column::new(format!("{count} flows"), figure.unit)));
    columns.push(Column::new("mean", figure.unit));
    let title = format!("{} with a buffer of {buffer_bdp} bandwidth-delay products", figure.title);
    let mut table = Table::new(format!("buffer_{buffer_bdp}_bdp"), title, columns);
    for (contender, cells) in &grid.rows {
        let mut row = vec![contender.name().into()];
        row.extend(cells.iter().map(|cell| (figure.of)(cell).into()));
        row.push(measure::mean(cells.iter().map(figure.of)).into());
        table.push(row);
    }
    table
}

/// The same, to be drawn.
fn long(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let columns = vec![
        Column::text("variant"),
        Column::new("flows", Unit::Number),
        Column::new(figure.name, figure.unit),
        Column::new("goodput", Unit::Mbps),
    ];
    let title = format!("{} by flows, buffer {buffer_bdp} BDP", figure.title);
    let mut table = Table::new(format!("flows_buffer_{buffer_bdp}_bdp"), title, columns).detail();
    for (contender, cells) in &grid.rows {
        for (count, cell) in grid.counts.iter().zip(cells) {
            let figure = (figure.of)(cell);
            table.push(vec![contender.name().into(), (*count).into(), figure.into(), cell.mbps.into()]);
        }
    }
    table.plot(Plot::lines("flows", &[figure.name]).by("variant"))
}

fn method(measured: &Measured) -> Vec<String> {
    let mut method = vec![
        format!(
            "The kernel's own TCP, one congestion control at a time, without selective acknowledgements, over {RATE_MBIT} \
             Mb/s, {RTT_MS} ms, MSS {MSS}, a reverse path without loss; flows begin {} ms after one another and go on. \
             Measured for {} s from {} s after the last has begun ({} s where it is alone); means of {} seed(s). Utilisation: what programs got, \
             the background's included, over the link's rate ({:.1} % is full: headers); loss: packets dropped at the \
             link over packets sent to it; Jain's index over what each flow's program got.",
            START_GAP.as_millis(),
            measured.times.measure_s,
            measured.times.settle_s,
            measured.times.settle_alone_s,
            measured.times.seeds,
            FULL * 100.0
        ),
        format!(
            "The paper gives neither delay nor buffer, duration or background traffic; these are ours. Background: short \
             flows of the kernel's NewReno (Pareto, {:.0} kB in the mean) that ask for {:.0} % of the link. `{}`: \
             longhaul's default control, each flow an object transfer over UDP, in clear.",
            BACKGROUND_BYTES / 1e3,
            BACKGROUND_LOAD * 100.0,
            Contender::Adaptive.name()
        ),
    ];
    method.extend(measured.remarks.iter().cloned());
    method
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_row_for_each_variant_and_a_mark_for_each_cell() {
        let cell = Cell { utilisation: 0.9, loss: 0.01, jain: 0.99, mbps: 9.0 };
        let rows = vec![(Contender::Adaptive, vec![cell; 2])];
        let grid = Grid { counts: vec![1, 10], rows };
        let table = wide(&Figure::LOSS, 0.25, &grid);
        assert_eq!((table.name.as_str(), table.columns.len(), table.rows.len()), ("buffer_0.25_bdp", 4, 1));
        assert_eq!(long(&Figure::LOSS, 0.25, &grid).rows.len(), 2);
    }
}
