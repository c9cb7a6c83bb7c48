"""The overview: is it working, and if not, why. Every query is of the gateway's own metrics."""

from __future__ import annotations

from grafana.rows_of_traffic import CACHE, FIRST_TOKEN, WORKING
from grafana.rows_of_warmth import RESIDENCY, WARMTH
from grafana.rows_of_work import GATEWAY, ROUTING
from grafana.spec import Dashboard, Variable

OVERVIEW = Dashboard(
    "warmgate-overview",
    "Warmgate: overview",
    "Whether prompt prefixes are found warm, how long the first token takes, and why one was not found.",
    (
        Variable("job", "label_values(warmgate_build_info, job)"),
        Variable("instance", 'label_values(warmgate_build_info{job=~"$job"}, instance)'),
        Variable("backend", 'label_values(warmgate_backend_up{job=~"$job",instance=~"$instance"}, backend)'),
        Variable(
            "model", 'label_values(warmgate_requests_total{job=~"$job",instance=~"$instance",backend=~"$backend"}, model)'
        ),
    ),
    (WORKING, FIRST_TOKEN, CACHE, RESIDENCY, WARMTH, ROUTING, GATEWAY),
)
