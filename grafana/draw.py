"""Grafana's JSON of a dashboard, made with its own library."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.spec import Dashboard, Panel, Query, Spot, Variable, placed

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
EVERY = ".*"
"""What `All` stands for: also requests that reached no backend."""

DASHED = [model.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]})]

PANELS: dict[str, Any] = {
    "stat": stat.Panel,
    "lines": timeseries.Panel,
    "stacked": timeseries.Panel,
    "heatmap": heatmap.Panel,
    "states": statetimeline.Panel,
}


def render(board: Dashboard) -> str:
    """The file's text."""
    made = dashboard.Dashboard(board.title).uid(board.uid).description(board.text).tags(["warmgate"]).timezone("browser")
    made = made.refresh("30s").time("now-6h", "now").readonly().tooltip(model.DashboardCursorSync.CROSSHAIR)
    made = made.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    for number, (part, spot) in enumerate(placed(board.rows), 1):
        if isinstance(part, Panel):
            made = made.with_panel(_panel(part).id(number).grid_pos(_grid(spot)))
        else:
            made = made.with_row(dashboard.Row(part.title).id(number).grid_pos(_grid(spot)))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _variable(variable: Variable) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(variable.name).label(variable.name.capitalize()).query(variable.query)
    made = made.datasource(DATASOURCE).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made = made.sort(model.VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).all_value(EVERY)
    return made.current(model.VariableOption(text="All", value="$__all"))


def _panel(panel: Panel) -> Any:
    made = PANELS[panel.kind]().title(panel.title).description(panel.text).unit(panel.unit).datasource(DATASOURCE)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        made = made.with_target(_target(panel, query).ref_id(letter))
    made = LOOKS[panel.kind](made)
    if panel.steps:
        steps = [
            model.Threshold(value=value if place else None, color=color) for place, (color, value) in enumerate(panel.steps)
        ]
        made = made.thresholds(dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps))
    if panel.words:
        results = {
            str(value): model.ValueMappingResult(text=text, color=color, index=place)
            for place, (value, text, color) in enumerate(panel.words)
        }
        made = made.mappings([model.ValueMap(options=results)])
    if panel.dashed:
        made = made.override_by_regexp(panel.dashed, DASHED)
    return made if panel.most is None else made.max(panel.most)


def _target(panel: Panel, query: Query) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).datasource(DATASOURCE)
    if panel.kind == "heatmap":
        made = made.format(PromQueryFormat.HEATMAP)
    return made.instant() if panel.kind == "stat" else made.range()


def _stat(made: stat.Panel) -> stat.Panel:
    made = made.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return made.graph_mode(looks.BigValueGraphMode.NONE).color_mode(looks.BigValueColorMode.VALUE).no_value("no data")


def _lines(made: timeseries.Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(looks.LegendDisplayMode.LIST).placement(looks.LegendPlacement.BOTTOM)
    made = made.tooltip(common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI).sort(looks.SortOrder.DESCENDING))
    return made.legend(legend.show_legend(True).calcs([])).line_width(1).min(0)


def _stacked(made: timeseries.Panel) -> timeseries.Panel:
    return _lines(made).fill_opacity(40).stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL).group("A"))


def _heatmap(made: heatmap.Panel) -> heatmap.Panel:
    made = made.calculate(False).color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
    return (
        made.cell_values(heatmap.CellValues().unit("reqps"))
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .show_legend()
        .show_tooltip()
    )


def _states(made: statetimeline.Panel) -> statetimeline.Panel:
    return made.merge_values(True).row_height(0.8).show_value(looks.VisibilityMode.AUTO)


LOOKS: dict[str, Any] = {"stat": _stat, "lines": _lines, "stacked": _stacked, "heatmap": _heatmap, "states": _states}


def _grid(spot: Spot) -> model.GridPos:
    return model.GridPos(h=spot.height, w=spot.width, x=spot.x, y=spot.y)
