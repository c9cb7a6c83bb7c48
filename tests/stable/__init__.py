"""The canonical form through the real gateway: what the servers behind it receive, and what they can reuse."""
