"""Dashboards and alerts for what Warmgate measures."""
